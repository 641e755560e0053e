package jobstore_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// Superseded is asked first: with one attempt, the new input would otherwise die of the old one's failure.
func TestSupersededComesFirst(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, v := range []func(*jobstore.Row) verdict{
		succeed,
		func(r *jobstore.Row) verdict { return succeedWith(r, `1`) },
		func(r *jobstore.Row) verdict { return fail(r, runner.Retry) },
		func(r *jobstore.Row) verdict { return fail(r, runner.Fail) },
		func(r *jobstore.Row) verdict { return verdict{Token: r, Decision: runner.Cancel} },
		func(r *jobstore.Row) verdict { return verdict{Token: r, Decision: runner.Snooze, Delay: time.Hour} },
	} {
		row := f.claim1()
		f.exec(`UPDATE %s.jobs SET max_attempts = 1`)
		f.replace(row.ID)
		f.report([]verdict{v(row)}, runner.Superseded)
		if got := query1[string](f, `SELECT format('%%s %%s %%s', state, failures, claimed_at IS NULL) FROM %s.jobs`); got != "pending 0 t" {
			t.Fatalf("after a superseded run the job is %q", got)
		}
		f.report([]verdict{v(row)}, runner.Lost) // its claim is closed
		if got := f.claim(1); len(got) != 1 || !strings.Contains(string(got[0].Payload.Payload), "new") {
			t.Fatal("the new input was not claimed")
		}
		f.exec(`TRUNCATE %s.jobs`)
	}
	row := f.claim1()
	f.exec(`UPDATE %s.jobs SET max_attempts = 1`)
	f.replace(row.ID)
	f.expire()
	if got := must(f.queue.Recover(f.ctx, 10))(t); got.Superseded != 1 || got.Total() != 1 {
		t.Fatalf("Recover said %+v", got)
	}
	if got := query1[string](f, `SELECT format('%%s %%s', state, failures) FROM %s.jobs`); got != "pending 0" {
		t.Fatalf("after a superseded crash the job is %q", got)
	}
}

func TestFirstVerdictOfATokenCounts(t *testing.T) {
	t.Parallel()
	f := open(t)
	a, b := f.claim1(), f.claim1()
	f.report([]verdict{succeed(b), fail(a, runner.Fail), succeed(a), succeed(b), succeed(b)},
		runner.Succeeded, runner.Failed, runner.Lost, runner.Lost, runner.Lost)
	if f.state(a.ID) != "failed" || f.state(b.ID) != "succeeded" {
		t.Fatalf("%s is %s, %s is %s", a, f.state(a.ID), b, f.state(b.ID))
	}
}

// A result that Postgres refuses fails alone, whether Go or Postgres finds out.
func TestRefusedResultFailsAlone(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, bad := range []string{`{"n": 1e999999}`, `"\u0000"`, `"\ud800"`, `{`, "\"a\x00b\""} {
		var verdicts []verdict
		var want []runner.Outcome
		f.insert(20)
		tasks := f.claim(20)
		for i, task := range tasks {
			if i == 7 || i == 13 {
				verdicts, want = append(verdicts, succeedWith(task.Payload, bad)), append(want, runner.Retrying)
			} else {
				verdicts, want = append(verdicts, succeedWith(task.Payload, `{"ok": true}`)), append(want, runner.Succeeded)
			}
		}
		f.report(verdicts, want...)
		if got := query1[int](f, `SELECT count(*) FROM %s.jobs WHERE state = 'pending' AND failures = 1 AND errors->-1->>'code' = 'result_rejected'`); got != 2 {
			t.Fatalf("result %q: %d jobs failed with result_rejected, want 2", bad, got)
		}
		f.exec(`TRUNCATE %s.jobs`)
	}
	row := f.claim1()
	if _, err := f.store.CompleteTx(f.ctx, nil, row, json.RawMessage(`{`)); err == nil {
		t.Fatal("CompleteTx sent an invalid result")
	}
}

