package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/schedule"
)

// session is a connected command.
type session struct {
	pool      *pgxpool.Pool
	schema    string
	inspector *pgqueue.Inspector // acts in the name of --actor and writes the audit log
	client    *pgqueue.Client
	editor    *schedule.Editor
}

func (s *session) close() { s.pool.Close() }

// connect opens the database that flags and environment name. Errors hold no secret.
func (a *app) connect(ctx context.Context) (*session, error) {
	return nil, errors.New("not connected")
}
