package pgqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// Bounds of [Inspector.Samples].
const (
	DefaultSampleLimit = 100_000
	MaxSampleLimit     = 1_000_000
	// MaxSampleScan is how many finished jobs are looked at, whatever a filter leaves of them.
	MaxSampleScan = 3_000_000
)

// SampleFilter says which samples are meant. The zero value means the latest [DefaultSampleLimit] of all queues and kinds.
type SampleFilter struct {
	Queue string    // empty: all
	Kind  string    // empty: all
	Since time.Time // only jobs that finished then or later; zero: whatever history keeps
	// Limit is how many samples there are at most: [DefaultSampleLimit] if it is 0, at most [MaxSampleLimit].
	Limit int
}

// SampleOutcome is how an attempt ended.
type SampleOutcome string

// The outcomes of attempts.
const (
	SampleSucceeded SampleOutcome = "succeeded"
	SampleRetried   SampleOutcome = "retried" // it failed, and the job was tried again
	SampleFailed    SampleOutcome = "failed"  // it failed, and trying again was pointless
	SampleDead      SampleOutcome = "dead"    // it failed, and was the last
	SampleCancelled SampleOutcome = "cancelled"
)

// Sample is what one attempt took. It holds nothing of what the job was about.
type Sample struct {
	FinishedAt time.Time
	// Wait is how long the attempt had been due before it was claimed, and Run how long it took from the claim to its outcome. Below
	// zero: not known; the wait of an attempt that was retried never is.
	Wait, Run   time.Duration
	Outcome     SampleOutcome
	Queue, Kind string
	Attempt     int
}

// SampleSummary says what a call of [Inspector.Samples] has given.
type SampleSummary struct {
	Count int
	// Since is how far back the samples reach: that of the filter, or where More is set when the earliest of them finished. Zero: all that
	// history keeps.
	Since time.Time
	// More says that a bound was reached, so that there may be others: jobs with lower numbers.
	More bool
}

// notKnown is the wait or run of a sample of which it is not stored.
const notKnown = time.Duration(-1)

// Samples reads what finished jobs have taken, the latest days first and in them the latest numbers, then what failed or died in the same
// time; each is given to yield as it arrives. Nothing is kept, so a million take as little memory here as one. Of a job these are
// its last attempt and those of its earlier ones that failed and are stored (the last ten). An error of yield ends the reading
// and is returned; so does the end of ctx, which cancels the statement.
//
// It is no cheap call: a million samples keep a connection and a processor of the server busy for some seconds. It looks at no
// more than [MaxSampleScan] finished jobs. It takes a connection of its own out of a pool for each day of history, so what is
// read is no snapshot. Successes of a queue whose History is off are not stored, and not read.
func (i *Inspector) Samples(ctx context.Context, filter SampleFilter, yield func(Sample) error) (SampleSummary, error) {
	if err := runsOn(i.q); err != nil {
		return SampleSummary{}, fmt.Errorf("read samples: %w", err)
	}
	ask, err := filter.check()
	if err != nil {
		return SampleSummary{}, fmt.Errorf("read samples: %w", err)
	}
	run := &sampling{inspector: i, ask: ask, limit: ask.Limit, left: ask.Limit, scan: MaxSampleScan, yield: yield}
	if err := run.all(ctx); err != nil {
		return SampleSummary{}, explained(err)
	}
	return run.summary(), nil
}

// check says what is wrong with the filter, or gives it in the form of the statements.
func (f SampleFilter) check() (*jobstore.SampleAsk, error) {
	ask := &jobstore.SampleAsk{Limit: f.Limit}
	for _, one := range []struct {
		field, value string
		to           **string
	}{{"queue", f.Queue, &ask.Queue}, {"kind", f.Kind, &ask.Kind}} {
		if one.value == "" {
			continue
		}
		if err := checkName(one.field, one.value); err != nil {
			return nil, err
		}
		*one.to = &one.value
	}
	if !f.Since.IsZero() {
		if f.Since.Year() < 1 || f.Since.Year() > 9999 {
			return nil, invalid("since", "must lie in the years 1 to 9999")
		}
		ask.Since = &f.Since
	}
	switch {
	case f.Limit == 0:
		ask.Limit = DefaultSampleLimit
	case f.Limit < 0 || f.Limit > MaxSampleLimit:
		return nil, invalid("limit", fmt.Sprintf("must be from 1 to %d, is %d", MaxSampleLimit, f.Limit))
	}
	return ask, nil
}

