package jobstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Target is a job as it was found for a bulk action. Attempt and Generation are its version: it counts only while it has
// them.
type Target struct {
	ID                  int64
	State               string
	Attempt, Generation int
	day                 pgtype.Date // of history
	turn                int
}

// live tells which table it was found in.
func (t *Target) live() bool { return !t.day.Valid }

// Batch is what Find found.
type Batch struct {
	Targets []Target // in the order in which to touch them
	Last    int64    // where the next batch goes on
	More    bool     // there may be a next batch
}

// Highest is the highest number of any job, or 0.
func (s *Store) Highest(ctx context.Context, q Querier) (id int64, err error) {
	if err := s.byIndex(ctx, q, s.inspect.highest, nil, []any{&id}, func() {}); err != nil {
		return 0, fmt.Errorf("find the highest job: %w", err)
	}
	return id, nil
}

// Find finds the next jobs behind a number, at most batch, looking at no more than scan rows.
func (s *Store) Find(ctx context.Context, q Querier, filter *Filter, after int64, batch, scan int) (*Batch, error) {
	found := &Batch{Last: after}
	var scanned, turn, attempt, generation *int
	var more *bool
	var last, id *int64
	var state *string
	var day pgtype.Date
	err := s.byIndex(ctx, q, s.inspect.find, append(filter.args(), after, batch, scan),
		[]any{&scanned, &more, &last, &id, &state, &attempt, &generation, &day, &turn}, func() {
			if last != nil {
				found.Last, found.More = *last, *more
			}
			if id == nil {
				return
			}
			found.Targets = append(found.Targets, Target{
				ID: *id, State: *state, Attempt: *attempt, Generation: *generation, day: day, turn: *turn,
			})
			if last == nil { // the batch is full
				found.Last, found.More = max(found.Last, *id), true
			}
		})
	if err != nil {
		return nil, fmt.Errorf("find jobs: %w", err)
	}
	slices.SortFunc(found.Targets, func(a, b Target) int { return a.turn - b.turn })
	return found, nil
}

// Answer is what a bulk action did to one job. A job without an answer was not touched.
type Answer struct {
	ID      int64
	Outcome string // Retried, KeyTaken, StillLive, NotFound, CancelledNow, CancelRequested or Deleted
	Other   int64  // with KeyTaken: who has it
}

// Deleted is the outcome of a deletion.
const Deleted = "deleted"

// RetryMany brings failed and dead jobs back, inside tx. They become due now, or somewhere within spread.
func (s *Store) RetryMany(ctx context.Context, tx pgx.Tx, targets []Target, spread time.Duration) ([]Answer, error) {
	ids, _, _ := versionsOf(targets)
	batch := &pgx.Batch{}
	batch.Queue(s.inspect.batchSettings)
	answers := queueAnswers(batch, s.inspect.retryMany, ids)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil || spread <= 0 {
		return *answers, err
	}
	var back []int64
	for _, answer := range *answers {
		if answer.Outcome == Retried {
			back = append(back, answer.ID)
		}
	}
	rows, err := tx.Query(ctx, s.inspect.spread, append(freshFor(tx), back, spread.Microseconds())...)
	if err != nil {
		return nil, err
	}
	rows.Close()
	return *answers, rows.Err()
}

// CancelMany ends pending jobs and asks running ones to stop, inside tx.
func (s *Store) CancelMany(ctx context.Context, tx pgx.Tx, targets []Target) ([]Answer, error) {
	ids, attempts, generations := versionsOf(targets)
	batch := &pgx.Batch{}
	batch.Queue(s.inspect.batchSettings)
	answers := queueAnswers(batch, s.inspect.cancelMany, ids, attempts, generations)
	err := tx.SendBatch(ctx, batch).Close()
	return *answers, err
}

// DeleteMany deletes jobs wherever they were found, inside tx; those that run only where running says so.
func (s *Store) DeleteMany(ctx context.Context, tx pgx.Tx, targets []Target, running bool) ([]Answer, error) {
	var live, ended []Target
	for _, target := range targets {
		if target.live() {
			live = append(live, target)
		} else {
			ended = append(ended, target)
		}
	}
	var answers []Answer
	var id int64
	collect := func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			answers = append(answers, Answer{ID: id, Outcome: Deleted})
			return nil
		})
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue(s.inspect.batchSettings)
	if len(live) > 0 {
		ids, attempts, generations := versionsOf(live)
		batch.Queue(s.inspect.deleteLive, ids, attempts, generations, running).Query(collect)
	}
	if len(ended) > 0 {
		ids, attempts, _ := versionsOf(ended)
		days := make([]pgtype.Date, len(ended))
		for i := range ended {
			days[i] = ended[i].day
		}
		batch.Queue(s.inspect.deleteEnded, ids, days, attempts).Query(collect)
	}
	err := tx.SendBatch(ctx, batch).Close()
	return answers, err
}

// DeleteOne deletes a job wherever it is, if it has that version (nil: any). It answers with the state in which it was, or
// with "" where nothing was deleted.
func (s *Store) DeleteOne(ctx context.Context, q Querier, id int64, running bool, attempt, generation *int) (string, error) {
	return single(ctx, q, s.inspect.deleteOne, id, running, attempt, generation)
}

// Versions reads where jobs stand, live or finished; those that are nowhere are left out.
func (s *Store) Versions(ctx context.Context, q Querier, ids []int64) ([]Target, error) {
	rows, err := q.Query(ctx, s.inspect.versions, append(freshFor(q), ids)...)
	if err != nil {
		return nil, fmt.Errorf("look where jobs stand: %w", err)
	}
	var all []Target
	var row Target
	_, err = pgx.ForEachRow(rows, []any{&row.ID, &row.State, &row.Attempt, &row.Generation}, func() error {
		all = append(all, row)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look where jobs stand: %w", err)
	}
	return all, nil
}

// queueAnswers adds a statement that answers with id, outcome and other.
func queueAnswers(batch *pgx.Batch, sql string, args ...any) *[]Answer {
	answers := &[]Answer{}
	var answer Answer
	var other *int64
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&answer.ID, &answer.Outcome, &other}, func() error {
			answer.Other = 0
			if other != nil {
				answer.Other = *other
			}
			*answers = append(*answers, answer)
			return nil
		})
		return err
	})
	return answers
}

// versionsOf are the columns of targets.
func versionsOf(targets []Target) (ids []int64, attempts, generations []int32) {
	for i := range targets {
		ids = append(ids, targets[i].ID)
		attempts = append(attempts, int32(targets[i].Attempt))
		generations = append(generations, int32(targets[i].Generation))
	}
	return ids, attempts, generations
}
