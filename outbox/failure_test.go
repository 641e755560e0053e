package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// full says that the failure cases run at the size of their description.
func full() bool { return os.Getenv("PGQUEUE_TEST_FULL") == "1" }

// seenRows notes which rows a handler was given.
type seenRows struct {
	mu    sync.Mutex
	count map[string]int
	news  chan string
}

func newSeen() *seenRows { return &seenRows{count: map[string]int{}, news: make(chan string, 10_000)} }

func (s *seenRows) handle(_ context.Context, task *task) error {
	s.mu.Lock()
	s.count[task.Payload.Name]++
	s.mu.Unlock()
	s.news <- task.Payload.Name
	return nil
}

func (s *seenRows) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, n := range s.count {
		if n != 1 {
			name = fmt.Sprintf("%s %d times", name, n)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// C143: ids and created_at are not given out in the order of commits. A row with a lower id and an earlier time that becomes
// visible later is handled all the same, also while claims of a backlog start behind it.
func TestC143_RowsThatCommitLateAreHandled(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{Tick: 200 * time.Millisecond})
	seen := newSeen()
	stop := run(newWorker(t, q, seen.handle))
	late, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Exec(t.Context(), `INSERT INTO app.deliveries (id, name) VALUES (1, 'late')`); err != nil {
		t.Fatal(err)
	}
	exec(t, db.Pool, `INSERT INTO app.deliveries (id, name) VALUES (2, 'early')`)
	if got := <-seen.news; got != "early" {
		t.Fatalf("%q was handled first", got)
	}
	insert(t, db.Pool, 1000, 500) // a backlog of older due times
	for range 500 {
		<-seen.news
	}
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-seen.news; got != "late" {
		t.Errorf("%q was handled", got)
	}

	// At random: what is handled is what was committed.
	n, hold := 60, 200
	if full() {
		n, hold = 200, 2000
	}
	want := append(seen.names(), make([]string, 0, n)...)
	var producers sync.WaitGroup
	committed := make([]string, n)
	limit := make(chan struct{}, 4)
	for i := range n {
		wait, rollback := time.Duration(rand.IntN(hold))*time.Millisecond, rand.IntN(10) < 3
		producers.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			name := fmt.Sprintf("random %d", i)
			err := pgx.BeginFunc(context.Background(), db.Pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(context.Background(), `INSERT INTO app.deliveries (id, name) VALUES ($1, $2)`, 5000+i, name); err != nil {
					return err
				}
				<-time.After(wait)
				if rollback {
					return pgx.ErrTxClosed
				}
				return nil
			})
			if err == nil {
				committed[i] = name
			} else if !errors.Is(err, pgx.ErrTxClosed) {
				t.Error(err)
			}
		})
	}
	producers.Wait()
	for _, name := range committed {
		if name != "" {
			want = append(want, name)
		}
	}
	eventually(t, "everything is delivered", func() bool { return counted(t, db.Pool, "delivered") == len(want) })
	if err := stop(); err != nil {
		t.Error(err)
	}
	slices.Sort(want)
	if got := seen.names(); !slices.Equal(got, want) {
		t.Errorf("handled %d rows, committed %d:\n%v\n%v", len(got), len(want), got, want)
	}
}

// C146, without an index: the start warns with the index to make, and says what a poll costs.
func TestC146_NoUsableIndexIsToldWithItsCost(t *testing.T) {
	t.Parallel()
	db := database(t)
	s := plain()
	s.index = false
	q := s.open(t, db.Pool, outbox.Config{})
	n := 20_000
	if full() {
		n = 1_000_000
	}
	exec(t, db.Pool, `INSERT INTO app.deliveries (id, name, status) SELECT i, 'old', 'delivered' FROM generate_series(1000, $1::int) i`, 1000+n)
	insert(t, db.Pool, 1, 100)
	exec(t, db.Pool, `CREATE INDEX "of the wrong kind" ON app.deliveries (next_attempt_at, created_at)`)
	exec(t, db.Pool, `VACUUM ANALYZE app.deliveries`)
	report, err := q.Check(t.Context())
	if err != nil || len(report.Warnings) != 2 || report.Poll == 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	if got := report.Warnings[0].Statement; got != `CREATE INDEX CONCURRENTLY ON "app"."deliveries" ("next_attempt_at", "created_at") WHERE "status" = 'pending'` {
		t.Errorf("advice %q", got)
	}
	seen := newSeen()
	if got := drain(t, newWorker(t, q, seen.handle)); got.Outcomes.Succeeded != 100 {
		t.Errorf("%+v", got)
	}
}

