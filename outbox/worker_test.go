package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// nothing is a handler that succeeds.
func nothing(context.Context, *task) error { return nil }

// database is an empty one.
func database(t testing.TB, options ...pgqueuetest.Option) *pgqueuetest.DB {
	t.Helper()
	return pgqueuetest.New(t, append(options, pgqueuetest.WithoutMigrations())...)
}

// quiet is a logger for tests in which errors are expected.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// insert adds rows 1 to n, each a millisecond after the one before.
func insert(t testing.TB, pool *pgxpool.Pool, from, n int) {
	t.Helper()
	exec(t, pool, `INSERT INTO app.deliveries (id, name, next_attempt_at)
		SELECT i, 'row ' || i, now() - interval '1 hour' + i * interval '1 millisecond' FROM generate_series($1::int, $2::int) i`, from, from+n-1)
}

// handle makes a handler of a function without a result.
func handle(f func(ctx context.Context, task *task) error) runner.Handler[row, result] {
	return runner.HandlerFunc[row, result](func(ctx context.Context, task *task) (result, error) { return result{}, f(ctx, task) })
}

func newWorker(t testing.TB, q *queue, f func(ctx context.Context, task *task) error) *outbox.Worker[row, result] {
	t.Helper()
	w, err := outbox.NewWorker(q, handle(f))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func drain(t testing.TB, w *outbox.Worker[row, result]) outbox.DrainResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	result, err := w.Drain(ctx)
	if err != nil {
		t.Fatalf("Drain: %v", err)
	}
	return result
}

// counted is how many rows have a status.
func counted(t testing.TB, pool *pgxpool.Pool, status string) int {
	t.Helper()
	return one[int](t, pool, `SELECT count(*) FROM app.deliveries WHERE status = $1`, status)
}

// run starts a worker; stop ends it and returns what Run did.
func run(w *outbox.Worker[row, result]) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return sync.OnceValue(func() error { cancel(); return <-ended })
}

// eventually waits for something that only SQL can tell.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("a minute has passed: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestDrainWorksOffWhatIsDue(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{})
	insert(t, db.Pool, 1, 50)
	exec(t, db.Pool, `INSERT INTO app.deliveries (id, name, next_attempt_at) VALUES (99, 'later', now() + interval '1 hour')`)
	var mu sync.Mutex
	seen := map[string]int{}
	w := newWorker(t, q, func(_ context.Context, task *task) error {
		mu.Lock()
		defer mu.Unlock()
		seen[task.Payload.Name]++
		return nil
	})
	if got := drain(t, w); got.Claimed != 50 || got.Outcomes.Succeeded != 50 {
		t.Errorf("the drain did %+v, want 50", got)
	}
	if len(seen) != 50 || seen["row 7"] != 1 {
		t.Errorf("%d rows were seen, row 7 %d times", len(seen), seen["row 7"])
	}
	if got := one[int](t, db.Pool, `SELECT count(*) FROM app.deliveries WHERE status = 'delivered' AND attempts = 1 AND finished_at >= attempted_at`); got != 50 {
		t.Errorf("%d rows are delivered as they should be, want 50", got)
	}
	if got := drain(t, w); got.Claimed != 0 {
		t.Errorf("a second drain claimed %d", got.Claimed)
	}
	if status := w.Status(); status.Drains != 2 || status.Draining || status.Running || status.Runner.Outcomes.Succeeded != 50 {
		t.Errorf("status %+v", status)
	}
}

// Rows that the drain's own work makes are the next one's.
func TestDrainEndsAlthoughItsWorkMakesRows(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{})
	insert(t, db.Pool, 1, 3)
	next := atomic.Int64{}
	next.Store(100)
	w := newWorker(t, q, func(ctx context.Context, _ *task) error {
		_, err := db.Pool.Exec(ctx, `INSERT INTO app.deliveries (id, name) VALUES ($1, 'child')`, next.Add(1))
		return err
	})
	for range 3 {
		if got := drain(t, w); got.Claimed != 3 {
			t.Fatalf("a drain claimed %d rows, want 3", got.Claimed)
		}
	}
}

