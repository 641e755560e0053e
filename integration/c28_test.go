package integration

import "testing"

// The second half of the case: the process that knows a kind dies in the middle of a job of it, and the process that is
// left, which does not know the kind, returns the job without judging it, and without running it.
func TestC28_ReaperWithoutTheHandlerRequeues(t *testing.T) {
	t.Parallel()
	s := newService(t)
	times := program{Workers: 2, Lease: shortLease, Renew: shortRenew, Reap: shortReap}

	first := times
	first.Kinds = []string{"sleep"}
	w1 := s.child(first)
	w1.await("ready", 1, is(eventReady))

	second := times
	second.Kinds = []string{"sleep", "hold"}
	w2 := s.child(second)
	b := s.enqueue(holdJob{})
	w2.await("start of the job of kind B", 1, of(eventStart, b))
	w2.kill()
	s.requireLive(b, live{State: "running", Attempt: 1, Due: true})

	w1.await("the reaper of the process without the handler", 1, func(e event) bool { return e.What == eventReaped && e.Requeued == 1 })
	s.requireLive(b, live{State: "pending", Attempt: 1, Failures: 1, Due: true, Code: "lease_expired"})

	// It goes on with its own kind beside the job that it cannot run.
	for range 3 {
		a := s.enqueue(sleepJob{})
		w1.await("a job of kind A beside it", 1, of(eventVerdict, a))
		s.requireEnded(a, ended{State: "succeeded", Attempt: 1})
	}
	if started := w1.all(of(eventStart, b)); len(started) != 0 {
		t.Errorf("the process without the handler started the job: %+v", started)
	}
	s.requireLive(b, live{State: "pending", Attempt: 1, Failures: 1, Due: true, Code: "lease_expired"})

	w3 := s.child(second)
	w3.await("start in a process with the handler", 1, of(eventStart, b))
	w3.goOn()
	w3.await("its end", 1, of(eventVerdict, b))
	s.requireEnded(b, ended{State: "succeeded", Attempt: 2, Failures: 1, Code: "lease_expired"})
}
