package jobstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/runner"
)

// ErrResult says that a result is not JSON that Postgres can store. Nothing was sent.
var ErrResult = errors.New("the result is not valid JSON for Postgres")

// CompleteTx completes a claimed job inside tx, which is the caller's: the success becomes true with its COMMIT and not
// otherwise. It takes one round trip and waits while somebody else holds the row. [runner.Lost] means that the claim no
// longer stands and nothing was done; [runner.Superseded] that the job is pending again with newer input. Both are answers
// and not errors, and leave tx as usable as it was.
func (s *Store) CompleteTx(ctx context.Context, tx pgx.Tx, row *Row, result json.RawMessage) (runner.Outcome, error) {
	var text *string
	if len(result) > 0 && row.history() != historyOff {
		value := string(result)
		if !storable(value) {
			return 0, fmt.Errorf("complete %s: %w", row, ErrResult)
		}
		text = &value
	}
	state, err := single(ctx, tx, s.sql.settle, row.Queue, row.ID, row.Attempt, text, row.history())
	if err != nil {
		return 0, fmt.Errorf("complete %s: %w", row, err)
	}
	if state == "" {
		return runner.Lost, nil
	}
	return ended(state), nil
}

// What Cancel and Retry answer; "" means that there is no such job to be found.
const (
	CancelledNow    = "cancelled" // it was pending and has ended
	CancelRequested = "requested" // it is running; its worker learns it with the next renewal
	Retried         = "retried"   // it is pending again, with a new budget
	KeyTaken        = "key_taken" // a newer live job has its key; nothing was changed
)

// Cancel ends a pending job, or asks a running one to stop.
func (s *Store) Cancel(ctx context.Context, q Querier, queue string, id int64) (string, error) {
	outcome, err := single(ctx, q, s.sql.cancel, queue, id)
	if err != nil {
		return "", fmt.Errorf("cancel job %d: %w", id, err)
	}
	return outcome, nil
}

// Retry brings a failed or dead job back.
func (s *Store) Retry(ctx context.Context, q Querier, queue string, id int64) (string, error) {
	outcome, err := single(ctx, q, s.sql.retry, queue, id)
	if err != nil {
		return "", fmt.Errorf("retry job %d: %w", id, err)
	}
	return outcome, nil
}

// QueueSettings are the changes to a queue's settings; nil leaves one as it is.
type QueueSettings struct {
	Paused  *bool   // true: nothing more is claimed
	Reason  string  // with Paused = true, for people
	History *string // "full", "slim" or "off"
}

// SetQueue changes the settings of a queue, which needs no row before.
func (s *Store) SetQueue(ctx context.Context, q Querier, name string, settings QueueSettings) error {
	var reason *string
	if settings.Reason != "" {
		reason = &settings.Reason
	}
	if _, err := single(ctx, q, s.sql.setQueue, name, settings.Paused, reason, settings.History); err != nil {
		return fmt.Errorf("set queue %q: %w", name, err)
	}
	return nil
}

// single runs a statement that answers with one text or nothing. It is planned anew where q would keep the plan: on a
// queue that has just been empty, the plan to keep is a scan of the whole table.
func single(ctx context.Context, q Querier, sql string, args ...any) (string, error) {
	rows, err := q.Query(ctx, sql, slices.Concat(freshFor(q), args)...)
	if err != nil {
		return "", err
	}
	var answer string
	if _, err := pgx.ForEachRow(rows, []any{&answer}, func() error { return nil }); err != nil {
		return "", err
	}
	return answer, nil
}

// freshFor is freshMode of what q runs on. What it cannot look into is left as it is.
func freshFor(q Querier) []any {
	switch q := q.(type) {
	case *pgxpool.Pool:
		return freshMode(q.Config().ConnConfig)
	case *pgx.Conn:
		return freshMode(q.Config())
	case interface{ Conn() *pgx.Conn }: // transactions and acquired connections
		if conn := q.Conn(); conn != nil {
			return freshMode(conn.Config())
		}
	}
	return nil
}
