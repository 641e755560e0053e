package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/runner"
)

// logs is a logger and what it wrote.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logs) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

// guard is a state machine of the application's that forbids the way back for some rows.
const guard = `CREATE FUNCTION app.guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF OLD.status = 'processing' AND NEW.status = 'pending' AND NEW.body = 'bad' THEN RAISE EXCEPTION 'no way back, password=s3cret'; END IF;
	RETURN NEW; END $$;
	CREATE TRIGGER guard BEFORE UPDATE ON app.deliveries FOR EACH ROW EXECUTE FUNCTION app.guard()`

// C146, rows that may not go back to pending: they are given up, once, and hold up no other row, however many there are. What
// the trigger says is logged for debugging alone.
func TestC146_RowsThatMayNotGoBackHoldUpNobody(t *testing.T) {
	t.Parallel()
	db := database(t)
	l := &logs{}
	q := plain().open(t, db.Pool, outbox.Config{Logger: l.logger(slog.LevelInfo)})
	exec(t, db.Pool, guard)
	insert(t, db.Pool, 1, 280)
	exec(t, db.Pool, `UPDATE app.deliveries SET body = 'bad' WHERE id <= 80`)
	w := newWorker(t, q, func(_ context.Context, task *task) error {
		if task.Payload.Body == "bad" {
			return errors.New("it fails")
		}
		return nil
	})
	stop := run(w)
	eventually(t, "the others are done", func() bool { return counted(t, db.Pool, "delivered") == 200 })
	eventually(t, "the bad ones are given up", func() bool {
		status := w.Status()
		return status.Runner.Outcomes.Lost == 80 && status.Runner.Unreported == 0
	})
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := w.Status().Rejected; got != 160 { // the end, and the failed attempt in its place
		t.Errorf("%d refusals, want 2 for each of 80 rows", got)
	}
	if got := counted(t, db.Pool, "processing"); got != 80 {
		t.Errorf("%d rows are left to their leases", got)
	}
	if text := l.String(); strings.Contains(text, "s3cret") || !strings.Contains(text, "SQLSTATE P0001") || strings.Count(text, "outbox: ") > 45 {
		t.Errorf("%d lines are of outbox, s3cret: %v\n%s", strings.Count(text, "outbox: "), strings.Contains(text, "s3cret"), text[:min(len(text), 2000)])
	}

	// A drain ends although the way back is refused, and so is the reaper's; what lies beside is taken back.
	exec(t, db.Pool, `UPDATE app.deliveries SET attempted_at = now() - interval '1 day' WHERE status = 'processing'`)
	exec(t, db.Pool, `INSERT INTO app.deliveries (id, name, body, status, attempts, attempted_at) VALUES (1000, 'stale', '', 'processing', 1, now() - interval '1 hour')`)
	w = newWorker(t, plain().queue(t, db.Pool, outbox.Config{Logger: l.logger(slog.LevelInfo)}), nothing)
	for range 2 {
		drain(t, w)
	}
	if got := counted(t, db.Pool, "delivered"); got != 201 {
		t.Errorf("%d rows are delivered", got)
	}
	if strings.Contains(l.String(), "s3cret") {
		t.Error("the reaper logs what the trigger says")
	}
	// Once the trigger is gone they come back, when their minute is over.
	exec(t, db.Pool, `DROP TRIGGER guard ON app.deliveries`)
	w = newWorker(t, plain().queue(t, db.Pool, outbox.Config{}), nothing)
	for range 2 {
		drain(t, w)
	}
	if got := counted(t, db.Pool, "delivered"); got != 281 {
		t.Errorf("%d rows are delivered in the end", got)
	}
}

