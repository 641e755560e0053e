package jobstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// sampleStride is how often a row is sent that does not match, so that what was looked at is known; samples.sql has it too.
const sampleStride = 10_000

// SampleAsk asks for what attempts took.
type SampleAsk struct {
	Queue, Kind *string
	Since       *time.Time
	Limit       int // rows at most
	Scan        int // rows to look at
}

// Sampled is one finished job as Samples reads it. Its times are zero where they are not known.
type Sampled struct {
	FinishedAt, ClaimedAt, RunAt time.Time
	State, Queue, Kind           string
	Attempt                      int
	Errors                       []Failed // of its attempts that failed, as far as they are stored
}

// SampleDays lists the days of history, the latest first.
func (s *Store) SampleDays(ctx context.Context, q Querier) ([]time.Time, error) {
	var days []time.Time
	var day pgtype.Date
	err := s.byIndex(ctx, q, s.inspect.sampleDays, []any{pgx.Identifier{s.schema, "history"}.Sanitize()}, []any{&day},
		func() { days = append(days, day.Time) })
	if err != nil {
		return nil, fmt.Errorf("list the days of history: %w", err)
	}
	return days, nil
}

// CountAttention counts the failed and dead jobs that SamplesOfAttention would look at, up to bound.
func (s *Store) CountAttention(ctx context.Context, q Querier, ask *SampleAsk, bound int) (int, error) {
	var count int
	err := s.byIndex(ctx, q, s.inspect.countAttention[of(ask.Queue)], []any{ask.Since, ask.Queue, bound}, []any{&count}, func() {})
	if err != nil {
		return 0, fmt.Errorf("count failed and dead jobs: %w", err)
	}
	return count, nil
}

// SamplesOfDay reads what succeeded or was cancelled on a day, the latest numbers first, and hands each to row as it arrives.
// looked is how many rows were looked at, to within 10,000. An error of row ends it, at the cost of the connection: the rows
// that are under way are not waited for.
func (s *Store) SamplesOfDay(ctx context.Context, q Querier, day time.Time, ask *SampleAsk, row func(*Sampled) error) (looked int, err error) {
	return s.samples(ctx, q, s.inspect.samplesOfDay, pgtype.Date{Time: day, Valid: true}, ask, row)
}

// SamplesOfAttention reads what failed or died, the latest first; otherwise as SamplesOfDay.
func (s *Store) SamplesOfAttention(ctx context.Context, q Querier, ask *SampleAsk, row func(*Sampled) error) (looked int, err error) {
	return s.samples(ctx, q, s.inspect.samplesOfAttention[of(ask.Queue)], pgtype.Date{InfinityModifier: pgtype.Infinity, Valid: true}, ask, row)
}

// of is the form of a statement: of all queues, or of one.
func of(queue *string) int {
	if queue == nil {
		return 0
	}
	return 1
}

func (s *Store) samples(ctx context.Context, q Querier, sql string, day pgtype.Date, ask *SampleAsk, row func(*Sampled) error) (looked int, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var refused error
	var one Sampled
	var n int64
	var matches bool
	var finished, claimed, runAt pgtype.Timestamptz
	var failed *string
	into := []any{&n, &matches, &finished, &claimed, &runAt, &one.State, &one.Queue, &one.Kind, &one.Attempt, &failed}
	args := []any{day, ask.Queue, ask.Kind, ask.Since, int64(ask.Scan), int64(ask.Limit + ask.Scan/sampleStride)}
	err = s.byIndex(ctx, q, sql, args, into, func() {
		looked = int(n)
		if !matches || refused != nil {
			return
		}
		one.FinishedAt, one.ClaimedAt, one.RunAt = finite(finished), finite(claimed), finite(runAt)
		one.Errors = nil
		if failed != nil {
			_ = json.Unmarshal([]byte(*failed), &one.Errors) // an entry that is not as it should be: the others count
		}
		if refused = row(&one); refused != nil {
			stop()
		}
	})
	if refused != nil {
		return looked, refused
	}
	if err != nil {
		return looked, fmt.Errorf("read samples: %w", err)
	}
	return looked, nil
}
