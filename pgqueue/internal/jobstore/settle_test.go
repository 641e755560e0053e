package jobstore_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

func TestCompleteTx(t *testing.T) {
	t.Parallel()
	for _, m := range everyMode(t) {
		f := open(t, mode(m))
		complete := func(tx pgx.Tx, row *jobstore.Row, want runner.Outcome) {
			t.Helper()
			if got := must(f.store.CompleteTx(f.ctx, tx, row, json.RawMessage(`{"n": 1}`)))(t); got != want {
				t.Fatalf("CompleteTx said %v, want %v", got, want)
			}
		}
		row, rolled, gone, replaced := f.claim1(), f.claim1(), f.claim1(), f.claim1()
		f.exec(`DELETE FROM %s.jobs WHERE id = $1`, gone.ID)
		f.replace(replaced.ID)

		tx := must(f.pool.Begin(f.ctx))(t)
		complete(tx, gone, runner.Lost) // an answer: the transaction goes on
		complete(tx, row, runner.Succeeded)
		complete(tx, row, runner.Lost)
		complete(tx, replaced, runner.Superseded)
		if err := tx.Commit(f.ctx); err != nil {
			t.Fatal(err)
		}
		tx = must(f.pool.Begin(f.ctx))(t)
		complete(tx, rolled, runner.Succeeded)
		// Asked while the transaction is open: nobody knows yet.
		confirm := func(row *jobstore.Row) verdict {
			return verdict{Token: row, Decision: runner.Confirm, Delay: time.Hour}
		}
		f.report([]verdict{confirm(rolled)}, runner.Busy)
		if err := tx.Rollback(f.ctx); err != nil {
			t.Fatal(err)
		}
		f.report([]verdict{confirm(row), confirm(rolled), confirm(replaced)}, runner.Succeeded, runner.Retrying, runner.Succeeded)
		if got := query1[string](f, `SELECT errors->-1->>'code' FROM %s.jobs WHERE id = $1`, rolled.ID); got != jobstore.CodeNotCommitted {
			t.Fatalf("code %q", got)
		}
		if f.state(row.ID) != "succeeded" || f.state(rolled.ID) != "pending" || f.state(replaced.ID) != "pending" {
			t.Fatalf("states %s %s %s", f.state(row.ID), f.state(rolled.ID), f.state(replaced.ID))
		}
	}
}

// CompleteTx waits for a row that somebody holds, and decides on what it finds then.
func TestCompleteTxWaits(t *testing.T) {
	t.Parallel()
	f := open(t)
	for change, want := range map[string]runner.Outcome{
		`SELECT FROM %s.jobs WHERE id = $1 FOR UPDATE`:                         runner.Succeeded,
		`UPDATE %s.jobs SET generation = generation + 1 WHERE id = $1`:         runner.Superseded,
		`UPDATE %s.jobs SET attempt = attempt + 1 WHERE id = $1`:               runner.Lost,
		`DELETE FROM %s.jobs WHERE id = $1`:                                    runner.Lost,
		`UPDATE %s.jobs SET state = 'pending' WHERE id = $1 AND attempt = 1`:   runner.Succeeded, // reaped
		`UPDATE %s.jobs SET state='pending', claimed_at = NULL WHERE id = $1 `: runner.Lost,      // released
	} {
		row := f.claim1()
		holder := must(f.pool.Begin(f.ctx))(t)
		must(holder.Exec(f.ctx, f.sql(change), row.ID))(t)
		tx := must(f.pool.Begin(f.ctx))(t)
		answer := make(chan runner.Outcome, 1)
		go func() {
			outcome, err := f.store.CompleteTx(f.ctx, tx, row, nil)
			if err != nil {
				t.Error(err)
			}
			answer <- outcome
		}()
		f.waitForLock()
		if err := holder.Commit(f.ctx); err != nil {
			t.Fatal(err)
		}
		if got := <-answer; got != want {
			t.Errorf("after %q CompleteTx said %v, want %v", change, got, want)
		}
		if err := tx.Commit(f.ctx); err != nil {
			t.Fatal(err)
		}
		if want != runner.Lost && f.claimedStill(row.ID) {
			t.Errorf("after %q the job is left in running", change)
		}
		f.exec(`TRUNCATE %s.jobs`)
	}
}

func (f *fixture) claimedStill(id int64) bool {
	return query1[bool](f, `SELECT EXISTS (SELECT FROM %s.jobs WHERE id = $1 AND claimed_at IS NOT NULL)`, id)
}

