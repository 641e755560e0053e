//go:build unix

package integration

import (
	"syscall"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

// terminate asks the process to stop and waits until it knows.
func (c *child) terminate() {
	c.t.Helper()
	c.signal(syscall.SIGTERM)
	c.await("the signal", 1, is(eventStopping))
}

// SIGTERM cancels the context of Run while a handler works. What it finished is stored although that context has ended,
// and nobody runs it again.
func TestC47_CompletionAfterSIGTERM(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.child(program{Workers: 2})
	job := s.enqueue(holdJob{Deaf: true})
	first.await("the start", 1, of(eventStart, job))
	first.terminate()
	first.goOn()
	first.exit(0)

	verdicts := first.all(is(eventVerdict))
	if len(verdicts) != 1 || verdicts[0].Outcome != runner.Succeeded {
		t.Errorf("verdicts: %+v", verdicts)
	}
	finish := first.await("the return of the handler", 1, of(eventFinish, job))[0]
	if finish.Err != "" || finish.Cause != "" {
		t.Errorf("the handler's context ended although it returned in time: %+v", finish)
	}
	s.requireEnded(job, ended{State: "succeeded", Attempt: 1})
	if again := s.drainOnce(program{}); again.Claimed != 0 || again.Requeued != 0 {
		t.Errorf("a second worker found %+v", again)
	}
	s.requireEnded(job, ended{State: "succeeded", Attempt: 1})
}

// A handler that gives up when the stop has been patient enough hands its job back at once: nobody waits for the lease,
// and nothing is spent.
func TestC47_HandlerThatReturnsItsContextsError(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.child(program{Workers: 2, StopTimeout: 200 * time.Millisecond}) // and a lease of 30 s
	job := s.enqueue(holdJob{})
	first.await("the start", 1, of(eventStart, job))
	first.terminate()
	first.exit(0)

	finish := first.await("the return of the handler", 1, of(eventFinish, job))[0]
	if finish.Err != "context canceled" || finish.Cause != runner.ErrStopping.Error() {
		t.Errorf("the handler's context: %+v", finish)
	}
	s.requireLive(job, live{State: "pending", Attempt: 1, Due: true})
	if again := s.drainOnce(program{}); again.Claimed != 1 || again.Requeued != 0 {
		t.Errorf("a second worker found %+v", again)
	}
	s.requireEnded(job, ended{State: "succeeded", Attempt: 2})
}

// Many in flight, half of them deaf to their context, and more behind them: after SIGTERM each job is either done once or
// back in the queue at no cost.
func TestC47_ManyInFlight(t *testing.T) {
	t.Parallel()
	const each, waiting = 50, 30
	s := newService(t)
	// One slot more: a kind that shares its queue never gets all of them.
	first := s.child(program{Workers: 2*each + 1, StopTimeout: 200 * time.Millisecond})
	deaf := s.enqueueMany(each, holdJob{Deaf: true})
	heeding := s.enqueueMany(each, holdJob{})
	first.await("all starts", 2*each, is(eventStart))
	behind := s.enqueueMany(waiting, holdJob{})
	first.terminate()
	first.await("the return of those that heed their context", each, is(eventFinish))
	first.goOn()
	first.exit(0)

	for _, job := range deaf {
		s.requireEnded(job, ended{State: "succeeded", Attempt: 1})
	}
	for _, job := range heeding {
		s.requireLive(job, live{State: "pending", Attempt: 1, Due: true})
	}
	for _, job := range behind {
		if !one[bool](t, s.pool, "SELECT state = 'pending' AND failures = 0 AND run_at <= now() FROM pgqueue.jobs WHERE id = $1", job) {
			t.Errorf("job %d, which was never started, is not pending and unharmed", job)
		}
	}
	said := first.await("the outcomes", 1, is(eventEnded))[0]
	if got := *said.Outcomes; got.Succeeded != each || got.Lost != 0 || got.Released < each || got.Total() != got.Succeeded+got.Released {
		t.Errorf("outcomes: %+v", got)
	}
	again := s.drainOnce(program{Workers: 20})
	if again.Claimed != each+waiting || again.Outcomes.Succeeded != each+waiting || again.Requeued != 0 {
		t.Errorf("a second worker found %+v", again)
	}
	if n := one[int](t, s.pool, "SELECT count(*) FROM pgqueue.history WHERE state = 'succeeded'"); n != 2*each+waiting {
		t.Errorf("%d of %d jobs have succeeded", n, 2*each+waiting)
	}
}

// The second signal does not wait for the stop to be patient: a handler that heeds its context hands its job back at once.
func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.child(program{Workers: 2, StopTimeout: time.Hour}) // the first signal alone would wait for so long
	job := s.enqueue(holdJob{})
	first.await("the start", 1, of(eventStart, job))
	first.terminate()
	first.signal(syscall.SIGTERM)
	first.exit(0)

	finish := first.await("the return of the handler", 1, of(eventFinish, job))[0]
	if finish.Cause != runner.ErrStopping.Error() {
		t.Errorf("the handler's context: %+v", finish)
	}
	s.requireLive(job, live{State: "pending", Attempt: 1, Due: true})
}
