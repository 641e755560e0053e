package pgqueuetest

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
)

// template is a migrated database that is copied and never connected to again.
type template struct {
	schema string
	mu     sync.Mutex // held while it is made; the other tests wait
	name   string     // "" until it is made
}

// template returns the one for the schema.
func (s *source) template(schema string) *template {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.templates[schema]
	if t == nil {
		t = &template{schema: schema}
		s.templates[schema] = t
	}
	return t
}

// get returns the template's name and makes it when there is none. A failure is not kept: the next test tries again, and tells
// its own story when it fails too.
func (t *template) get(ctx context.Context, s *source) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.name != "" {
		return t.name, nil
	}
	name := s.name("template")
	if err := s.copy(ctx, name, "template0"); err != nil {
		return "", err
	}
	if err := t.fill(ctx, s, name); err != nil {
		s.drop(context.WithoutCancel(ctx), name) //nolint:errcheck // the first error is the one that matters
		return "", err
	}
	t.name = name
	return name, nil
}

// fill migrates the new database and closes it for ever: a single connection to it makes every copy fail.
func (t *template) fill(ctx context.Context, s *source, name string) error {
	config, err := pgx.ParseConfig(urlOf(s.direct, name))
	if err != nil {
		return err
	}
	if err := on(ctx, config, func(conn *pgx.Conn) error { return s.migrate(ctx, conn, t.schema) }); err != nil {
		return err
	}
	return s.do(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "ALTER DATABASE "+quote(name)+" ALLOW_CONNECTIONS false")
		return err
	})
}
