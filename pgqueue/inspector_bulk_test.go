package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

var none pgqueue.Filter

// count counts rows.
func count(t testing.TB, db *pgqueuetest.DB, from string) int {
	t.Helper()
	return one[int](t, db.Pool, `SELECT count(*)::int FROM `+from)
}

// One row that another table refers to keeps itself from being deleted, and no other.
func TestC118_OneUndeletableRow(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	n := size(2_000, 10_000)
	insertDead(t, db.Pool, 0, n)
	exec(t, db.Pool, `CREATE TABLE public.orders (job bigint, day date, CONSTRAINT orders_job FOREIGN KEY (job, day) REFERENCES pgqueue.history_attention (id, day));
		INSERT INTO public.orders VALUES (1, 'infinity')`) // the oldest
	// And one that a trigger holds, with a code of its own.
	exec(t, db.Pool, `CREATE FUNCTION public.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF OLD.id = 7 THEN RAISE EXCEPTION 'seven stays' USING ERRCODE = 'KEEP7'; END IF; RETURN OLD; END $$;
		CREATE TRIGGER keep BEFORE DELETE ON pgqueue.history_attention FOR EACH ROW EXECUTE FUNCTION public.keep()`)
	inspector := auditLog(t, db)
	result, err := inspector.Purge(testContext(t), none, pgqueue.BulkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []pgqueue.Skip{
		{ID: 1, Reason: pgqueue.SkipReferenced, Detail: "public.orders (orders_job)"},
		{ID: 7, Reason: pgqueue.SkipRefused, Detail: "KEEP7 seven stays"},
	}
	if result.Matched != n || result.Done != n-2 || result.Skipped != 2 || !slices.Equal(result.Skips, want) || result.Cursor != "" {
		t.Errorf("result %+v", result)
	}
	if result.Batches > n/pgqueue.DefaultBulkBatch+40 {
		t.Errorf("%d batches", result.Batches)
	}
	if left := count(t, db, "pgqueue.history"); left != 2 {
		t.Errorf("%d are left", left)
	}
	if told := one[int](t, db.Pool, `SELECT count(DISTINCT id)::int FROM public.audit, unnest(jobs) id`); told != n-2 {
		t.Errorf("the log names %d", told)
	}
}

// What is purged is exactly what the filter says, counted first, without any worker.
func TestC122_PurgeByState(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := newInspector(t, db.Pool)
	now := one[time.Time](t, db.Pool, `SELECT now()`)
	// Of each state ten, from 30 minutes to 3 minutes ago; and live ones, which no purge touches.
	states := []string{"succeeded", "cancelled", "failed", "dead"}
	for s, state := range states {
		insertEnded(t, db.Pool, `SELECT $1::bigint + g, 'default', 'task', $2::text, 1, $3::timestamptz - (11 - g) * interval '3 minutes' FROM generate_series(1, 10) g`,
			100*s, state, now)
	}
	live := []int64{place(t, db, pgqueue.JobPending), place(t, db, pgqueue.JobRunning)}
	old := func(d time.Duration) pgqueue.TimeRange { return pgqueue.TimeRange{To: now.Add(-d)} }
	remaining := func() map[string]int {
		left := map[string]int{}
		for _, state := range states {
			left[state] = one[int](t, db.Pool, `SELECT count(*)::int FROM pgqueue.history WHERE state = $1`, state)
		}
		return left
	}
	want := map[string]int{"succeeded": 10, "cancelled": 10, "failed": 10, "dead": 10}
	for _, c := range []struct {
		filter pgqueue.Filter
		gone   map[string]int
	}{
		{pgqueue.Filter{States: []pgqueue.JobState{"dead"}, Finished: old(20 * time.Minute)}, map[string]int{"dead": 4}},
		{pgqueue.Filter{States: []pgqueue.JobState{"cancelled", "failed"}, Finished: old(10 * time.Minute)}, map[string]int{"cancelled": 7, "failed": 7}},
		{pgqueue.Filter{Finished: old(25 * time.Minute)}, map[string]int{"succeeded": 2}}, // the others of that age are gone
		{pgqueue.Filter{Queue: "another"}, nil},
		{pgqueue.Filter{States: []pgqueue.JobState{"succeeded"}}, map[string]int{"succeeded": 8}},
		{none, map[string]int{"cancelled": 3, "failed": 3, "dead": 6}},
	} {
		expected := 0
		for _, n := range c.gone {
			expected += n
		}
		preview, err := inspector.Purge(testContext(t), c.filter, pgqueue.BulkOptions{DryRun: true})
		if err != nil || preview.Matched != expected || preview.Done != 0 || preview.Batches != 0 {
			t.Errorf("dry run of %+v: %+v, %v; want %d", c.filter, preview, err, expected)
		}
		if got := remaining(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("a dry run of %+v left %v, want %v", c.filter, got, want)
		}
		result, err := inspector.Purge(testContext(t), c.filter, pgqueue.BulkOptions{BatchSize: 3})
		if err != nil || result.Done != expected || result.Matched != expected {
			t.Errorf("purge of %+v: %+v, %v; want %d", c.filter, result, err, expected)
		}
		for state, n := range c.gone {
			want[state] -= n
		}
		if got := remaining(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("after a purge of %+v: %v, want %v", c.filter, got, want)
		}
	}
	for _, id := range live {
		inspect(t, inspector, id)
	}
	_, err := inspector.Purge(testContext(t), pgqueue.Filter{States: []pgqueue.JobState{"dead", "pending"}}, pgqueue.BulkOptions{})
	requireInvalid(t, err, "filter.states[1]")
}

// Half a million dead jobs come back in batches: some cannot, a caller goes away in between, and the role's patience is short.
func TestC141_BulkRetry(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	n := size(5_000, 500_000)
	insertDead(t, db.Pool, 0, n)
	exec(t, db.Pool, `SELECT setval('pgqueue.jobs_id_seq', $1)`, n)
	// Five have a key that a newer live job has.
	exec(t, db.Pool, `UPDATE pgqueue.history SET key = 'K' || id WHERE id % ($1::int / 5) = 0`, n)
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, key) SELECT 'default', 'task', key FROM pgqueue.history WHERE key IS NOT NULL`)
	exec(t, db.Pool, `ANALYZE`)
	hints := listen(t, db.Pool, "pgqueue")
	inspector := newInspector(t, poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["statement_timeout"] = "2s" }))

	preview, err := inspector.RetryMany(testContext(t), none, pgqueue.BulkOptions{DryRun: true})
	if err != nil || preview.Matched != n {
		t.Fatalf("dry run: %+v, %v", preview, err)
	}
	ctx, cancel := context.WithCancel(longContext(t))
	var total pgqueue.BulkResult
	told := 0
	first, err := inspector.RetryMany(ctx, none, pgqueue.BulkOptions{BatchSize: 500, Spread: time.Hour, Progress: func(r pgqueue.BulkResult) {
		if told++; told == 3 {
			cancel()
		}
		if r.Matched != told*500 || r.Done+r.Skipped != r.Matched {
			t.Errorf("progress %d: %+v", told, r)
		}
	}})
	if !errors.Is(err, context.Canceled) || first == nil || first.Cursor == "" || first.Matched != 1500 {
		t.Fatalf("given up: %+v, %v", first, err)
	}
	if back := count(t, db, "pgqueue.jobs WHERE kind = 'task' AND attempt = 3"); back != first.Done {
		t.Errorf("%d are back, %d were said to be", back, first.Done)
	}
	total.Done, total.Batches = first.Done, first.Batches
	total.Skips = first.Skips
	rest, err := inspector.RetryMany(longContext(t), none, pgqueue.BulkOptions{Cursor: first.Cursor, Spread: time.Hour})
	if err != nil || rest.Cursor != "" {
		t.Fatalf("the rest: %+v, %v", rest, err)
	}
	total.Done += rest.Done
	total.Batches += rest.Batches
	total.Skips = append(total.Skips, rest.Skips...)
	if total.Done != n-5 || len(total.Skips) != 5 || count(t, db, "pgqueue.history") != 5 || count(t, db, "pgqueue.jobs") != n {
		t.Errorf("%d done, skipped %+v", total.Done, total.Skips)
	}
	for _, skip := range total.Skips {
		if skip.Reason != pgqueue.SkipKeyTaken || skip.Other <= int64(n) {
			t.Errorf("skip %+v", skip)
		}
	}
	if sent := len(hints.until(t, db.Pool, "pgqueue")); sent > total.Batches {
		t.Errorf("%d hints in %d batches of one queue", sent, total.Batches)
	}
	// They do not all wake at once.
	if soon := count(t, db, "pgqueue.jobs WHERE attempt = 3 AND run_at < now() + interval '30 minutes'"); soon < n/3 || soon > n*2/3 {
		t.Errorf("%d of %d are due in the first half of the hour", soon, n)
	}
	// A cursor is good for its own action and filter only.
	for _, wrong := range []func() error{
		func() error {
			_, err := inspector.RetryMany(testContext(t), pgqueue.Filter{Queue: "q"}, pgqueue.BulkOptions{Cursor: first.Cursor})
			return err
		},
		func() error {
			_, err := inspector.CancelMany(testContext(t), none, pgqueue.BulkOptions{Cursor: first.Cursor})
			return err
		},
		func() error {
			_, err := inspector.RetryMany(testContext(t), none, pgqueue.BulkOptions{Cursor: "nonsense"})
			return err
		},
	} {
		requireInvalid(t, wrong(), "options.cursor")
	}
}

// longContext is for what takes minutes at full size.
func longContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A batch that statement_timeout ends is halved until it fits, and the ones behind it are smaller.
func TestC141_AShortStatementTimeout(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	insertDead(t, db.Pool, 0, 200)
	exec(t, db.Pool, `CREATE FUNCTION public.slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN OLD; END $$;
		CREATE TRIGGER slowly BEFORE DELETE ON pgqueue.history_attention FOR EACH ROW EXECUTE FUNCTION public.slowly()`)
	inspector := newInspector(t, poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["statement_timeout"] = "1s" }))
	result, err := inspector.Purge(testContext(t), none, pgqueue.BulkOptions{BatchSize: 100})
	if err != nil || result.Done != 200 || result.Skipped != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	if result.Batches < 6 {
		t.Errorf("%d batches", result.Batches)
	}
}

// Bulk actions beside workers at work: every job ends once, as one of them decided, and claims never wait.
func TestBulkActionsBesideWorkers(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	inspector := newInspector(t, poolLike(t, db.Pool, func(*pgxpool.Config) {}))
	n := size(3_000, 30_000)
	jobs := make([]pgqueue.NewJob, n)
	for i := range jobs {
		jobs[i] = pgqueue.NewJob{Args: task{N: i}}
	}
	if _, err := client.EnqueueMany(testContext(t), db.Pool, jobs); err != nil {
		t.Fatal(err)
	}
	var mutex sync.Mutex
	succeeded := map[int64]int{}
	var runs atomic.Int64
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		runs.Add(1)
		if job.Args.N%3 == 0 && job.Failures == 0 && job.Attempt == 1 {
			return pgqueue.Permanent(errors.New("no")) // for the retries
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		mutex.Lock()
		succeeded[job.ID]++
		mutex.Unlock()
		return nil
	})
	startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 4, Batch: 20, Poll: 50 * time.Millisecond}}})
	var group sync.WaitGroup
	var cancelled, deleted, retried atomic.Int64
	bulk := func(done *atomic.Int64, act func() (*pgqueue.BulkResult, error)) {
		group.Go(func() {
			for range 10 {
				result, err := act()
				if err != nil {
					t.Error(err)
					return
				}
				done.Add(int64(result.Done - result.Asked))
			}
		})
	}
	ctx := testContext(t)
	bulk(&cancelled, func() (*pgqueue.BulkResult, error) {
		return inspector.CancelMany(ctx, pgqueue.Filter{States: []pgqueue.JobState{"pending"}, MinID: int64(n) * 8 / 10, MaxID: int64(n) * 9 / 10}, pgqueue.BulkOptions{BatchSize: 10})
	})
	bulk(&deleted, func() (*pgqueue.BulkResult, error) {
		return inspector.DeleteMany(ctx, pgqueue.Filter{States: []pgqueue.JobState{"pending"}, MinID: int64(n)*9/10 + 1}, pgqueue.BulkOptions{BatchSize: 50})
	})
	bulk(&retried, func() (*pgqueue.BulkResult, error) {
		return inspector.RetryMany(ctx, none, pgqueue.BulkOptions{BatchSize: 50})
	})
	group.Wait()
	eventually(t, "everything has ended", func() bool {
		if _, err := inspector.RetryMany(ctx, none, pgqueue.BulkOptions{}); err != nil {
			t.Fatal(err)
		}
		return count(t, db, "pgqueue.jobs") == 0 && count(t, db, "pgqueue.history WHERE day = 'infinity'") == 0
	})
	mutex.Lock()
	defer mutex.Unlock()
	stored := count(t, db, "pgqueue.history WHERE state = 'succeeded'")
	if stored+int(cancelled.Load()+deleted.Load()) != n || stored != len(succeeded) {
		t.Errorf("%d succeeded (%d ran to the end), %d cancelled, %d deleted, of %d", stored, len(succeeded), cancelled.Load(), deleted.Load(), n)
	}
	for id, times := range succeeded {
		if times != 1 {
			t.Errorf("job %d succeeded %d times", id, times)
		}
	}
	t.Logf("%d runs, %d retried, %d cancelled, %d deleted", runs.Load(), retried.Load(), cancelled.Load(), deleted.Load())
}

// A row that somebody holds is left out and named; it delays nobody.
func TestBulkActionsWaitForNobody(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	insertDead(t, db.Pool, 0, 40)
	exec(t, db.Pool, `SELECT setval('pgqueue.jobs_id_seq', 40)`)
	pending := []int64{place(t, db, pgqueue.JobPending), place(t, db, pgqueue.JobPending)}
	tx, err := db.Pool.Begin(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	exec(t, tx, `SELECT FROM pgqueue.history WHERE id = 17 FOR UPDATE`)
	exec(t, tx, `SELECT FROM pgqueue.jobs WHERE id = $1 FOR UPDATE`, pending[0])
	inspector := newInspector(t, db.Pool)
	for name, c := range map[string]struct {
		held int64
		done int
		act  func() (*pgqueue.BulkResult, error)
	}{
		"retry": {17, 39, func() (*pgqueue.BulkResult, error) {
			return inspector.RetryMany(testContext(t), none, pgqueue.BulkOptions{})
		}},
		"cancel": {pending[0], 1, func() (*pgqueue.BulkResult, error) {
			return inspector.CancelMany(testContext(t), pgqueue.Filter{IDs: pending}, pgqueue.BulkOptions{})
		}},
	} {
		result, err := c.act()
		if err != nil || result.Done != c.done || len(result.Skips) != 1 || result.Skips[0] != (pgqueue.Skip{ID: c.held, Reason: pgqueue.SkipLocked}) {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
	result, err := inspector.DeleteMany(testContext(t), pgqueue.Filter{States: []pgqueue.JobState{"pending"}}, pgqueue.BulkOptions{})
	if err != nil || result.Done != 39 || len(result.Skips) != 1 || result.Skips[0] != (pgqueue.Skip{ID: pending[0], Reason: pgqueue.SkipLocked}) {
		t.Errorf("delete: %+v, %v", result, err)
	}
}

// Running jobs are deleted only by those who say so twice, and asked to stop by a cancel; a limit stops where it says.
func TestBulkOptions(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := newInspector(t, db.Pool)
	ctx := testContext(t)
	for range 5 {
		place(t, db, pgqueue.JobPending)
		place(t, db, pgqueue.JobRunning)
	}
	running := pgqueue.Filter{States: []pgqueue.JobState{"running"}}
	_, err := inspector.DeleteMany(ctx, running, pgqueue.BulkOptions{})
	requireInvalid(t, err, "filter.states[0]")
	_, err = inspector.DeleteMany(ctx, none, pgqueue.BulkOptions{})
	requireInvalid(t, err, "filter.states")
	for field, options := range map[string]pgqueue.BulkOptions{
		"options.batch_size":      {BatchSize: 10_001},
		"options.pause":           {Pause: -1},
		"options.limit":           {Limit: -1},
		"options.spread":          {Spread: time.Hour},
		"options.even_if_running": {EvenIfRunning: true},
	} {
		_, err := inspector.CancelMany(ctx, none, options)
		requireInvalid(t, err, field)
	}
	result, err := inspector.CancelMany(ctx, none, pgqueue.BulkOptions{Limit: 4, BatchSize: 3, Pause: time.Millisecond})
	if err != nil || result.Matched != 4 || result.Done != 4 || result.Asked != 2 || result.Cursor == "" {
		t.Fatalf("the first four: %+v, %v", result, err)
	}
	if result, err = inspector.CancelMany(ctx, none, pgqueue.BulkOptions{Cursor: result.Cursor}); err != nil || result.Done != 6 || result.Asked != 3 || result.Cursor != "" {
		t.Fatalf("the other six: %+v, %v", result, err)
	}
	if n := count(t, db, "pgqueue.jobs WHERE cancel_requested_at IS NOT NULL"); n != 5 {
		t.Errorf("%d were asked to stop", n)
	}
	if result, err = inspector.DeleteMany(ctx, running, pgqueue.BulkOptions{EvenIfRunning: true}); err != nil || result.Done != 5 {
		t.Errorf("delete: %+v, %v", result, err)
	}
	// What fails while a retry is under way is not chased.
	insertDead(t, db.Pool, 100, 10)
	next := 1000
	result, err = inspector.RetryMany(ctx, none, pgqueue.BulkOptions{BatchSize: 3, Progress: func(pgqueue.BulkResult) {
		insertDead(t, db.Pool, next, 3)
		next += 3
	}})
	if err != nil || result.Done != 10 || result.Matched != 10 {
		t.Errorf("retry: %+v, %v", result, err)
	}
	// A pause ends with the context.
	paused, cancel := context.WithCancel(ctx)
	_, err = inspector.RetryMany(paused, none, pgqueue.BulkOptions{BatchSize: 1, Pause: time.Hour, Progress: func(pgqueue.BulkResult) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("in a pause: %v", err)
	}
}
