package integration

import (
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// A handler ends the process while nine others are in the middle of their run, and more wait in its buffer or for it. The next
// process runs all ten a second time, and the others once: nothing is done without having run, and nobody is blamed more
// than once.
func TestC51_AHandlerEndsTheProcess(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		bomb bombJob
		code int
	}{
		"os.Exit": {bombJob{}, 3}, "log.Fatal": {bombJob{Fatal: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const neighbours, waiting = 9, 15
			s := newService(t)
			// One slot more: a kind that shares its queue never gets all of them.
			p := program{Workers: neighbours + 1, Lease: shortLease, Renew: shortRenew, Reap: shortReap, Kinds: []string{"effect", "bomb"}}
			victim := s.child(p)
			beside := s.enqueueMany(neighbours, effectJob{Hold: true})
			victim.await("nine neighbours, with their writes made and not committed", neighbours, is(eventHeld))
			behind := s.enqueueMany(waiting, effectJob{Hold: true}, pgqueue.WithPriority(4))
			bomb := s.enqueue(end.bomb)
			victim.exit(end.code)
			if finished := victim.all(is(eventFinish)); len(finished) != 0 {
				t.Fatalf("handlers returned before the end: %+v", finished)
			}
			// They are the dead process's for as long as its leases last, and no longer.
			if n := one[int](t, s.pool, "SELECT count(*) FROM pgqueue.jobs WHERE state = 'running' AND lease_expires_at <= now() + $1::bigint * interval '1 microsecond'",
				shortLease.Microseconds()); n < neighbours+1 {
				t.Errorf("%d jobs are leased to the dead process and will come back within its lease, want at least %d", n, neighbours+1)
			}
			if n := one[int](t, s.pool, "SELECT count(*) FROM pgqueue.history"); n != 0 {
				t.Errorf("%d jobs are done without having run", n)
			}
			held := column[int64](t, s.pool, "SELECT id FROM pgqueue.jobs WHERE state = 'running'") // those in the buffer too

			next := s.child(p)
			next.goOn()
			s.awaitEmpty()
			s.requireEffectsOnce(append(beside, behind...))
			for _, job := range append([]int64{bomb}, beside...) {
				s.requireEnded(job, ended{State: "succeeded", Attempt: 2, Failures: 1, Code: "lease_expired"})
				if runs := next.all(of(eventStart, job)); len(runs) != 1 || runs[0].Attempt != 2 {
					t.Errorf("job %d ran in the second process as %+v", job, runs)
				}
			}
			leased := map[int64]bool{}
			for _, job := range held {
				leased[job] = true
			}
			for _, job := range behind {
				want := ended{State: "succeeded", Attempt: 1}
				if leased[job] {
					want = ended{State: "succeeded", Attempt: 2, Failures: 1, Code: "lease_expired"}
				}
				s.requireEnded(job, want)
			}
			if n := one[string](t, s.pool, "SELECT string_agg(DISTINCT state, ',') FROM pgqueue.history"); n != "succeeded" {
				t.Errorf("states %s", n)
			}
			if got, want := len(next.all(is(eventStart))), 1+neighbours+waiting; got != want {
				t.Errorf("%d runs in the second process, want %d", got, want)
			}
		})
	}
}
