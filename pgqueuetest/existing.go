package pgqueuetest

import (
	"context"
	"fmt"
	"testing"
)

// Existing is a server that runs already, such as one in a container. It is safe for concurrent use.
type Existing struct {
	source *source
}

// Use takes the server of which url names any database; the role must be allowed to create databases. It is what New does with
// PGQUEUE_TEST_DATABASE_URL, for programs that know the URL only at run time: keep the answer for all tests of the process, since
// the migrated template is made once for each. What tests of dead processes left on the server is removed.
//
// It keeps one connection open, which tells other processes that this one lives.
func Use(ctx context.Context, url string) (*Existing, error) {
	from, err := newSource(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("pgqueuetest: use a server: %w", err)
	}
	if err := from.claim(ctx); err != nil {
		return nil, fmt.Errorf("pgqueuetest: use a server: %w", err)
	}
	return &Existing{source: from}, nil
}

// DB gives the test a database of its own on the server, as New does on the shared one.
func (e *Existing) DB(t testing.TB, opts ...Option) *DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	return newDB(ctx, t, e.source, newOptions(opts))
}
