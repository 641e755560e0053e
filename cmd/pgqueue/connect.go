package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/schedule"
)

// closeTimeout bounds what a command still sends when it is done: hints that were held back.
const closeTimeout = 5 * time.Second

// session is a connected command.
type session struct {
	pool      *pgxpool.Pool
	schema    string
	inspector *pgqueue.Inspector // acts in the name of --actor and writes the audit log
	client    *pgqueue.Client
	editor    *schedule.Editor
}

// close sends what is due and closes the connections.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = s.client.Close(ctx) // a hint that is lost costs a poll interval
	s.pool.Close()
}

// connect opens the database that flags and environment name, and looks whether pgqueue is installed there. It writes nothing, so a
// standby will do. Errors hold no secret and say what to do.
func (a *app) connect(ctx context.Context) (*session, error) {
	pool, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	s, err := a.newSession(ctx, pool)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// newSession makes a session over a pool that is connected.
func (a *app) newSession(ctx context.Context, pool *pgxpool.Pool) (*session, error) {
	if err := a.installed(ctx, pool); err != nil {
		return nil, err
	}
	s := &session{pool: pool, schema: a.schema()}
	inspector, err := pgqueue.NewInspector(pool, pgqueue.InspectorConfig{
		Schema: s.schema, Logger: a.logger(), Citus: a.flags.citus, Audit: pgqueue.RecordAudit(s.schema, "cli"),
	})
	if err != nil {
		return nil, err
	}
	s.inspector = inspector.As(a.actor())
	options := []pgqueue.ClientOption{pgqueue.WithSchema(s.schema), pgqueue.WithLogger(a.logger()), pgqueue.WithMaxPayload(maxDocument)}
	if a.flags.citus {
		options = append(options, pgqueue.WithCitus())
	}
	if s.client, err = pgqueue.NewClient(pool, options...); err != nil {
		return nil, err
	}
	if s.editor, err = schedule.NewEditor(s.client); err != nil {
		return nil, err
	}
	return s, nil
}

// installed says whether this program can work with what is installed. A role that may not read the version works with what it may.
func (a *app) installed(ctx context.Context, pool *pgxpool.Pool) error {
	state, err := migrations.Status(ctx, pool, a.schema())
	if fromServer, ok := errors.AsType[*pgconn.PgError](err); ok && fromServer.Code == "42501" { // insufficient_privilege
		return nil
	}
	newer := &migrations.NewerSchemaError{Schema: a.schema(), Version: state.Version, Latest: state.Latest}
	switch {
	case err != nil:
		return err
	case state.Version == 0:
		return withHint(fmt.Errorf("pgqueue is not installed in schema %q of database %q", a.schema(), pool.Config().ConnConfig.Database),
			"run %s, or name the schema with --schema or PGQUEUE_SCHEMA", a.command("migrate up"))
	case state.Version > state.Latest && !newer.Compatible():
		return newer
	}
	return nil
}

// open connects and does not look what is there: for migrate, doctor and the like.
func (a *app) open(ctx context.Context) (*pgxpool.Pool, error) {
	target, err := a.target()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, target.config)
	if err == nil {
		if err = pool.Ping(ctx); err == nil {
			return pool, nil
		}
		pool.Close()
	}
	if ctx.Err() != nil {
		return nil, &exitError{code: exitStopped, err: errors.New("stopped while connecting")}
	}
	return nil, target.explain(err)
}
