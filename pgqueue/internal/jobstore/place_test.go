package jobstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// Where a job's row lay when it was claimed another one may lie by now. A success names the place and the whole fence, so it ends
// nothing but its own claim.
func TestAnotherJobInTheSamePlaceIsNotCompleted(t *testing.T) {
	t.Parallel()
	for _, history := range []string{"full", "off"} {
		f := open(t)
		f.exec(`ALTER TABLE %s.jobs SET (autovacuum_enabled = off)`)
		if err := f.store.SetHistory(f.ctx, f.pool, queueName, history); err != nil {
			t.Fatal(err)
		}
		place := func(id int64) string { return query1[string](f, `SELECT ctid::text FROM %s.jobs WHERE id = $1`, id) }

		gone := f.claim1()
		lay := place(gone.ID)
		f.exec(`DELETE FROM %s.jobs`)
		f.exec(`VACUUM %s.jobs`)
		there := f.claim1()
		if at := place(there.ID); at != lay {
			t.Fatalf("the second job lies at %s, the first lay at %s: the test shows nothing", at, lay)
		}
		f.report([]verdict{succeed(gone)}, runner.Lost)
		if state := query1[string](f, `SELECT state FROM %s.jobs`); state != "running" {
			t.Errorf("history %s: the job that lies there is %s", history, state)
		}
		f.report([]verdict{succeed(there)}, runner.Succeeded)
	}
}

// A row that was written since its claim lies elsewhere, and its success counts all the same: after a renewal, after somebody
// else's update, and after the reaper has put the job back.
func TestSuccessFindsARowThatHasMoved(t *testing.T) {
	t.Parallel()
	for _, history := range []string{"full", "slim", "off"} {
		f := open(t)
		if err := f.store.SetHistory(f.ctx, f.pool, queueName, history); err != nil {
			t.Fatal(err)
		}
		f.insert(4)
		tasks := f.claim(4)
		stays, renewed, edited, reaped := tasks[0].Payload, tasks[1].Payload, tasks[2].Payload, tasks[3].Payload
		must(f.queue.Renew(f.ctx, []runner.Token{renewed}, time.Minute))(t)
		f.exec(`UPDATE %s.jobs SET tags = '{seen}' WHERE id = $1`, edited.ID)
		f.exec(`UPDATE %s.jobs SET lease_expires_at = now() - interval '1 s' WHERE id = $1`, reaped.ID)
		if recovered := must(f.queue.Recover(f.ctx, 10))(t); recovered.Total() != 1 {
			t.Fatalf("%d jobs were put back", recovered.Total())
		}
		f.report([]verdict{succeed(stays), succeed(renewed), succeed(edited), succeed(reaped)},
			runner.Succeeded, runner.Succeeded, runner.Succeeded, runner.Succeeded)
		if n := query1[int](f, `SELECT count(*)::int FROM %s.jobs`); n != 0 {
			t.Errorf("history %s: %d jobs are left", history, n)
		}
	}
}

// A row in its place is completed in one statement that walks no index, and one that a renewal has moved in one that looks it up: neither
// asks twice.
func TestCompletionSendsOneStatement(t *testing.T) {
	t.Parallel()
	for _, history := range []string{"full", "off"} {
		log := &statementLog{}
		f := open(t, traced(log))
		if err := f.store.SetHistory(f.ctx, f.pool, queueName, history); err != nil {
			t.Fatal(err)
		}
		stays, renewed := f.claim1(), f.claim1()
		must(f.queue.Renew(f.ctx, []runner.Token{renewed}, time.Minute))(t)
		for row, inPlace := range map[*jobstore.Row]bool{stays: true, renewed: false} {
			log.take()
			f.report([]verdict{succeed(row)}, runner.Succeeded)
			sent := log.take()
			if len(sent) != 1 || strings.Contains(sent[0], "f.place") != inPlace {
				t.Errorf("history %s, in its place: %v: sent\n%s", history, inPlace, strings.Join(sent, "\n"))
			}
		}
	}
}