// sampling is one call of Samples.
type sampling struct {
	inspector         *Inspector
	ask               *jobstore.SampleAsk
	limit, left, scan int
	yield             func(Sample) error
	earliest          time.Time // of what finished
	more              bool
}

func (s *sampling) all(ctx context.Context) error {
	i := s.inspector
	days, err := i.store.SampleDays(ctx, i.q)
	if err != nil {
		return err
	}
	// What failed is read last, of the time that the successes reach back to: so both tell of the same hours. A place is kept for it.
	bad, err := i.store.CountAttention(ctx, i.q, s.ask, s.limit/4)
	if err != nil {
		return err
	}
	s.left -= bad
	for n, day := range days {
		if s.ask.Since != nil && day.Before(s.ask.Since.UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)) {
			break // a day earlier: a transaction may have been open across midnight
		}
		if s.left <= 0 || s.scan <= 0 {
			s.more = s.more || n < len(days)
			break
		}
		looked, err := i.store.SamplesOfDay(ctx, i.q, day, s.part(), s.take)
		if err != nil {
			return err
		}
		s.scan -= looked
		s.more = s.more || s.left <= 0 || s.scan <= 0
	}
	s.left += bad
	s.scan = max(s.scan, s.limit/4) // the count above has bounded it
	if s.more && !s.earliest.IsZero() {
		s.ask.Since = &s.earliest
	}
	_, err = i.store.SamplesOfAttention(ctx, i.q, s.part(), s.take)
	if s.left <= 0 {
		s.more = true
	}
	return err
}

// part is what is still to be asked for.
func (s *sampling) part() *jobstore.SampleAsk {
	ask := *s.ask
	ask.Limit, ask.Scan = s.left, s.scan
	return &ask
}

// take makes samples of a job.
func (s *sampling) take(job *jobstore.Sampled) error {
	if s.left <= 0 {
		return nil // one of the rows beyond, of which there are few unless many were retried
	}
	if !job.FinishedAt.IsZero() && (s.earliest.IsZero() || job.FinishedAt.Before(s.earliest)) {
		s.earliest = job.FinishedAt
	}
	sample := Sample{Queue: job.Queue, Kind: job.Kind}
	last := false // the last attempt is one of those that failed
	for _, failed := range job.Errors {
		if failed.At.IsZero() || failed.Attempt > job.Attempt {
			continue
		}
		if failed.Attempt == job.Attempt {
			last = true
			continue
		}
		sample.FinishedAt, sample.Attempt, sample.Outcome, sample.Wait = failed.At, failed.Attempt, SampleRetried, notKnown
		sample.Run = between(failed.Started, failed.At)
		if s.ask.Since != nil && failed.At.Before(*s.ask.Since) {
			continue
		}
		if err := s.give(sample); err != nil || s.left <= 0 {
			return err
		}
	}
	if job.State == string(SampleCancelled) && (job.ClaimedAt.IsZero() || last) {
		return nil // it was cancelled while it waited: that was no attempt
	}
	sample.FinishedAt, sample.Attempt, sample.Outcome = job.FinishedAt, job.Attempt, SampleOutcome(job.State)
	sample.Wait, sample.Run = between(job.RunAt, job.ClaimedAt), between(job.ClaimedAt, job.FinishedAt)
	return s.give(sample)
}

func (s *sampling) give(sample Sample) error {
	s.left--
	return s.yield(sample)
}

// between is the time from one instant to another, at least 0; unknown if one of them is.
func between(from, to time.Time) time.Duration {
	if from.IsZero() || to.IsZero() {
		return notKnown
	}
	return max(0, to.Sub(from))
}

func (s *sampling) summary() SampleSummary {
	summary := SampleSummary{Count: s.limit - s.left, More: s.more}
	if s.ask.Since != nil {
		summary.Since = *s.ask.Since
	}
	return summary
}