func TestDrainsDoNotStack(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{})
	insert(t, db.Pool, 1, 2)
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	w := newWorker(t, q, func(context.Context, *task) error { entered <- struct{}{}; <-leave; return nil })
	server := httptest.NewServer(w.DrainHandler())
	defer server.Close()
	post := func(method string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer func() { _ = response.Body.Close() }()
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(body)
	}
	first := make(chan string, 1)
	go func() {
		code, body := post(http.MethodPost)
		first <- fmt.Sprint(code, " ", body)
	}()
	<-entered
	if code, body := post(http.MethodPost); code != http.StatusConflict || !strings.Contains(body, "under way") {
		t.Errorf("a second drain over HTTP: %d %s", code, body)
	}
	if _, err := w.Drain(t.Context()); !errors.Is(err, outbox.ErrBusy) {
		t.Errorf("a second drain: %v", err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, outbox.ErrBusy) {
		t.Errorf("Run beside a drain: %v", err)
	}
	if code, _ := post(http.MethodGet); code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", code)
	}
	close(leave)
	if got := <-first; !strings.HasPrefix(got, `200 {"recovered":0,"claimed":2,"succeeded":2,`) {
		t.Errorf("the first drain: %s", got)
	}
}

func TestDrainHandlerTellsOfAnEarlyEnd(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().queue(t, db.Pool, outbox.Config{Logger: quiet()}) // there is no table
	w := newWorker(t, q, func(context.Context, *task) error { return nil })
	recorder := httptest.NewRecorder()
	w.DrainHandler().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
	if recorder.Code != http.StatusInternalServerError || strings.Contains(recorder.Body.String(), "deliveries") {
		t.Errorf("%d %s", recorder.Code, recorder.Body)
	}
	if err := w.Run(t.Context()); !errors.Is(err, outbox.ErrDescription) {
		t.Errorf("Run without a table: %v", err)
	}
}

// A resident worker hears a hint, and wakes for a row that becomes due, long before its tick.
func TestRunHearsHintsAndWakesForWhatIsDue(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{Tick: time.Hour, Channel: "deliveries"})
	done := make(chan string, 10)
	w := newWorker(t, q, func(_ context.Context, task *task) error { done <- task.Payload.Name; return nil })
	stop := run(w)
	defer func() { _ = stop() }()
	eventually(t, "the listener listens", func() bool { return w.Status().Listener.Connected })
	exec(t, db.Pool, `INSERT INTO app.deliveries (id, name) VALUES (1, 'hinted')`)
	exec(t, db.Pool, `SELECT pg_notify('deliveries', 'new')`)
	if got := <-done; got != "hinted" {
		t.Errorf("%q was run", got)
	}
	exec(t, db.Pool, `INSERT INTO app.deliveries (id, name, next_attempt_at) VALUES (2, 'due soon', now() + interval '1 second')`)
	exec(t, db.Pool, `SELECT pg_notify('deliveries', 'new')`)
	if got := <-done; got != "due soon" {
		t.Errorf("%q was run", got)
	}
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// What is stale is taken back first thing in a drain, and worked off in it.
func TestDrainTakesBackStaleClaimsFirst(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{})
	exec(t, db.Pool, `INSERT INTO app.deliveries (id, name, status, attempts, attempted_at, created_at) VALUES
		(1, 'stale', 'processing', 4, now() - interval '1 day', now()),
		(2, 'spent', 'processing', 5, now() - interval '1 day', now()),
		(3, 'never stamped', 'processing', 1, NULL, now() - interval '1 day'),
		(4, 'at work elsewhere', 'processing', 1, now(), now())`)
	var seen sync.Map
	w := newWorker(t, q, func(_ context.Context, task *task) error { seen.Store(task.Payload.Name, task.Attempt); return nil })
	got := drain(t, w)
	if got.Recovered.Requeued != 2 || got.Recovered.Dead != 1 || got.Outcomes.Succeeded != 2 {
		t.Errorf("the drain did %+v", got)
	}
	if attempt, _ := seen.Load("stale"); attempt != 5 {
		t.Errorf("the stale row was run as attempt %v, want 5: a recovery leaves attempts alone", attempt)
	}
	if got := one[string](t, db.Pool, `SELECT string_agg(status || ' ' || attempts || ' ' || coalesce(error_code, '-'), ', ' ORDER BY id) FROM app.deliveries`); got !=
		"delivered 5 lease_expired, dead 5 lease_expired, delivered 2 lease_expired, processing 1 -" {
		t.Errorf("the rows are %s", got)
	}
}

