package pgqueue

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/health"
	"github.com/pgqueue/pgqueue/internal/pulse"
	"github.com/pgqueue/pgqueue/listener"
	"github.com/pgqueue/pgqueue/reaper"
	"github.com/pgqueue/pgqueue/runner"
)

// Health is what a worker says about itself; see package health, which makes HTTP handlers of it.
type Health = health.Health

// LoopHealth is one loop of a worker; see [Worker.Health].
type LoopHealth = health.Loop

// Health tells whether the worker makes progress, loop by loop. It asks nobody, takes microseconds, and never waits for the
// database, so it may be called as often as one likes.
//
// Loops are, for each queue, "claim:NAME", "renew:NAME" (of leases), "flush:NAME" (of verdicts), "watch:NAME" (deadlines) and
// "reap:NAME" (stale leases), and once "listener", "probe" (what is due) and "heartbeat". Those of Ready turn false within three
// of their intervals after they stopped making progress, because the database does not answer, refuses, or cannot be
// reached. An idle loop makes progress, and a handler that blocks is no loop. Before Run, while Run waits for the database and
// while it stops Ready is false, and one entry "worker" says so. Health.Name is the worker's id.
//
// Live turns false only where the process cannot help itself any more: the goroutine of a loop has ended, as by
// runtime.Goexit in an observer, or has been at one step for more than a minute longer than any may take. It stays true
// while the database is away, before Run, and during a stop.
func (w *Worker) Health() Health {
	w.mutex.Lock()
	phase, waits, stopping := w.phase, w.waits, w.ctx != nil && w.ctx.Err() != nil
	w.mutex.Unlock()
	switch {
	case phase == idle:
		return w.notReady("does not run")
	case stopping:
		return w.notReady("is stopping")
	case phase == starting:
		if waits != "" {
			return w.notReady("waits for the database: " + waits)
		}
		return w.notReady("waits for the database")
	}
	now := time.Now()
	h := Health{Name: w.config.ID, Ready: true, Live: true}
	add := func(loop LoopHealth) {
		h.Loops = append(h.Loops, loop)
		h.Ready = h.Ready && loop.OK
		h.Live = h.Live && !loop.Dead
	}
	for _, name := range w.queueNames() {
		for _, loop := range w.runnerHealth(name, now) {
			add(loop)
		}
	}
	reaping, reaped := w.reaps.Status(), w.loops.reaps.State()
	for _, target := range reaping.Targets {
		add(w.reaperHealth(target, reaped.Ended, now))
	}
	if w.listens != nil {
		add(w.listenerHealth(now))
	}
	add(loopHealth("probe", w.probes.every(), w.probes.pulse.State(), now))
	if w.beats != nil {
		loop := loopHealth("heartbeat", w.beats.pace, w.beats.pulse.State(), now)
		if loop.OK && w.beats.refused.Load() {
			loop.Detail = "not allowed, see docs/roles.md"
		}
		add(loop)
	}
	return h
}

func (w *Worker) notReady(detail string) Health {
	return Health{Name: w.config.ID, Live: true, Loops: []LoopHealth{{Name: "worker", Detail: detail}}}
}

// stale says whether a loop has been without progress for too long: a little less than two intervals after the first look that
// brought none, which comes within one.
func stale(since time.Time, every time.Duration, now time.Time) bool {
	return !since.IsZero() && now.Sub(since) > every*9/5
}

// loopHealth judges one loop.
func loopHealth(name string, every time.Duration, state pulse.State, now time.Time) LoopHealth {
	loop := LoopHealth{Name: name, Since: state.Last, Dead: state.Ended || state.Hung}
	silent := stale(state.Trying, every, now)
	loop.OK = !loop.Dead && !silent
	switch {
	case state.Ended:
		loop.Detail = "has ended although the worker runs"
	case state.Hung:
		loop.Detail = "hangs"
	case silent:
		loop.Detail = fmt.Sprintf("no progress for %s: %s", now.Sub(state.Trying).Round(time.Second), cmp.Or(state.Reason, "no answer yet"))
	}
	return loop
}

// runnerHealth judges the loops of one queue's runner.
func (w *Worker) runnerHealth(queue string, now time.Time) []LoopHealth {
	if w.loops.runners[queue].State().Ended {
		return []LoopHealth{loopHealth("claim:"+queue, 0, pulse.State{Ended: true}, now)}
	}
	status := w.runners[queue].Status()
	if status.Lifecycle != runner.Running {
		return []LoopHealth{{Name: "claim:" + queue, Detail: status.Lifecycle.String()}}
	}
	loops := make([]LoopHealth, 0, len(status.Loops))
	for _, one := range status.Loops {
		loops = append(loops, loopHealth(one.Name+":"+queue, one.Every, pulse.State{
			Ended: one.Ended, Hung: one.Hung, Last: one.Progress, Trying: one.Trying, Reason: one.Reason,
		}, now))
	}
	return loops
}

// reaperHealth judges the reaper of one queue.
func (w *Worker) reaperHealth(target reaper.TargetStatus, ended bool, now time.Time) LoopHealth {
	return loopHealth("reap:"+target.Name, cmp.Or(w.config.ReapInterval, reaper.DefaultInterval), pulse.State{
		Ended: ended || target.Ended, Hung: target.Hung, Last: target.Answered, Trying: target.Silent, Reason: target.Reason,
	}, now)
}

// listenerHealth judges the listener by when it last heard something, or began to listen: it proves that it hears by an echo in
// every interval.
func (w *Worker) listenerHealth(now time.Time) LoopHealth {
	status, state := w.listens.Status(), w.loops.listens.State()
	heard := state.Last
	for _, at := range []time.Time{status.LastEcho, status.LastHint} {
		if at.After(heard) {
			heard = at
		}
	}
	if status.Connected && !status.Deaf && status.Since.After(heard) {
		heard = status.Since
	}
	state.Last, state.Trying = heard, heard
	switch {
	case status.Deaf:
		state.Reason = "hears nothing; behind a pooler it needs a direct connection, or DisableListener"
	case !status.Connected:
		state.Reason = "not connected"
	case status.SendError != "":
		state.Reason = "no echo could be sent"
	default:
		state.Reason = "no echo"
	}
	return loopHealth("listener", cmp.Or(w.config.echoEvery, listener.DefaultEchoInterval), state, now)
}

// every is how often the prober asks, at the least.
func (p *prober) every() time.Duration {
	shortest := p.queues[0].poll
	for _, q := range p.queues[1:] {
		shortest = min(shortest, q.poll)
	}
	return max(shortest, time.Second)
}
