package runner

import (
	"context"
	"log/slog"
	"slices"
)

// Observers makes one observer of several: each is told of the events whose interfaces it implements, in this order. It stands
// for all of them wherever an observer is taken, also in the packages listener, reaper and pgqueue, because it says what it is
// made of in a method Observers() []any, which they look for. One that panics does not keep the others from being told. nil
// ones are left out.
func Observers(all ...any) any { return combined(EachObserver(combined(all))) }

// combined is several observers.
type combined []any

// Observers tells what this stands for.
func (c combined) Observers() []any { return c }

// EachObserver takes apart what [Observers] has put together. Any other observer comes back alone, nil as none.
func EachObserver(observer any) []any {
	several, ok := observer.(interface{ Observers() []any })
	if !ok {
		if observer == nil {
			return nil
		}
		return []any{observer}
	}
	var all []any
	for _, one := range several.Observers() {
		all = append(all, EachObserver(one)...)
	}
	return all
}

// Observe adds an observer, also while the runner runs, and returns what takes it away again; calling that more than once does
// nothing more. It is told of what begins after Observe has returned, and, in calls that are under way, still for a moment
// after forget has. It comes after the observers that are there. It costs nothing where it implements nothing.
func (r *Runner[P, R]) Observe(observer any) (forget func()) {
	one := &observer // two observers may be equal, or not comparable
	r.mu.Lock()
	defer r.mu.Unlock()
	r.added = append(r.added, one)
	r.gatherObservers()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.added = slices.DeleteFunc(r.added, func(other *any) bool { return other == one })
		r.gatherObservers()
	}
}

// gatherObservers makes the table of observers anew. Whoever tells of something reads it without a lock. The lock is held.
func (r *Runner[P, R]) gatherObservers() {
	all := []any{r.config.Observer}
	for _, one := range r.added {
		all = append(all, *one)
	}
	r.observe.Store(newObservers(Observers(all...), r.config.Logger))
}

// observers holds what the observer implements; an empty field costs one comparison.
type observers struct {
	log        *slog.Logger
	claim      []ClaimObserver
	start      []AttemptStartObserver
	end        []AttemptEndObserver
	batchStart []BatchStartObserver
	batchEnd   []BatchEndObserver
	verdict    []VerdictObserver
	flush      []FlushObserver
	renew      []RenewObserver
	lease      []LeaseLostObserver
	stuck      []StuckObserver
	replace    []StuckReplaceObserver
	wake       []WakeObserver
}

func newObservers(observer any, log *slog.Logger) *observers {
	all := &observers{log: log}
	for _, o := range EachObserver(observer) {
		join(&all.claim, o)
		join(&all.start, o)
		join(&all.end, o)
		join(&all.batchStart, o)
		join(&all.batchEnd, o)
		join(&all.verdict, o)
		join(&all.flush, o)
		join(&all.renew, o)
		join(&all.lease, o)
		join(&all.stuck, o)
		join(&all.replace, o)
		join(&all.wake, o)
	}
	return all
}

// join adds o to those of an interface if it implements it.
func join[T any](those *[]T, o any) {
	if one, ok := o.(T); ok {
		*those = append(*those, one)
	}
}

// contain keeps the panic of one observer from the others, and from the runner.
func (o *observers) contain(name string) {
	if v := recover(); v != nil {
		o.log.Error("runner: observer panicked", "method", name, "type", typeName(v), "at", panicSite())
	}
}

// each tells every observer of one interface.
func each[T any](o *observers, name string, those []T, tell func(T)) {
	for _, one := range those {
		func() {
			defer o.contain(name)
			tell(one)
		}()
	}
}

func (o *observers) claimDone(e ClaimEvent) {
	each(o, "ClaimDone", o.claim, func(to ClaimObserver) { to.ClaimDone(e) })
}

func (o *observers) attemptStarted(ctx context.Context, e AttemptEvent) context.Context {
	each(o, "AttemptStarted", o.start, func(to AttemptStartObserver) {
		if c := to.AttemptStarted(ctx, e); c != nil {
			ctx = c
		}
	})
	return ctx
}

func (o *observers) attemptEnded(ctx context.Context, e AttemptEvent) {
	each(o, "AttemptEnded", o.end, func(to AttemptEndObserver) { to.AttemptEnded(ctx, e) })
}

func (o *observers) verdictDone(e VerdictEvent) {
	each(o, "VerdictDone", o.verdict, func(to VerdictObserver) { to.VerdictDone(e) })
}

func (o *observers) flushDone(e FlushEvent) {
	each(o, "FlushDone", o.flush, func(to FlushObserver) { to.FlushDone(e) })
}

func (o *observers) renewDone(e RenewEvent) {
	each(o, "RenewDone", o.renew, func(to RenewObserver) { to.RenewDone(e) })
}

func (o *observers) leaseLost(e LeaseEvent) {
	each(o, "LeaseLost", o.lease, func(to LeaseLostObserver) { to.LeaseLost(e) })
}

func (o *observers) taskStuck(e StuckEvent) {
	each(o, "TaskStuck", o.stuck, func(to StuckObserver) { to.TaskStuck(e) })
}

// replaceStuck asks all of them, whatever the first one answers: each may count what it was asked.
func (o *observers) replaceStuck(e StuckEvent) (wanted bool) {
	each(o, "ReplaceStuck", o.replace, func(to StuckReplaceObserver) { wanted = to.ReplaceStuck(e) || wanted })
	return wanted
}

func (o *observers) woken(e WakeEvent) {
	each(o, "Woken", o.wake, func(to WakeObserver) { to.Woken(e) })
}
