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
	// MaxSampleScan is how many finished jobs are looked at, whatever a filter leaves of them, where they are found by an index.
	MaxSampleScan = 3_000_000
	// MaxSamplePages is how many pages of history are looked at where they are not: 2 GB.
	MaxSamplePages = 262_144
)

// How many pages one statement reads: as many as hold some thousand rows that match.
const (
	minSampleStep   = 32
	firstSampleStep = 256
	maxSampleStep   = 8_192
	fewSamples      = 4_000
	manySamples     = 20_000
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

// Samples reads what finished jobs have taken: what succeeded or was cancelled, the latest first, then what failed or died in the same
// time; each is given to yield as it arrives. Nothing is kept, so a million take as little memory here as one. Of a job these are
// its last attempt and those of its earlier ones that failed and are stored (the last ten). An error of yield ends the reading
// and is returned; so does the end of ctx, which cancels the statement.
//
// It is no cheap call: a million samples keep a connection and a processor of the server busy for some seconds. It looks at no
// more than [MaxSamplePages] of history, from its end, and [MaxSampleScan] failed and dead jobs. It sends a statement for every few
// thousand rows, so what is read is no snapshot. Successes of a queue whose History is off are not stored, and not read.
func (i *Inspector) Samples(ctx context.Context, filter SampleFilter, yield func(Sample) error) (SampleSummary, error) {
	if err := runsOn(i.q); err != nil {
		return SampleSummary{}, fmt.Errorf("read samples: %w", err)
	}
	ask, err := filter.check()
	if err != nil {
		return SampleSummary{}, fmt.Errorf("read samples: %w", err)
	}
	run := &sampling{inspector: i, ask: ask, limit: ask.Limit, left: ask.Limit, scan: MaxSampleScan, pages: MaxSamplePages, yield: yield}
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
	pages             int64
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
	for _, day := range days {
		if s.ask.Since != nil && day.Day.Before(s.ask.Since.UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)) {
			break // a day earlier: a transaction may have been open across midnight
		}
		if s.full() {
			break
		}
		if day.ByNumber {
			looked, err := i.store.SamplesOfDay(ctx, i.q, day.Day, s.part(), s.take)
			if err != nil {
				return err
			}
			s.scan -= looked
		} else if err := s.pagesOf(ctx, day); err != nil {
			return err
		}
		s.more = s.more || s.full()
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

// full says that a bound is reached.
func (s *sampling) full() bool { return s.left <= 0 || s.scan <= 0 || s.pages <= 0 }

// pagesOf walks a partition from its last page to its first. The latest rows are in the last ones, so a window ends the walk with the
// first step in which nothing is that late. (Writers extend a table side by side, but not by as much as a step.)
func (s *sampling) pagesOf(ctx context.Context, day jobstore.SampleDay) error {
	i, step := s.inspector, int64(firstSampleStep)
	for end := day.Pages; end > 0 && !s.full(); {
		first := max(0, end-min(step, s.pages))
		before := s.left
		if err := i.store.SamplesOfPages(ctx, i.q, day.Day, first, end, s.part(), s.take); err != nil {
			return err
		}
		found := before - s.left
		if found == 0 && s.ask.Since != nil {
			if reaches, err := i.store.SamplesReach(ctx, i.q, day.Day, first, end, *s.ask.Since); err != nil || !reaches {
				return err
			}
		}
		s.pages -= end - first
		end = first
		switch {
		case found < fewSamples:
			step = min(2*step, maxSampleStep)
		case found > manySamples:
			step = max(step/2, minSampleStep)
		}
	}
	return nil
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
