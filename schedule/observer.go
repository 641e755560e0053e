package schedule

import (
	"fmt"
	"time"
)

// The observer interfaces of this package: [Config].Observer may implement any of them. Their methods are called by the goroutine that did
// the work, several at a time: they must only count and return. A panic in one is contained and logged. Several observers are put
// together by [pgqueue.Observers]. The names of schedules come from your programs and from whoever may write the table.

// TickEvent is a tick that has been dealt with, and committed.
type TickEvent struct {
	Tick
	JobID   int64 // 0 where no job was wanted: skipped by the policy, or by [ErrSkip]
	Skipped bool
	// Late is how long after the tick it was, by the database's clock.
	Late time.Duration
}

// TickObserver is told of each tick.
type TickObserver interface{ ScheduleTicked(e TickEvent) }

// ErrorEvent is a schedule whose tick could not be enqueued, or whose specification is not understood.
type ErrorEvent struct {
	Schedule string
	Err      error
	Failures int           // in a row, this one included
	RetryIn  time.Duration // when it is tried again
}

// ErrorObserver is told of each failure.
type ErrorObserver interface{ ScheduleFailed(e ErrorEvent) }

// observers are those of a scheduler, looked up once.
type observers struct {
	ticks  []TickObserver
	errors []ErrorObserver
}

func newObservers(observer any) observers {
	var found observers
	for _, one := range each(observer) {
		if o, ok := one.(TickObserver); ok {
			found.ticks = append(found.ticks, o)
		}
		if o, ok := one.(ErrorObserver); ok {
			found.errors = append(found.errors, o)
		}
	}
	return found
}

// each takes apart what pgqueue.Observers has put together.
func each(observer any) []any {
	several, ok := observer.(interface{ Observers() []any })
	if !ok {
		return []any{observer}
	}
	var all []any
	for _, one := range several.Observers() {
		all = append(all, each(one)...)
	}
	return all
}

func (s *Scheduler) tellTick(e TickEvent) {
	for _, o := range s.observers.ticks {
		s.contained(func() { o.ScheduleTicked(e) })
	}
}

func (s *Scheduler) tellError(e ErrorEvent) {
	for _, o := range s.observers.errors {
		s.contained(func() { o.ScheduleFailed(e) })
	}
}

func (s *Scheduler) contained(tell func()) {
	defer func() {
		if cause := recover(); cause != nil {
			s.config.Logger.Error("schedule: an observer panicked", "type", fmt.Sprintf("%T", cause))
		}
	}()
	tell()
}
