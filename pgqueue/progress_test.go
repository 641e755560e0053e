package pgqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// awaitProgress polls until the progress of a job is what is wanted.
func awaitProgress(t testing.TB, client *pgqueue.Client, pool *pgxpool.Pool, id int64, want string) *pgqueue.Progress {
	t.Helper()
	var found *pgqueue.Progress
	eventually(t, "the progress is "+want, func() bool {
		var err error
		found, err = client.Progress(testContext(t), pool, id)
		if err != nil && !errors.Is(err, pgqueue.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil && string(found.Value) == want
	})
	return found
}

// progressRows counts them.
func progressRows(t testing.TB, pool *pgxpool.Pool) int {
	t.Helper()
	return one[int](t, pool, "SELECT count(*) FROM pgqueue.job_progress")
}

// What a handler says can be read while it runs, by the next attempt after a failure, and no longer when the job has ended.
func TestProgress(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	next, found := make(chan struct{}), make(chan string, 10)
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		last, err := job.LastProgress(ctx)
		switch {
		case errors.Is(err, pgqueue.ErrNotFound):
			found <- "nothing"
		case err != nil:
			found <- err.Error()
		default:
			found <- fmt.Sprintf("%s of attempt %d", last.Value, last.Attempt)
		}
		if job.Attempt < 3 {
			if err := job.SetProgress(map[string]int{"rows": 10 * job.Attempt}); err != nil {
				t.Error(err)
			}
		}
		<-next
		if job.Attempt < 3 {
			if err := job.SetProgress(map[string]int{"rows": 10*job.Attempt + 1}); err != nil { // written although the attempt fails
				t.Error(err)
			}
			return pgqueue.RetryAfter(time.Second, errors.New("no"))
		}
		return nil
	})
	id := enqueue(t, client, db.Pool, task{}).ID
	if _, err := client.Progress(testContext(t), db.Pool, id); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("before it has run: %v", err)
	}
	startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Poll: 50 * time.Millisecond}}})
	if got := receive(t, found, "the handler"); got != "nothing" {
		t.Errorf("the first attempt finds %s", got)
	}
	before := awaitProgress(t, client, db.Pool, id, `{"rows": 10}`)
	detail, err := newInspector(t, db.Pool).Get(testContext(t), id)
	if err != nil || detail.Progress == nil || string(detail.Progress.Value) != `{"rows": 10}` || detail.Progress.Attempt != 1 || before.UpdatedAt.IsZero() {
		t.Errorf("%+v, %v", detail, err)
	}
	next <- struct{}{}
	if got := receive(t, found, "the second attempt"); got != `{"rows": 11} of attempt 1` {
		t.Errorf("the second attempt finds %s", got)
	}
	awaitProgress(t, client, db.Pool, id, `{"rows": 20}`)
	next <- struct{}{}
	if got := receive(t, found, "the third attempt"); got != `{"rows": 21} of attempt 2` {
		t.Errorf("the third attempt finds %s", got)
	}
	next <- struct{}{}
	awaitState(t, db.Pool, id, "succeeded")
	// The third attempt has said nothing, so its worker does not know of the row; it is shown to nobody, and upkeep takes it away.
	if _, err := client.Progress(testContext(t), db.Pool, id); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("after its end: %v", err)
	}
	exec(t, db.Pool, "UPDATE pgqueue.job_progress SET updated_at = now() - interval '1 minute'")
	if gone := one[int](t, db.Pool, "SELECT gone FROM pgqueue.expire_progress()"); gone != 1 {
		t.Errorf("%d leftovers, want 1", gone)
	}
}