// Whatever code a trigger gives its error, and whichever write it refuses, its text is for debugging alone.
func TestRefusalsAreLoggedWithoutTheirTexts(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"P0001", "23514", "U0123", "55000"} {
		for _, status := range []string{"delivered", "processing", "pending"} {
			t.Run(code+" "+status, func(t *testing.T) {
				t.Parallel()
				db := database(t)
				quiet, all := &logs{}, &logs{}
				for _, l := range []*logs{quiet, all} {
					level := slog.LevelInfo
					if l == all {
						level = slog.LevelDebug
					}
					s := plain()
					s.name = outbox.Name{fmt.Sprintf("level %d", level), "deliveries"}
					q := s.open(t, db.Pool, outbox.Config{Logger: l.logger(level), MaxAttempts: 2})
					exec(t, db.Pool, `INSERT INTO `+s.name.String()+` (id, name) SELECT i, 'row ' || i FROM generate_series(1, 10) i`)
					exec(t, db.Pool, fmt.Sprintf(`CREATE FUNCTION %s.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
						RAISE EXCEPTION 'password=s3cret' USING ERRCODE = '%s', CONSTRAINT = 'a rule'; END $$;
						CREATE TRIGGER refuse AFTER UPDATE ON %s FOR EACH ROW WHEN (NEW.id = 7 AND NEW.status = '%s') EXECUTE FUNCTION %[1]s.refuse()`,
						quoted(s.name[0]), code, s.name, status))
					w := newWorker(t, q, func(_ context.Context, task *task) error {
						if task.Payload.Name == "row 7" && status == "pending" {
							return errors.New("it fails")
						}
						return nil
					})
					drain(t, w)
					if got := one[int](t, db.Pool, `SELECT count(*) FROM `+s.name.String()+` WHERE status = 'delivered'`); got != 9 {
						t.Errorf("%d of the 9 others are delivered", got)
					}
				}
				if text := quiet.String(); strings.Contains(text, "s3cret") || !strings.Contains(text, "SQLSTATE "+code+", constraint a rule") {
					t.Errorf("the log is\n%s", text)
				}
				if !strings.Contains(all.String(), "s3cret") {
					t.Errorf("the text is not there for debugging:\n%s", all)
				}
			})
		}
	}
}