// A process never takes back what it is working on, however old the claim looks.
func TestRecoverLeavesItsOwnBatchAlone(t *testing.T) {
	t.Parallel()
	db := database(t)
	s := plain()
	q := s.open(t, db.Pool, outbox.Config{})
	insert(t, db.Pool, 1, 2)
	tasks, err := q.Claim(t.Context(), runner.ClaimRequest{Limit: 1, Lease: time.Hour})
	if err != nil || len(tasks) != 1 {
		t.Fatal(tasks, err)
	}
	exec(t, db.Pool, `UPDATE app.deliveries SET attempted_at = now() - interval '1 day' WHERE id = 1`)
	if got, err := q.Recover(t.Context(), 10); err != nil || got.Total() != 0 {
		t.Errorf("its own batch: %+v, %v", got, err)
	}
	if got, err := s.queue(t, db.Pool, outbox.Config{}).Recover(t.Context(), 10); err != nil || got.Requeued != 1 {
		t.Errorf("another process: %+v, %v", got, err)
	}
	// Once it has reported, the row is not its own any more.
	if outcomes, err := q.Report(t.Context(), []runner.Verdict[result]{{Token: tasks[0].Token, Decision: runner.Succeed}}); err != nil || outcomes[0] != runner.Lost {
		t.Errorf("a report with another time in the row: %v, %v", outcomes, err)
	}
	exec(t, db.Pool, `UPDATE app.deliveries SET status = 'processing' WHERE id = 1`)
	if got, err := q.Recover(t.Context(), 10); err != nil || got.Requeued != 1 {
		t.Errorf("after the report: %+v, %v", got, err)
	}
}

// A deploy stops a worker whose batch waits: what no handler has seen is handed back as it was, and what one has seen has
// spent a send. Any number of deploys makes no row dead.
func TestDeploysSpendNothing(t *testing.T) {
	t.Parallel()
	for _, failures := range []bool{false, true} {
		t.Run(fmt.Sprintf("failures=%v", failures), func(t *testing.T) {
			t.Parallel()
			db := database(t)
			s := plain()
			s.failures = failures
			q := s.open(t, db.Pool, outbox.Config{Workers: 1, Batch: 8, StopTimeout: -1, Hold: -1, MaxAttempts: 2, Logger: quiet()})
			insert(t, db.Pool, 1, 6)
			for deploy := range 7 {
				entered := make(chan string, 1)
				// One that is over at once comes first: then the worker knows that it may claim ahead.
				exec(t, db.Pool, `INSERT INTO app.deliveries (id, name, next_attempt_at) VALUES ($1, 'quick', '-infinity')`, 100+deploy)
				w := newWorker(t, q, func(ctx context.Context, task *task) error {
					if task.Payload.Name == "quick" {
						return nil
					}
					entered <- task.Payload.Name
					<-ctx.Done()
					return context.Cause(ctx)
				})
				stop := run(w)
				<-entered
				eventually(t, "the batch is claimed", func() bool { return counted(t, db.Pool, "processing") == 6 })
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				want := 0
				if !failures {
					want = deploy + 1 // the row that was in hand
				}
				column := "attempts"
				if failures {
					column = "failures"
				}
				if got := one[int](t, db.Pool, `SELECT sum(`+column+`) FROM app.deliveries WHERE name <> 'quick'`); got != want {
					t.Fatalf("after deploy %d, %d was spent, want %d", deploy+1, got, want)
				}
				if got := counted(t, db.Pool, "pending"); got != 6 {
					t.Fatalf("after deploy %d, %d rows are pending, want 6", deploy+1, got)
				}
			}
			if got := one[int](t, db.Pool, `SELECT count(*) FROM app.deliveries WHERE status = 'pending' AND next_attempt_at < now() - interval '50 minutes'`); got != 6 {
				t.Errorf("%d of 6 rows have kept their place", got)
			}
		})
	}
}
