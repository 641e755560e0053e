package reaper

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

// observers holds the interfaces that Config.Observer implements, looked up once.
type observers struct {
	recovered RecoveredObserver
	failure   FailureObserver
}

func observersOf(observer any) (found observers) {
	found.recovered, _ = observer.(RecoveredObserver)
	found.failure, _ = observer.(FailureObserver)
	return found
}

// tell calls an observer and contains its panic: counting must not end the reaping.
func (r *Reaper) tell(call func()) {
	defer func() {
		if cause := recover(); cause != nil {
			r.config.Logger.Error("reaper: an observer panicked", "panic", cause)
		}
	}()
	call()
}