// trigger makes an AFTER UPDATE trigger of a body.
func trigger(t testing.TB, pool *pgxpool.Pool, when, body string) {
	t.Helper()
	exec(t, pool, `CREATE OR REPLACE FUNCTION app.fight() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN `+body+` RETURN NULL; END $$`)
	exec(t, pool, `CREATE TRIGGER fight AFTER UPDATE ON app.deliveries FOR EACH ROW WHEN (`+when+`) EXECUTE FUNCTION app.fight()`)
}

// C146, a trigger that raises for one row: at the end of its attempt, at its claim, or whatever is written. The others are done.
func TestC146_ARowWhoseTriggerRaisesFailsAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ when, want string }{
		"at its end":   {`NEW.id = 7 AND NEW.status = 'delivered'`, "dead 2 verdict_rejected"},
		"at its claim": {`NEW.id = 7 AND NEW.status = 'processing'`, "dead 2 claim_rejected"},
		"always":       {`NEW.id = 7`, "pending 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := database(t)
			q := plain().open(t, db.Pool, outbox.Config{MaxAttempts: 2, Logger: quiet()})
			insert(t, db.Pool, 1, 30)
			trigger(t, db.Pool, test.when, `RAISE EXCEPTION 'not this one';`)
			seen := newSeen()
			w := newWorker(t, q, seen.handle)
			for range 3 {
				drain(t, w)
				_, _ = db.Pool.Exec(t.Context(), `UPDATE app.deliveries SET next_attempt_at = now() WHERE status = 'pending'`)
			}
			if got := counted(t, db.Pool, "delivered"); got != 29 {
				t.Errorf("%d of the 29 others are delivered", got)
			}
			if got := one[string](t, db.Pool, `SELECT concat_ws(' ', status, attempts, error_code) FROM app.deliveries WHERE id = 7`); got != test.want {
				t.Errorf("the row is %q, want %q", got, test.want)
			}
			if got := w.Status().Rejected; got == 0 {
				t.Error("the status does not tell of it")
			}
		})
	}
}

// The same in the reaper: one stale row that cannot be written keeps no other from being taken back.
func TestC146_AStaleRowWhoseTriggerRaisesStaysAlone(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{Logger: quiet()})
	exec(t, db.Pool, `INSERT INTO app.deliveries (id, name, status, attempts, attempted_at) SELECT i, 'stale', 'processing', 1, now() - interval '1 day' FROM generate_series(1, 5) i`)
	trigger(t, db.Pool, `NEW.id = 3`, `RAISE EXCEPTION 'not this one';`)
	if got, err := q.Recover(t.Context(), 10); err != nil || got.Requeued != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := q.Recover(t.Context(), 10); err != nil || got.Requeued != 0 {
		t.Errorf("again: %+v, %v", got, err)
	}
}

// C146, a trigger that adds a row for each update: a drain ends, because it works off what was due when it began.
func TestC146_ATriggerThatAddsRowsDoesNotKeepADrainGoing(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{})
	insert(t, db.Pool, 1, 5)
	exec(t, db.Pool, `CREATE SEQUENCE app.ids START 1000`)
	trigger(t, db.Pool, `NEW.status = 'delivered'`, `INSERT INTO app.deliveries (id, name) VALUES (nextval('app.ids'), 'made'), (nextval('app.ids'), 'made');`)
	w := newWorker(t, q, nothing)
	for _, want := range []int{5, 10, 20} {
		if got := drain(t, w); got.Claimed != want {
			t.Fatalf("a drain claimed %d, want %d", got.Claimed, want)
		}
	}
}

