package jobstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Stats is what one queue holds. Each number counts to bound and no further; one more than that says that there are
// more.
type Stats struct {
	Queue               string
	PausedAt            time.Time // zero: not paused
	PausedUntil         time.Time // zero: not paused, or until it is resumed
	PausedReason        string
	History             string
	Ready               [4]int // by priority
	OldestReady         time.Duration
	Scheduled, Retrying int
	Future              int // the most of Scheduled and Retrying together that one priority has
	Running, Expired    int
	Failed, Dead        int
	Attention           int // Failed and Dead together
}

// Stats reads what queues hold, in one statement, in the order of names.
func (s *Store) Stats(ctx context.Context, q Querier, names []string, bound int) ([]Stats, error) {
	all := make([]Stats, 0, len(names))
	var row Stats
	var paused, until pgtype.Timestamptz
	var reason *string
	var ready []int
	var oldest float64
	into := []any{
		&row.Queue, &paused, &until, &reason, &row.History, &ready, &oldest, &row.Scheduled, &row.Retrying, &row.Future, &row.Running, &row.Expired,
		&row.Failed, &row.Dead, &row.Attention,
	}
	for _, group := range s.sql.eachQueue(names) {
		err := s.byIndex(ctx, q, s.sql.stats, []any{group, bound}, into, func() {
			next := row
			next.PausedAt, next.PausedUntil = finite(paused), finite(until)
			if reason != nil {
				next.PausedReason = *reason
			}
			copy(next.Ready[:], ready)
			next.OldestReady = time.Duration(oldest * float64(time.Second))
			all = append(all, next)
		})
		if err != nil {
			return nil, fmt.Errorf("read the numbers of queues: %w", err)
		}
	}
	return all, nil
}

// QueueNames lists the queues that hold anything or have settings, sorted, at most so many.
func (s *Store) QueueNames(ctx context.Context, q Querier, limit int) ([]string, error) {
	var names []string
	var name string
	err := s.byIndex(ctx, q, s.sql.queues, []any{limit}, []any{&name}, func() { names = append(names, name) })
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	return names, nil
}

// byIndex runs a statement that must not be planned in any other way, in one round trip that is one implicit transaction.
// Inside a caller's transaction the settings would stay until its end: there a savepoint takes them back.
func (s *Store) byIndex(ctx context.Context, q Querier, sql string, args, into []any, row func()) error {
	tx, ok := q.(pgx.Tx)
	if !ok {
		return s.sendByIndex(ctx, q, sql, args, into, row)
	}
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	err = s.sendByIndex(ctx, savepoint, sql, args, into, row)
	if undo := savepoint.Rollback(ctx); err == nil {
		err = undo
	}
	return err
}

func (s *Store) sendByIndex(ctx context.Context, q Querier, sql string, args, into []any, row func()) error {
	batch := &pgx.Batch{}
	batch.Queue(s.sql.byIndex)
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, into, func() error {
			row()
			return nil
		})
		return err
	})
	return q.SendBatch(ctx, batch).Close()
}