// However often how many handlers speak, it is a statement a second; and none where nobody does.
func TestProgressIsWrittenOnceASecond(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	sent := &statements{}
	client := quietClient(t, poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent }))
	mux := pgqueue.NewMux()
	const jobs = 20
	quit, began := make(chan struct{}), make(chan struct{}, jobs)
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		for n := 0; ; n++ {
			if err := job.SetProgress(n); err != nil {
				return err
			}
			if n == 0 {
				began <- struct{}{}
			}
			select {
			case <-quit:
				return job.SetProgress("the last word")
			case <-time.After(time.Millisecond):
			}
		}
	})
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error { return nil })
	silent := enqueue(t, client, db.Pool, other{}).ID
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: jobs + 1}}})
	awaitState(t, db.Pool, silent, "succeeded")
	writes := func() int { return sent.with(`INTO "pgqueue".job_progress`) }
	if n := writes() + sent.with(`FROM "pgqueue".job_progress p USING`); n != 0 {
		t.Errorf("%d statements although nobody has said anything", n)
	}
	started := time.Now()
	for n := range jobs {
		enqueue(t, client, db.Pool, task{N: n})
	}
	for range jobs {
		receive(t, began, "a handler")
	}
	first := one[string](t, db.Pool, "SELECT now()::text")
	eventually(t, "all have been written three times", func() bool {
		return one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.job_progress WHERE updated_at > $1::timestamptz + interval '2 s'", first) == jobs
	})
	most := int(time.Since(started)/time.Second) + 2
	if n := writes(); n < 3 || n > most {
		t.Errorf("%d statements for %d jobs in %v, want at most %d", n, jobs, time.Since(started), most)
	}
	close(quit)
	eventually(t, "their rows are gone", func() bool { return progressRows(t, db.Pool) == 0 })
	if err := worker.end(t); err != nil {
		t.Fatal(err)
	}
	client.Pool().Close() // the sessions report what they did when they end
	updates := func() (hot, all int) {
		row := db.Pool.QueryRow(testContext(t), "SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables WHERE relname = 'job_progress'")
		if err := row.Scan(&hot, &all); err != nil {
			t.Fatal(err)
		}
		return hot, all
	}
	eventually(t, "the updates were counted", func() bool { _, all := updates(); return all >= jobs })
	if hot, all := updates(); hot*10 < all*9 {
		t.Errorf("%d of %d updates were HOT", hot, all)
	}
}

// What an attempt says that no longer owns its job is not written over what the present one has said.
func TestProgressOfAnOldAttempt(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	speak, spoke := make(chan int), make(chan error)
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		for n := range speak {
			spoke <- job.SetProgress(n)
		}
		return nil
	})
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Deadline: -1}}, Lease: 3 * time.Minute, RenewEvery: time.Minute})
	id := enqueue(t, client, db.Pool, task{}).ID
	speak <- 1
	if err := <-spoke; err != nil {
		t.Fatal(err)
	}
	awaitProgress(t, client, db.Pool, id, "1")
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET attempt = 2 WHERE id = $1", id) // somebody else has it
	exec(t, db.Pool, "UPDATE pgqueue.job_progress SET attempt = 2, progress = '\"of the second\"'")
	speak <- 2
	if err := <-spoke; err != nil {
		t.Fatal(err)
	}
	close(speak)
	if err := worker.end(t); err != nil { // the last words have been written by now, or left out
		t.Fatal(err)
	}
	if got, err := client.Progress(testContext(t), db.Pool, id); err != nil || string(got.Value) != `"of the second"` {
		t.Errorf("%+v, %v", got, err)
	}
}

// What cannot be stored is refused at once, with the field, and leaves what was said before.
func TestProgressIsValidated(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	var kept atomic.Pointer[pgqueue.Job[task]]
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		kept.Store(job)
		if err := job.SetProgress("good"); err != nil {
			t.Error(err)
		}
		for name, value := range map[string]any{
			"NUL": "a\x00b", "bytes": "a\xffb", "size": strings.Repeat("x", pgqueue.MaxProgress), "a channel": make(chan int),
		} {
			err := job.SetProgress(value)
			var invalid *pgqueue.ValidationError
			if !errors.As(err, &invalid) || !strings.HasPrefix(invalid.Field, "progress") {
				t.Errorf("%s: %v", name, err)
			}
		}
		return pgqueue.Snooze(time.Hour)
	})
	id := enqueue(t, client, db.Pool, task{}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	if got, err := client.Progress(testContext(t), db.Pool, id); err != nil || string(got.Value) != `"good"` {
		t.Errorf("after the drain: %+v, %v", got, err)
	}
	if err := kept.Load().SetProgress("late"); !errors.Is(err, pgqueue.ErrHandlerReturned) {
		t.Errorf("after the handler has returned: %v", err)
	}

	// Nothing is written inside a transaction of a test, and nothing goes wrong.
	exec(t, db.Pool, "DELETE FROM pgqueue.job_progress")
	tx := begin(t, db.Pool, pgx.TxOptions{})
	exec(t, tx, "UPDATE pgqueue.jobs SET run_at = now()")
	if result, err := client.DrainTx(testContext(t), tx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}}); err != nil || result.Outcomes.Snoozed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if n := progressRows(t, db.Pool); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// Every end takes the row along, also one that somebody makes with SQL while the job waits.