// waitForLock returns when a session of this database waits for a lock.
func (f *fixture) waitForLock() {
	f.Helper()
	for !query1[bool](f, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock') -- %s`) {
		if f.ctx.Err() != nil {
			f.Fatal("nobody waits for a lock")
		}
	}
}

func TestCancelAndRetry(t *testing.T) {
	t.Parallel()
	f := open(t)
	cancel := func(id int64, want string) {
		t.Helper()
		if got := must(f.store.Cancel(f.ctx, f.pool, id))(t); got != want {
			t.Fatalf("Cancel said %q, want %q", got, want)
		}
	}
	retry := func(id int64, want string) {
		t.Helper()
		got, other, err := f.store.Retry(f.ctx, f.pool, id)
		if err != nil || got != want || (other != 0) != (want == jobstore.KeyTaken) {
			t.Fatalf("Retry said %q, %d, %v, want %q", got, other, err, want)
		}
	}
	pending := f.insert(1)[0]
	cancel(pending, jobstore.CancelledNow)
	cancel(pending, jobstore.NotFound)
	row := f.claim1()
	cancel(row.ID, jobstore.CancelRequested)
	if got := must(f.queue.Renew(f.ctx, []runner.Token{row}, time.Minute))(t); got[0] != runner.CancelRequested {
		t.Fatalf("Renew said %v", got)
	}
	f.report([]verdict{fail(row, runner.Retry)}, runner.Cancelled)
	retry(row.ID, jobstore.NotFound) // cancelled jobs are not for retry

	row = f.claim1()
	f.exec(`UPDATE %s.jobs SET key = 'k1'`)
	f.report([]verdict{fail(row, runner.Fail)}, runner.Failed)
	f.exec(`INSERT INTO %s.jobs (queue, kind, key, run_at) VALUES ($1, 'k', 'k1', now() + '1 h')`, queueName)
	retry(row.ID, jobstore.KeyTaken)
	if f.state(row.ID) != "failed" {
		t.Fatal("a refused retry moved the job")
	}
	f.exec(`DELETE FROM %s.jobs`)
	retry(row.ID, jobstore.Retried)
	f.report([]verdict{succeed(row)}, runner.Lost) // the old claim is closed
	if again := f.claim(1); len(again) != 1 || again[0].Attempt != row.Attempt+1 || again[0].Failures != 0 {
		t.Fatalf("claimed again: %+v", again)
	}
}

// C80: a role whose sessions begin in REPEATABLE READ. The snapshot is older than the wait for the table, so the row has
// changed under the statement; what fails once is repeated in a transaction that is READ COMMITTED, as is all that follows.
func TestIsolationOfTheRole(t *testing.T) {
	t.Parallel()
	f := open(t, setting("default_transaction_isolation", "repeatable read"), mode(pgx.QueryExecModeSimpleProtocol))
	row := f.claim1()
	if f.queue.Explicit() {
		t.Fatal("transactions before there was a reason")
	}
	holder := must(f.pool.BeginTx(f.ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}))(t)
	must(holder.Exec(f.ctx, f.sql(`LOCK TABLE %s.jobs IN ACCESS EXCLUSIVE MODE`)))(t)
	answer := make(chan []runner.Outcome, 1)
	go func() {
		outcomes, err := f.queue.Report(f.ctx, []verdict{fail(row, runner.Retry)})
		if err != nil {
			t.Error(err)
		}
		answer <- outcomes
	}()
	f.waitForLock()
	must(holder.Exec(f.ctx, f.sql(`UPDATE %s.jobs SET generation = generation + 1 WHERE id = $1`), row.ID))(t)
	if err := holder.Commit(f.ctx); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; len(got) != 1 || got[0] != runner.Superseded {
		t.Fatalf("outcomes %v, want superseded", got)
	}
	if !f.queue.Explicit() {
		t.Fatal("still without transactions")
	}
	row = f.claim(1)[0].Payload
	f.report([]verdict{succeed(row)}, runner.Succeeded)
}

func TestCompleteTxIsOneStatement(t *testing.T) {
	t.Parallel()
	log := &statementLog{}
	f := open(t, traced(log))
	row := f.claim1()
	tx := must(f.pool.Begin(f.ctx))(t)
	log.take()
	if got := must(f.store.CompleteTx(f.ctx, tx, row, nil))(t); got != runner.Succeeded {
		t.Fatalf("CompleteTx said %v", got)
	}
	if sent := log.take(); len(sent) != 1 {
		t.Fatalf("sent %q", sent)
	}
	if err := tx.Commit(f.ctx); err != nil {
		t.Fatal(err)
	}
}