// Today's partition is missing: the completion makes it and goes on.
func TestMissingPartitionIsMade(t *testing.T) {
	t.Parallel()
	f := open(t)
	drop := func() {
		f.exec("DROP TABLE %s.history_" + f.today())
	}
	for _, v := range []func(*jobstore.Row) verdict{succeed, func(r *jobstore.Row) verdict { return succeedWith(r, `1`) }} {
		row := f.claim1()
		drop()
		f.report([]verdict{v(row)}, runner.Succeeded)
		if f.state(row.ID) != "succeeded" {
			t.Fatalf("%s is %s", row, f.state(row.ID))
		}
	}
	row := f.claim1()
	drop()
	must(f.store.Cancel(f.ctx, f.pool, row.ID))(t)
	f.expire()
	if got := must(f.queue.Recover(f.ctx, 10))(t); got.Cancelled != 1 {
		t.Fatalf("Recover said %+v", got)
	}
}

// Statements are bounded in bytes, and what was stored before an error stays stored and is answered for.
func TestBatchesAreBoundedAndStandAlone(t *testing.T) {
	t.Parallel()
	f := open(t)
	large := fmt.Sprintf("%q", strings.Repeat("x", 3<<20))
	f.insert(3)
	tasks := f.claim(3)
	f.exec(`CREATE FUNCTION boom() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'boom'; END $$ -- %s`)
	f.exec(fmt.Sprintf("CREATE TRIGGER boom BEFORE INSERT ON %%s.history_%s FOR EACH ROW WHEN (NEW.id = %d) EXECUTE FUNCTION boom()",
		f.today(), tasks[1].Payload.ID))
	verdicts := []verdict{succeedWith(tasks[0].Payload, large), succeedWith(tasks[1].Payload, large), succeedWith(tasks[2].Payload, large)}
	f.report(verdicts, runner.Succeeded, runner.Busy, runner.Busy)
	if _, err := f.queue.Report(f.ctx, verdicts[1:2]); err == nil {
		t.Fatal("nothing was stored and there is no error")
	}
	f.exec("DROP TRIGGER boom ON %s.history_" + f.today())
	f.report(verdicts[1:], runner.Succeeded, runner.Succeeded)
}

// C53: the last ten failed attempts are kept, each with what the database knows; the claim does not carry them.
func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	f := open(t)
	row := f.claim1()
	f.exec(`UPDATE %s.jobs SET max_attempts = 1000`)
	for i := range 25 {
		v := fail(row, runner.Retry)
		v.Failure = &runner.Failure{Code: "c\x00de", Message: fmt.Sprint(i, strings.Repeat("x", 4<<10), "\xff")}
		f.report([]verdict{v}, runner.Retrying)
		row = f.claim(1)[0].Payload
	}
	got := query1[string](f, `SELECT format('%%s %%s %%s %%s %%s %%s', jsonb_array_length(errors), error_count, failures,
		errors->-1->>'attempt', errors->-1->>'by', errors->-1->>'code') FROM %s.jobs`)
	if got != "10 25 25 25 w1 cde" {
		t.Fatalf("errors: %s", got)
	}
	if !query1[bool](f, `SELECT bool_and(abs(extract(epoch FROM clock_timestamp() - (e->>'at')::timestamptz)) < 100 AND e->>'message' LIKE '%%x_') FROM %s.jobs, jsonb_array_elements(errors) e`) {
		t.Fatal("an error has no time or message")
	}
	if size := len(row.Payload) + len(row.Metadata); size > 1000 {
		t.Fatalf("the claim carries %d bytes", size)
	}
	f.report([]verdict{{Token: row, Decision: runner.Snooze}}, runner.Snoozed)
	if got := query1[int](f, `SELECT error_count + failures FROM %s.jobs`); got != 50 {
		t.Fatal("a snooze was counted")
	}
}