func TestProgressGoesWithTheJob(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		if err := job.SetProgress(job.Args.N); err != nil {
			return err
		}
		if job.Args.Do == "wait" {
			return pgqueue.Snooze(time.Hour)
		}
		return pgqueue.Permanent(errors.New("no"))
	})
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[other]) error {
		_, err := tx.Exec(ctx, "SELECT 1")
		return errors.Join(err, job.SetProgress("in a transaction"))
	})
	enqueue(t, client, db.Pool, task{})
	enqueue(t, client, db.Pool, other{})
	waits, bounded := enqueue(t, client, db.Pool, task{Do: "wait"}).ID, enqueue(t, client, db.Pool, task{Do: "wait"}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	if n := progressRows(t, db.Pool); n != 2 {
		t.Errorf("%d rows, want those of the jobs that wait", n)
	}
	if _, err := client.Cancel(testContext(t), db.Pool, waits); err != nil {
		t.Fatal(err)
	}
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET failures = 1 WHERE id = $1", bounded)
	if _, err := client.SetMaxAttempts(testContext(t), db.Pool, bounded, 1); err != nil {
		t.Fatal(err)
	}
	if n := progressRows(t, db.Pool); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}

// Upkeep deletes what crashed workers have left, in batches, and leaves what belongs to live jobs.
func TestUpkeepDeletesLeftProgress(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	live := enqueue(t, client, db.Pool, task{}, pgqueue.WithDelay(time.Hour)).ID
	exec(t, db.Pool, `INSERT INTO pgqueue.job_progress (job_id, updated_at, attempt, progress)
		SELECT 1000000 + n, now() - interval '1 hour', 1, '1' FROM generate_series(1, 2500) n`)
	exec(t, db.Pool, `INSERT INTO pgqueue.job_progress (job_id, updated_at, attempt, progress) VALUES ($1, now() - interval '1 hour', 1, '1'), (999, now(), 1, '1')`, live)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error { return nil })
	drain(t, client, mux, pgqueue.WorkerConfig{})
	if n := progressRows(t, db.Pool); n != 2 {
		t.Errorf("%d rows, want that of the live job and the one that is new", n)
	}
	for _, sql := range []string{"SELECT pgqueue.expire_progress(0, 0)", "SELECT pgqueue.expire_progress(0, NULL)"} {
		if _, err := db.Pool.Exec(testContext(t), sql); !isCode(err, "22023") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// A worker whose role was not given the table works, and says so once.
func TestProgressWithoutTheGrant(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	exec(t, db.Pool, "REVOKE ALL ON pgqueue.job_progress FROM pgqueue_worker, pgqueue_viewer")
	exec(t, db.Pool, "REVOKE ALL ON FUNCTION pgqueue.expire_progress(bigint, int) FROM pgqueue_worker")
	var text bytes.Buffer
	var mutex sync.Mutex
	client := newClient(t, as("app"), pgqueue.WithLogger(slog.New(slog.NewTextHandler(&lockedWriter{&mutex, &text}, nil))))
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error { return job.SetProgress(job.Args.N) })
	var ids []int64
	for n := range 3 {
		ids = append(ids, enqueue(t, client, db.Pool, task{N: n}).ID)
	}
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1}}, ReapInterval: 50 * time.Millisecond})
	for _, id := range ids {
		awaitState(t, db.Pool, id, "succeeded")
	}
	logged := func(what string) int {
		mutex.Lock()
		defer mutex.Unlock()
		return strings.Count(text.String(), what)
	}
	eventually(t, "it says so", func() bool {
		return logged("may not write the progress") > 0 && logged("upkeep may not delete the progress") > 0
	})
	again := enqueue(t, client, db.Pool, task{}).ID
	awaitState(t, db.Pool, again, "succeeded")
	if err := worker.end(t); err != nil {
		t.Fatal(err)
	}
	if n, m := logged("may not write the progress"), logged("upkeep may not delete"); n != 1 || m != 1 || logged("maintenance failed") != 0 {
		t.Errorf("said %d and %d times:\n%s", n, m, text.String())
	}

	// A viewer without it sees the job, in a transaction of its own too.
	waits := enqueue(t, client, db.Pool, task{}, pgqueue.WithDelay(time.Hour)).ID
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET attempt = 1 WHERE id = $1", waits)
	onCall := as("on_call")
	tx := begin(t, onCall, pgx.TxOptions{})
	for _, q := range []pgqueue.Querier{onCall, tx, tx} {
		if detail, err := newInspector(t, q).Get(testContext(t), waits); err != nil || detail.Progress != nil {
			t.Errorf("%+v, %v", detail, err)
		}
	}
}

// lockedWriter is a writer for several goroutines.
type lockedWriter struct {
	mutex *sync.Mutex
	to    *bytes.Buffer
}

func (w *lockedWriter) Write(text []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.to.Write(text)
}
