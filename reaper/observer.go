package reaper

import "fmt"

// The observer interfaces are told of events as they happen; [Config].Observer may implement any of them. Methods are
// called on the goroutine of a target, and may be called by several at once: they must only count and return. A panic
// in one is contained.

// RecoveredObserver is told of each Recover that took leases.
type RecoveredObserver interface {
	ReaperRecovered(target string, recovered Recovered)
}

// FailureObserver is told of each failed call; operation is "recover", "ping" or "maintain".
type FailureObserver interface {
	ReaperFailed(target, operation string, err error)
}

// observers holds what Config.Observer implements, looked up once.
type observers struct {
	recovered []RecoveredObserver
	failure   []FailureObserver
}

// observersOf takes several observers apart: whoever has a method Observers() []any stands for those, as what
// runner.Observers makes does.
func observersOf(observer any) (found observers) {
	if several, ok := observer.(interface{ Observers() []any }); ok {
		for _, one := range several.Observers() {
			more := observersOf(one)
			found.recovered = append(found.recovered, more.recovered...)
			found.failure = append(found.failure, more.failure...)
		}
		return found
	}
	if one, ok := observer.(RecoveredObserver); ok {
		found.recovered = append(found.recovered, one)
	}
	if one, ok := observer.(FailureObserver); ok {
		found.failure = append(found.failure, one)
	}
	return found
}

// tellEach tells every observer of one interface and contains their panics: counting must not end the reaping.
func tellEach[T any](r *Reaper, those []T, tell func(T)) {
	for _, one := range those {
		func() {
			defer func() {
				if cause := recover(); cause != nil {
					r.config.Logger.Error("reaper: an observer panicked", "type", fmt.Sprintf("%T", cause))
				}
			}()
			tell(one)
		}()
	}
}
