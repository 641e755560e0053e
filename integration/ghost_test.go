//go:build unix

package integration

import (
	"syscall"
	"testing"

	"github.com/pgqueue/pgqueue/runner"
)

// A process is stopped for longer than its leases, as by a suspended machine, and goes on when another one has taken over
// its work, or has done it. What it reports then is discarded and counted, and what it wrote in the completion's
// transaction is rolled back.
func TestGhostComesBackAfterItsLease(t *testing.T) {
	t.Parallel()
	for name, underWay := range map[string]bool{"while the second run is under way": true, "after the second run": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testGhost(t, underWay)
		})
	}
}

func testGhost(t *testing.T, underWay bool) {
	s := newService(t)
	p := program{Workers: 2, Kinds: []string{"hold", "effect"}, Lease: shortLease, Renew: shortRenew, Reap: shortReap}
	ghost := s.child(p)
	plain, effect := s.enqueue(holdJob{Deaf: true}), s.enqueue(effectJob{Hold: true})
	ghost.await("the start of the plain job", 1, of(eventStart, plain))
	ghost.await("the uncommitted write", 1, of(eventHeld, effect))
	ghost.signal(syscall.SIGSTOP)

	other := s.child(p)
	for _, start := range []event{
		other.await("the second run of the plain job", 1, of(eventStart, plain))[0],
		other.await("the second run of the transactional job", 1, of(eventHeld, effect))[0],
	} {
		if start.Attempt != 2 {
			t.Errorf("the second run is %+v", start)
		}
	}
	finishSecond := func() {
		other.goOn()
		s.awaitEmpty()
		s.requireEffectsOnce([]int64{effect})
	}
	if !underWay {
		finishSecond()
	}

	ghost.goOn()
	ghost.signal(syscall.SIGCONT)
	for _, job := range []int64{plain, effect} {
		ghost.await("the ghost's handler", 1, of(eventFinish, job))
		verdict := ghost.await("the ghost's verdict", 1, of(eventVerdict, job))[0]
		if verdict.Outcome != runner.Lost || verdict.Attempt != 1 {
			t.Errorf("what the ghost reported became %+v", verdict)
		}
	}
	if finish := ghost.all(of(eventFinish, effect))[0]; finish.Err == "" {
		t.Error("the ghost's transaction was committed, it says")
	}
	ghost.terminate()
	ghost.exit(0)
	said := ghost.await("the outcomes", 1, is(eventEnded))[0]
	if said.Outcomes.Lost != 2 || said.Outcomes.Total() != 2 {
		t.Errorf("the ghost counts %+v, want 2 lost", *said.Outcomes)
	}
	if underWay {
		for _, job := range []int64{plain, effect} {
			s.requireLive(job, live{State: "running", Attempt: 2, Failures: 1, Due: true, Code: "lease_expired"})
		}
		finishSecond()
	}

	s.requireEffectsOnce([]int64{effect})
	for _, job := range []int64{plain, effect} {
		s.requireEnded(job, ended{State: "succeeded", Attempt: 2, Failures: 1, Code: "lease_expired"})
	}
}

// signal sends the process a signal.
func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatalf("%s to process %d: %v", s, c.pid, err)
	}
}