func TestHistorySettings(t *testing.T) {
	t.Parallel()
	f := open(t)
	for history, want := range map[string]string{"full": "111", "slim": "001", "off": "xx1"} {
		if err := f.store.SetHistory(f.ctx, f.pool, queueName, history); err != nil {
			t.Fatal(err)
		}
		plain, result, failed, tx := f.claim1(), f.claim1(), f.claim1(), f.claim1()
		f.report([]verdict{succeed(plain), succeedWith(result, `{"r": 1}`), fail(failed, runner.Fail)},
			runner.Succeeded, runner.Succeeded, runner.Failed)
		begun := must(f.pool.Begin(f.ctx))(t)
		if got := must(f.store.CompleteTx(f.ctx, begun, tx, json.RawMessage(`2`)))(t); got != runner.Succeeded {
			t.Fatalf("CompleteTx said %v", got)
		}
		if err := begun.Commit(f.ctx); err != nil {
			t.Fatal(err)
		}
		kept := ""
		for _, row := range []*jobstore.Row{plain, result, failed} {
			kept += query1[string](f, `SELECT coalesce((SELECT (payload <> '{}')::int::text FROM %s.history WHERE id = $1), 'x')`, row.ID)
		}
		if kept != want {
			t.Errorf("history %s: payloads kept of success, result, failure: %s, want %s", history, kept, want)
		}
		stored := query1[string](f, `SELECT coalesce((SELECT string_agg(result::text, ' ' ORDER BY id) FROM %s.history WHERE id = ANY ($1)), '')`, []int64{result.ID, tx.ID})
		if want := map[bool]string{true: "", false: `{"r": 1} 2`}[history == "off"]; stored != want {
			t.Errorf("history %s: results %q, want %q", history, stored, want)
		}
	}
}

// A success that comes too late for the reaper still wins over the death of its own attempt, and over no other.
func TestRevive(t *testing.T) {
	t.Parallel()
	f := open(t)
	a, b := f.claim1(), f.claim1()
	f.exec(`UPDATE %s.jobs SET max_attempts = 1`)
	f.expire()
	if got := must(f.queue.Recover(f.ctx, 10))(t); got.Dead != 2 {
		t.Fatalf("Recover said %+v", got)
	}
	stale := *b
	stale.Attempt--
	f.report([]verdict{succeedWith(a, `7`), succeed(&stale), fail(b, runner.Retry)}, runner.Succeeded, runner.Lost, runner.Lost)
	if f.state(a.ID) != "succeeded" || f.state(b.ID) != "dead" {
		t.Fatalf("a is %s, b is %s", f.state(a.ID), f.state(b.ID))
	}
	if got := query1[string](f, `SELECT result::text FROM %s.history WHERE id = $1`, a.ID); got != "7" {
		t.Fatalf("result %q", got)
	}
	f.report([]verdict{succeed(b), succeed(a)}, runner.Succeeded, runner.Lost)
}

// C44: what was deleted or edited by hand is lost, alone.
func TestDeletedAndEditedRows(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, decision := range []runner.Decision{runner.Succeed, runner.Retry, runner.Snooze} {
		gone, edited, fine := f.claim1(), f.claim1(), f.claim1()
		f.exec(`DELETE FROM %s.jobs WHERE id = $1`, gone.ID)
		f.exec(`UPDATE %s.jobs SET state = 'pending', claimed_at = NULL WHERE id = $1`, edited.ID)
		f.report([]verdict{fail(gone, decision), fail(edited, decision), succeed(fine)}, runner.Lost, runner.Lost, runner.Succeeded)
		f.exec(`TRUNCATE %s.jobs`)
	}
}

func TestForeignTokens(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, v := range []verdict{{Decision: runner.Succeed}, {Token: (*jobstore.Row)(nil), Decision: runner.Succeed},
		succeed(&jobstore.Row{Queue: "other"}), {Token: &jobstore.Row{Queue: queueName}}} {
		if _, err := f.queue.Report(f.ctx, []verdict{v}); err == nil {
			t.Errorf("%+v was taken", v)
		}
	}
	if _, err := f.queue.Renew(f.ctx, []runner.Token{&jobstore.Row{Queue: "other"}}, time.Minute); err == nil {
		t.Error("Renew took a token of another queue")
	}
}