// C146, a trigger that sets the status back: each row is sent once in the time of a hold, and the numbers show it.
func TestC146_ATriggerThatSetsTheStatusBackIsHeld(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"delivered", "processing"} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			db := database(t)
			q := plain().open(t, db.Pool, outbox.Config{Tick: 10 * time.Millisecond})
			insert(t, db.Pool, 1, 5)
			trigger(t, db.Pool, `NEW.status = '`+on+`' AND NEW.id <= 5`, `UPDATE app.deliveries SET status = 'pending' WHERE id = NEW.id;`)
			seen := newSeen()
			w := newWorker(t, q, seen.handle)
			stop := run(w)
			for range 5 {
				<-seen.news
			}
			// Rows that come after it are done, claim upon claim.
			for i := range 20 {
				insert(t, db.Pool, 100+i, 1)
				<-seen.news
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if got := len(seen.names()); got != 25 || slices.ContainsFunc(seen.names(), func(s string) bool { return strings.Contains(s, "times") }) {
				t.Errorf("seen %v", seen.names())
			}
			stats, err := q.Stats(t.Context())
			if err != nil || on == "delivered" && stats.Held != 5 {
				t.Errorf("stats %+v, %v", stats, err)
			}
			wait, ok, err := q.NextDue(t.Context())
			if err != nil || on == "delivered" && (!ok || wait < 10*time.Second) {
				t.Errorf("the next is due in %v, %v, %v", wait, ok, err)
			}
		})
	}
}

// C147: rows that always fail, at the head of the line, block nobody, are parked after five tries with their last error, and
// can be replayed.
func TestC147_PoisonRowsBlockNobody(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{Tick: 20 * time.Millisecond, Logger: quiet(),
		Backoff: runner.Exponential{Base: 100 * time.Millisecond, Max: 100 * time.Millisecond}})
	good := 200
	if full() {
		good = 1000
	}
	insert(t, db.Pool, 1, 10+good)
	var bad atomic.Bool
	bad.Store(true)
	var mu sync.Mutex
	tries := map[string][]time.Time{}
	poison := func(name string) bool {
		var n int
		_, _ = fmt.Sscanf(name, "row %d", &n)
		return n <= 10
	}
	var goodDone atomic.Int64
	var early atomic.Int64 // good rows that were done before a poison row's third try
	w := newWorker(t, q, func(_ context.Context, task *task) error {
		if !poison(task.Payload.Name) {
			goodDone.Add(1)
			return nil
		}
		mu.Lock()
		tries[task.Payload.Name] = append(tries[task.Payload.Name], time.Now())
		if len(tries[task.Payload.Name]) == 3 {
			early.CompareAndSwap(0, goodDone.Load())
		}
		mu.Unlock()
		if bad.Load() {
			return runner.Coded("poison", runner.Safef("it always fails"))
		}
		return nil
	})
	stop := run(w)
	eventually(t, "the ten are parked", func() bool { return counted(t, db.Pool, "dead") == 10 })
	eventually(t, "the others are done", func() bool { return counted(t, db.Pool, "delivered") == good })
	if early.Load() == 0 {
		t.Error("the good rows waited for the others")
	}
	mu.Lock()
	for name, at := range tries {
		if len(at) != 5 {
			t.Errorf("%s was tried %d times", name, len(at))
		}
		for i := 1; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap < 90*time.Millisecond {
				t.Errorf("%s was tried again after %v", name, gap)
			}
		}
	}
	mu.Unlock()
	if got := one[int](t, db.Pool, `SELECT count(*) FROM app.deliveries WHERE status = 'dead' AND error_code = 'poison' AND last_error = 'it always fails'`); got != 10 {
		t.Errorf("%d of 10 carry their error", got)
	}
	bad.Store(false)
	if n, err := q.ResumeWhere(t.Context(), "t.error_code = $1", "poison"); err != nil || n != 10 {
		t.Errorf("replay: %d, %v", n, err)
	}
	w.Wake()
	eventually(t, "the ten are done", func() bool { return counted(t, db.Pool, "delivered") == good+10 })
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// C14: a pool that takes all session state away at each hand-out, in the modes for poolers.
func TestC14_NoSessionStateIsNeeded(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pgx.QueryExecMode{"exec": pgx.QueryExecModeExec, "cache_describe": pgx.QueryExecModeCacheDescribe,
		"simple": pgx.QueryExecModeSimpleProtocol} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := database(t, pgqueuetest.WithPoolConfig(func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode = mode
				c.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
					_, err := conn.PgConn().Exec(ctx, "DISCARD ALL").ReadAll()
					return err == nil, err
				}
			}))
			s := plain()
			s.lease, s.kind, s.priority = true, true, true
			q := s.open(t, db.Pool, outbox.Config{Logger: quiet()})
			insert(t, db.Pool, 1, 40)
			w := newWorker(t, q, func(_ context.Context, task *task) error {
				if strings.HasSuffix(task.Payload.Name, "3") {
					return errors.New("no")
				}
				return nil
			})
			if got := drain(t, w); got.Outcomes.Succeeded != 36 || got.Outcomes.Retrying != 4 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// C44: what the application does to a row that is being handled: it is deleted, cancelled by a status of its own, or
