package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// A job that kills its process, under a supervisor that starts the process again: every crash spends an attempt, and
// with the last one the job is dead, not one run later. What runs beside it finishes.
func TestC36_PoisonPill(t *testing.T) {
	t.Parallel()
	for _, budget := range []int{1, 3} {
		t.Run(fmt.Sprintf("max attempts %d", budget), func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			poison := s.enqueue(killJob{}, pgqueue.WithMaxAttempts(budget))
			// They start beside the poison each time, and each crash costs them an attempt too.
			neighbours := s.enqueueMany(5, sleepJob{For: time.Second}, pgqueue.WithMaxAttempts(10))
			p := program{Workers: 8, Kinds: []string{"sleep", "kill-self"}, Lease: shortLease, Renew: shortRenew, Reap: shortReap}

			starts, dead, crashes := 0, 0, 0
			count := func(c *child) {
				starts += len(c.all(of(eventStart, poison)))
				for _, e := range c.all(is(eventReaped)) {
					dead += e.Dead
				}
			}
			var last *child
			for last == nil {
				c := s.child(p)
				// Either the process dies of the poison, or the poison is dead.
				if outlives(c, func(e event) bool { return e.What == eventReaped && e.Dead > 0 }) {
					last = c
					break
				}
				count(c)
				if crashes++; crashes == 10 {
					t.Fatalf("%d processes have died of the job", crashes)
				}
			}
			for _, job := range neighbours {
				last.await("the end of a neighbour", 1, of(eventVerdict, job))
			}
			s.awaitEmpty()
			// A job that was still due would be started before this one.
			check := s.enqueue(sleepJob{}, pgqueue.WithPriority(pgqueue.PriorityCatchUp))
			last.await("a later job", 1, of(eventVerdict, check))
			count(last)

			if starts != budget || crashes != budget {
				t.Errorf("the job was started %d times and killed %d processes, want %d", starts, crashes, budget)
			}
			if dead != 1 {
				t.Errorf("the reapers told of %d dead jobs, want 1", dead)
			}
			s.requireEnded(poison, ended{State: "dead", Attempt: budget, Failures: budget, Code: "lease_expired"})
			for _, job := range neighbours {
				if got := s.history(job); got.State != "succeeded" {
					t.Errorf("neighbour %d ended as %+v", job, got)
				}
			}
		})
	}
}

// outlives waits until an event matches or the process ends, and tells which. It waits longer than others: the event may
// need several leases.
func outlives(c *child, match func(event) bool) bool {
	c.t.Helper()
	timer := time.NewTimer(2 * patience)
	defer timer.Stop()
	for {
		c.mu.Lock()
		found, more := len(c.matching(match)) > 0, c.more
		c.mu.Unlock()
		if found {
			return true
		}
		select {
		case <-more:
		case <-c.ended:
			return false
		case <-timer.C:
			c.t.Fatalf("process %d neither died nor told of what was expected", c.pid)
		}
	}
}
