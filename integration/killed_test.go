package integration

import (
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// Two processes share a queue, and one of them dies with jobs in flight: by SIGKILL, or because a handler calls os.Exit.
// All of its jobs run again elsewhere after their lease, nothing is lost, and what was written in the transaction of a
// completion is there exactly once.
func TestProcessDiesWithJobsInFlight(t *testing.T) {
	t.Parallel()
	for name, die := range map[string]func(*service, *child){
		"SIGKILL": func(_ *service, victim *child) { victim.kill() },
		"os.Exit in a handler": func(s *service, victim *child) {
			victim.goOn()
			victim.exit(3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const slots, jobs = 6, 60
			s := newService(t)
			p := program{Workers: slots, Lease: shortLease, Renew: shortRenew, Reap: shortReap, Kinds: []string{"effect", "exit"}}
			victim := s.child(p)
			bomb := s.enqueue(exitJob{Code: 3}, pgqueue.WithMaxAttempts(1))
			victim.await("the bomb", 1, of(eventStart, bomb))
			effects := s.enqueueMany(jobs, effectJob{Hold: true})
			victim.await("the victim's jobs, with their writes made and not committed", slots-1, is(eventHeld))
			p.Kinds = []string{"effect"}
			survivor := s.child(p)
			survivor.await("the survivor's jobs", slots, is(eventHeld))

			die(s, victim)
			// All of the survivor's slots are taken, so that what the dead one had is still as it left it.
			interrupted := column[int64](t, s.pool, `SELECT id FROM pgqueue.jobs WHERE kind = 'effect' AND claimed_by = (
				SELECT claimed_by FROM pgqueue.jobs WHERE id = $1 UNION ALL SELECT claimed_by FROM pgqueue.history WHERE id = $1)`, bomb)
			completed := len(victim.all(func(e event) bool { return e.What == eventFinish && e.Err == "" }))
			if len(interrupted) == 0 || len(interrupted)+completed < slots-1 {
				t.Errorf("the process left %d jobs and had finished %d, of at least %d", len(interrupted), completed, slots-1)
			}

			survivor.goOn()
			s.awaitEmpty()
			s.requireEffectsOnce(effects)
			s.requireEnded(bomb, ended{State: "dead", Attempt: 1, Failures: 1, Code: "lease_expired"})
			if n := one[int](t, s.pool, "SELECT count(*) FROM pgqueue.history WHERE kind = 'effect' AND state = 'succeeded'"); n != jobs {
				t.Errorf("%d of %d jobs have succeeded", n, jobs)
			}
			for _, job := range interrupted {
				if got := s.history(job); got.Attempt < 2 || got.Code != "lease_expired" {
					t.Errorf("job %d, which was in flight, ended as %+v", job, got)
				}
			}
			if n := one[int](t, s.pool, `SELECT count(*) FROM public.effects e JOIN pgqueue.history h ON h.id = e.job
				WHERE e.attempt <> h.attempt`); n != 0 {
				t.Errorf("%d effects are not of the attempt that completed their job", n)
			}
		})
	}
}