// Without a column of its own, the code stands before the message whoever writes it.
func TestMessagesBeginWithTheCodeWhereItHasNoColumn(t *testing.T) {
	t.Parallel()
	db := database(t)
	s := plain()
	s.create(t, db.Pool)
	table := s.table()
	table.ErrorCode = ""
	q, err := outbox.New(db.Pool, table, outbox.Config{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	insert(t, db.Pool, 1, 3)
	exec(t, db.Pool, `INSERT INTO app.deliveries (id, name, status, attempts, attempted_at) VALUES (9, 'stale', 'processing', 1, now() - interval '1 day')`)
	trigger(t, db.Pool, `NEW.id = 1 AND NEW.status = 'processing' OR NEW.id = 2 AND NEW.status = 'delivered'`, `RAISE EXCEPTION 'no';`)
	drain(t, newWorker(t, q, nothing))
	if got := one[string](t, db.Pool, `SELECT string_agg(id || ' ' || last_error, ', ' ORDER BY id) FROM app.deliveries`); got !=
		"1 claim_rejected: SQLSTATE P0001, 2 verdict_rejected: SQLSTATE P0001, 9 lease_expired: the worker did not report before its lease ran out" {
		t.Errorf("the messages are %q", got)
	}
}

// The same refusals in the transaction of a handler keep their code and SQLSTATE.
func TestHandleTxKeepsTheSQLStateOfARefusal(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{Logger: quiet()})
	insert(t, db.Pool, 1, 2)
	exec(t, db.Pool, `CREATE TABLE app.effects (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	trigger(t, db.Pool, `NEW.id = 1 AND NEW.status = 'delivered'`, `RAISE EXCEPTION 'password=s3cret' USING ERRCODE = '23514', CONSTRAINT = 'a rule';`)
	w := transactional(t, q, func(ctx context.Context, tx pgx.Tx, _ *task) (result, error) {
		_, err := tx.Exec(ctx, `INSERT INTO app.effects VALUES (1), (1)`)
		return result{}, err
	})
	drain(t, w)
	if got := one[string](t, db.Pool, `SELECT string_agg(concat_ws(' ', id, status, error_code, last_error), '; ' ORDER BY id) FROM app.deliveries`); got !=
		"1 pending verdict_rejected SQLSTATE 23514, constraint a rule; 2 pending error SQLSTATE 23505, constraint effects_id_key" {
		t.Errorf("the rows are %q", got)
	}
	if got := w.Status().Rejected; got != 1 {
		t.Errorf("%d refusals are counted", got)
	}
}

// A claim that is lost under a transactional handler is a lost claim, and no failure that will be tried again.
func TestALostClaimInHandleTxIsNoFailedAttempt(t *testing.T) {
	t.Parallel()
	db := database(t)
	l := &logs{}
	q := plain().open(t, db.Pool, outbox.Config{Logger: l.logger(slog.LevelInfo)})
	insert(t, db.Pool, 1, 1)
	w := transactional(t, q, func(ctx context.Context, tx pgx.Tx, _ *task) (result, error) {
		if _, err := db.Pool.Exec(ctx, `UPDATE app.deliveries SET status = 'withdrawn'`); err != nil {
			return result{}, err
		}
		_, err := tx.Exec(ctx, `SELECT 1`)
		return result{}, err
	})
	if got := drain(t, w); got.Outcomes.Lost != 1 || got.Outcomes.Total() != 1 {
		t.Errorf("%+v", got.Outcomes)
	}
	if text := l.String(); strings.Contains(text, "attempt failed") || strings.Count(text, "verdict lost") != 1 {
		t.Errorf("the log is\n%s", text)
	}
}

// What Scan cannot read is named: the column, and not its value.
func TestColumnsThatDoNotScanAreNamed(t *testing.T) {
	t.Parallel()
	db := database(t)
	s := plain()
	s.create(t, db.Pool)
	table := s.table()
	table.Columns = []string{"t.name", "nullif(t.body, '') AS body"} // which a string cannot be when it is NULL
	l := &logs{}
	q, err := outbox.New(db.Pool, table, outbox.Config{Logger: l.logger(slog.LevelInfo), MaxAttempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	insert(t, db.Pool, 1, 1)
	drain(t, newWorker(t, q, nothing))
	if got := one[string](t, db.Pool, `SELECT concat_ws(' ', status, error_code, last_error) FROM app.deliveries`); got !=
		`dead undecodable column "body" does not scan into *string` {
		t.Errorf("the row is %q", got)
	}
	if !strings.Contains(l.String(), `does not scan into *string`) {
		t.Errorf("the log is\n%s", l)
	}
}

// A context that has ended is told as such, and not as a database that is down.
func TestAnEndedContextIsNoOutage(t *testing.T) {
	t.Parallel()
	db := database(t)
	l := &logs{}
	q := plain().open(t, db.Pool, outbox.Config{Logger: l.logger(slog.LevelInfo)})
	w := newWorker(t, q, nothing)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := w.Drain(ended); err != context.Canceled {
		t.Errorf("Drain: %v", err)
	}
	if err := w.Run(ended); err != nil {
		t.Errorf("Run: %v", err)
	}
	if text := l.String(); text != "" {
		t.Errorf("the log is\n%s", text)
	}
}

// A drain that leaves due rows behind says so.
func TestADrainTellsWhatAPauseHasLeft(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{Workers: 1, Batch: 2})
	insert(t, db.Pool, 1, 10)
	w := newWorker(t, q, func(context.Context, *task) error { return runner.Pause(time.Hour) })
	if got := drain(t, w); !got.More || got.Outcomes.Succeeded != 0 {
		t.Errorf("%+v", got)
	}
	w = newWorker(t, q, nothing)
	if got := drain(t, w); got.More || got.Outcomes.Succeeded == 0 {
		t.Errorf("%+v", got)
	}
}