// locked. Its neighbours are not touched by that.
func TestC44_RowsThatTheApplicationChangesMeanwhile(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{Logger: quiet(), Workers: 8})
	insert(t, db.Pool, 1, 6)
	for _, outcome := range []error{nil, errors.New("failed"), runner.SnoozeFor(time.Hour)} {
		exec(t, db.Pool, `DELETE FROM app.deliveries`)
		insert(t, db.Pool, 1, 6)
		var entered sync.WaitGroup
		entered.Add(6)
		leave := make(chan struct{})
		w := newWorker(t, q, func(context.Context, *task) error { entered.Done(); <-leave; return outcome })
		ended := make(chan outbox.DrainResult, 1)
		go func() { ended <- drain(t, w) }()
		entered.Wait()
		exec(t, db.Pool, `DELETE FROM app.deliveries WHERE id = 1`)
		exec(t, db.Pool, `UPDATE app.deliveries SET status = 'withdrawn' WHERE id = 2`)
		exec(t, db.Pool, `UPDATE app.deliveries SET body = 'changed' WHERE id = 3`)
		unlock := lock(t, db.Pool, `SELECT FROM app.deliveries WHERE id = $1 FOR UPDATE`, []any{4})
		close(leave)
		eventually(t, "all but the locked one are reported", func() bool {
			o := w.Status().Runner.Outcomes
			return o.Total() == 5 && o.Lost == 2
		})
		unlock()
		if got := <-ended; got.Outcomes.Lost != 2 || got.Outcomes.Total() != 6 {
			t.Errorf("%v: %+v", outcome, got)
		}
		if got := one[string](t, db.Pool, `SELECT status FROM app.deliveries WHERE id = 2`); got != "withdrawn" {
			t.Errorf("%v: the withdrawn row is %s", outcome, got)
		}
	}
}

// C120: while a handler works, no session of ours is in a transaction.
func TestC120_NoTransactionIsOpenWhileAHandlerWorks(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{})
	insert(t, db.Pool, 1, 1)
	open := -1
	w := newWorker(t, q, func(ctx context.Context, _ *task) error {
		return db.Pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
			AND xact_start IS NOT NULL AND backend_type = 'client backend'`).Scan(&open)
	})
	drain(t, w)
	if open != 0 {
		t.Errorf("%d sessions were in a transaction", open)
	}
}
