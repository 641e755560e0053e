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

// ErrNoPartition says that history has no partition for today, or none that this transaction can see. Nothing was done, and
// the transaction is as usable as it was.
var ErrNoPartition = errors.New("history has no partition for today")

// CompleteTx completes a claimed job inside tx, which is the caller's: the success becomes true with its COMMIT and not
// otherwise. It takes one round trip and waits while somebody else holds the row. [runner.Lost] means that the claim no
// longer stands and nothing was done; [runner.Superseded] that the job is pending again with newer input. Both are answers
// and not errors, and leave tx as usable as it was. So do [ErrResult] and [ErrNoPartition]; an error of Postgres aborts tx.
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
	switch state {
	case "":
		return runner.Lost, nil
	case "no_partition":
		return 0, fmt.Errorf("complete %s: %w", row, ErrNoPartition)
	}
	row.setCompleting()
	return ended(state), nil
}

// What Cancel, Retry and SetMaxAttempts answer; the states of jobs are answers of the last one as well.
const (
	CancelledNow    = "cancelled" // it was pending and has ended
	CancelRequested = "requested" // it is running; its worker learns it with the next renewal
	Retried         = "retried"   // it is pending again, with a new budget
	KeyTaken        = "key_taken" // a newer live job has its key; nothing was changed
	StillLive       = "live"      // it has not ended; nothing was changed
	NotFound        = "not_found" // there is no such job in a state that it could be done to
)

// Cancel ends a pending job, or asks a running one to stop.
func (s *Store) Cancel(ctx context.Context, q Querier, id int64) (string, error) {
	outcome, err := single(ctx, q, s.sql.cancel, id)
	if err != nil {
		return "", fmt.Errorf("cancel job %d: %w", id, err)
	}
	return outcome, nil
}

// Retry brings a failed or dead job back. With [KeyTaken], other is the job that has its key.
func (s *Store) Retry(ctx context.Context, q Querier, id int64) (outcome string, other int64, err error) {
	rows, err := q.Query(ctx, s.sql.retry, slices.Concat(freshFor(q), []any{id})...)
	if err != nil {
		return "", 0, fmt.Errorf("retry job %d: %w", id, err)
	}
	var owner *int64
	if _, err := pgx.ForEachRow(rows, []any{&outcome, &owner}, func() error { return nil }); err != nil {
		return "", 0, fmt.Errorf("retry job %d: %w", id, err)
	}
	if owner != nil {
		other = *owner
	}
	return outcome, other, nil
}

// SetMaxAttempts changes how many attempts of a job may fail, and answers with the state in which it is then.
func (s *Store) SetMaxAttempts(ctx context.Context, q Querier, id int64, n int) (string, error) {
	state, err := single(ctx, q, s.sql.setMaxAttempts, id, n)
	if err != nil {
		return "", fmt.Errorf("set the max attempts of job %d: %w", id, err)
	}
	return state, nil
}

// Pause pauses a queue, which needs no settings before. An empty reason is none.
func (s *Store) Pause(ctx context.Context, q Querier, queue, reason string) error {
	if _, err := single(ctx, q, s.sql.pause, queue, reason); err != nil {
		return fmt.Errorf("pause queue %q: %w", queue, err)
	}
	return nil
}

// Resume ends the pause of a queue.
func (s *Store) Resume(ctx context.Context, q Querier, queue string) error {
	if _, err := single(ctx, q, s.sql.resume, queue); err != nil {
		return fmt.Errorf("resume queue %q: %w", queue, err)
	}
	return nil
}

// SetHistory says what a queue keeps of its successes: "full", "slim" or "off".
func (s *Store) SetHistory(ctx context.Context, q Querier, queue, history string) error {
	if _, err := single(ctx, q, s.sql.setHistory, queue, history); err != nil {
		return fmt.Errorf("set the history of queue %q: %w", queue, err)
	}
	return nil
}

// MakePartition makes today's partition of history, in a transaction that q ends soon.
func (s *Store) MakePartition(ctx context.Context, q Querier) error {
	_, err := single(ctx, q, s.sql.makePartition)
	return err
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
