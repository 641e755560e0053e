package jobstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// sampleStride is how often a row is sent that does not match, so that what was looked at is known; inspect_samples.sql has it, too.
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

// SampleDay is a partition of history.
type SampleDay struct {
	Day   time.Time
	Pages int64
	// ByNumber says that its pages do not tell what ended last; see SamplesOfDay.
	ByNumber bool
}

// SampleDays lists the days of history, the latest first.
func (s *Store) SampleDays(ctx context.Context, q Querier) ([]SampleDay, error) {
	var days []SampleDay
	var day pgtype.Date
	var pages int64
	var holes bool
	err := s.byIndex(ctx, q, s.inspect.sampleDays, []any{pgx.Identifier{s.schema, "history"}.Sanitize()}, []any{&day, &pages, &holes},
		func() { days = append(days, SampleDay{Day: day.Time, Pages: pages, ByNumber: holes || s.sql.apart}) })
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

// SamplesOfPages reads what succeeded or was cancelled on a day, as far as it stands in the pages from first up to, but without, end; the
// latest first, and hands each to row as it arrives. An error of row ends it, at the cost of the connection: the rows that are
// under way are not waited for.
func (s *Store) SamplesOfPages(ctx context.Context, q Querier, day time.Time, first, end int64, ask *SampleAsk, row func(*Sampled) error) error {
	_, err := s.samples(ctx, q, s.inspect.samplesOfPages,
		[]any{pgtype.Date{Time: day, Valid: true}, ask.Queue, ask.Kind, ask.Since, placeOfPage(first), placeOfPage(end), int64(ask.Limit)}, row)
	return err
}

// SamplesReach says whether anything in these pages ended at since or later.
func (s *Store) SamplesReach(ctx context.Context, q Querier, day time.Time, first, end int64, since time.Time) (reaches bool, err error) {
	args := []any{pgtype.Date{Time: day, Valid: true}, since, placeOfPage(first), placeOfPage(end)}
	if err := s.byIndex(ctx, q, s.inspect.samplesReach, args, []any{&reaches}, func() {}); err != nil {
		return false, fmt.Errorf("read samples: %w", err)
	}
	return reaches, nil
}

// placeOfPage is before the first row of a page.
func placeOfPage(page int64) pgtype.TID { return pgtype.TID{BlockNumber: uint32(page), Valid: true} }

// SamplesOfDay reads the same of a whole day, the latest numbers first. looked is how many rows were looked at, to within 10,000.
func (s *Store) SamplesOfDay(ctx context.Context, q Querier, day time.Time, ask *SampleAsk, row func(*Sampled) error) (looked int, err error) {
	return s.samples(ctx, q, s.inspect.samplesOfDay, ask.args(pgtype.Date{Time: day, Valid: true}), row)
}

// SamplesOfAttention reads what failed or died, the latest first; otherwise as SamplesOfDay.
func (s *Store) SamplesOfAttention(ctx context.Context, q Querier, ask *SampleAsk, row func(*Sampled) error) (looked int, err error) {
	day := pgtype.Date{InfinityModifier: pgtype.Infinity, Valid: true}
	return s.samples(ctx, q, s.inspect.samplesOfAttention[of(ask.Queue)], ask.args(day), row)
}

func (a *SampleAsk) args(day pgtype.Date) []any {
	return []any{day, a.Queue, a.Kind, a.Since, int64(a.Scan), int64(a.Limit + a.Scan/sampleStride)}
}

// of is the form of a statement: of all queues, or of one.
func of(queue *string) int {
	if queue == nil {
		return 0
	}
	return 1
}

func (s *Store) samples(ctx context.Context, q Querier, sql string, args []any, row func(*Sampled) error) (looked int, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var refused error
	var one Sampled
	var n int64
	var matches bool
	var finished, claimed, runAt pgtype.Timestamptz
	var failed *string
	into := []any{&n, &matches, &finished, &claimed, &runAt, &one.State, &one.Queue, &one.Kind, &one.Attempt, &failed}
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
