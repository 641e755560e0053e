package integration

import (
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// What a process that cron starts does: it returns what a dead predecessor left behind, works until nothing is due, and
// ends with exit code 0. Two at once share the work; the next one finds nothing.
func TestDrainFromCron(t *testing.T) {
	t.Parallel()
	const jobs = 40
	s := newService(t)
	p := program{Workers: 2, Lease: shortLease, Renew: shortRenew}

	// The predecessor dies in the middle of a job.
	interrupted := s.enqueue(effectJob{Hold: true})
	dead := p
	dead.Drain = true
	predecessor := s.child(dead)
	predecessor.await("the job of the predecessor", 1, of(eventHeld, interrupted))
	predecessor.kill()
	s.requireLive(interrupted, live{State: "running", Attempt: 1, Due: true})
	untilSQL(t, s.pool, "the end of the lease", "SELECT lease_expires_at < now() FROM pgqueue.jobs WHERE id = $1", interrupted)

	effects := append(s.enqueueMany(jobs, effectJob{}), interrupted)
	later := s.enqueue(effectJob{}, pgqueue.WithDelay(time.Hour))

	first, second := s.child(dead), s.child(dead)
	first.goOn()
	second.goOn()
	claimed, requeued := 0, 0
	for _, c := range []*child{first, second} {
		c.exit(0)
		said := c.await("the result", 1, is(eventEnded))[0]
		claimed += said.Claimed
		requeued += said.Requeued
		if said.Outcomes.Total() != said.Outcomes.Succeeded || said.Outcomes.Succeeded != uint64(said.Claimed) {
			t.Errorf("process %d drained %+v", c.pid, said)
		}
	}
	if claimed != jobs+1 || requeued != 1 {
		t.Errorf("both together claimed %d jobs and returned %d, want %d and 1", claimed, requeued, jobs+1)
	}
	s.requireEffectsOnce(effects)
	s.requireEnded(interrupted, ended{State: "succeeded", Attempt: 2, Failures: 1, Code: "lease_expired"})
	s.requireLive(later, live{State: "pending"})

	if again := s.drainOnce(p); again.Claimed != 0 || again.Requeued != 0 {
		t.Errorf("the next one found %+v", again)
	}
}

// drainOnce runs a process that drains, and returns what it says at its end.
func (s *service) drainOnce(p program) event {
	s.t.Helper()
	p.Drain = true
	c := s.child(p)
	c.goOn()
	c.exit(0)
	return c.await("the result of the drain", 1, is(eventEnded))[0]
}
