package pgqueue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A job that was to run tomorrow runs now, on a worker that sleeps and polls never; later again, it waits.
func TestRescheduleWakesWorkers(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	ran := make(chan int64, 10)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		ran <- job.ID
		return nil
	})
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Poll: 10 * time.Minute}}})
	eventually(t, "the listener hears", func() bool { return worker.Status().Listener.Connected })
	var jobs []int64
	for range 3 {
		jobs = append(jobs, enqueue(t, client, db.Pool, task{}, pgqueue.WithDelay(24*time.Hour)).ID)
	}
	for i, at := range []time.Time{{}, time.Now().Add(-time.Hour), time.Now().Add(time.Second)} {
		if err := client.Reschedule(testContext(t), db.Pool, jobs[i], at); err != nil {
			t.Fatal(err)
		}
		if id := receive(t, ran, "the job"); id != jobs[i] {
			t.Errorf("job %d ran, want %d", id, jobs[i])
		}
	}
}

// What Reschedule does to the due time and to jobs of each state.
func TestReschedule(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	reschedule := func(id int64, at time.Time, want error) {
		t.Helper()
		if err := client.Reschedule(testContext(t), db.Pool, id, at); !errors.Is(err, want) {
			t.Errorf("reschedule: %v, want %v", err, want)
		}
	}
	due := func(id int64) time.Time {
		return one[time.Time](t, db.Pool, `SELECT run_at FROM pgqueue.jobs WHERE id = $1`, id)
	}
	id := place(t, db, pgqueue.JobPending)
	began := due(id)
	reschedule(id, time.Time{}, nil) // due already: its place in line is kept
	reschedule(id, began.Add(-time.Hour), nil)
	if at := due(id); !at.Equal(began) {
		t.Errorf("a job that was due moved from %s to %s", began, at)
	}
	later := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	reschedule(id, later, nil)
	if at := due(id); !at.Equal(later) {
		t.Errorf("due at %s, want %s", at, later)
	}
	reschedule(id, began.Add(-time.Hour), nil) // not before now: claims do not look there
	if at := due(id); !at.After(began) || !at.Before(later.Add(-time.Minute)) {
		t.Errorf("due at %s, want now", at)
	}
	reschedule(place(t, db, pgqueue.JobRunning), time.Time{}, pgqueue.ErrJobRunning)
	for _, state := range []pgqueue.JobState{pgqueue.JobSucceeded, pgqueue.JobCancelled, pgqueue.JobFailed, pgqueue.JobDead} {
		reschedule(place(t, db, state), time.Time{}, pgqueue.ErrNotFound)
	}
	reschedule(1<<40, time.Time{}, pgqueue.ErrNotFound)
	requireInvalid(t, client.Reschedule(testContext(t), db.Pool, id, later.AddDate(9000, 0, 0)), "run_at")
	for _, at := range []string{"infinity", "-infinity", "10000-01-01"} {
		if _, err := db.Pool.Exec(testContext(t), `SELECT pgqueue.reschedule($1, $2::text::timestamptz)`, id, at); !isCode(err, "22023") {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// A job of the last class that becomes fresh goes before its class, at its place by due time; it counts in every state.
func TestSetPriority(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	var order []int
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		order = append(order, job.Args.N)
		return nil
	})
	var jobs []int64
	for n := range 4 {
		jobs = append(jobs, enqueue(t, client, db.Pool, task{N: n}, pgqueue.WithPriority(4)).ID)
	}
	set := func(id int64, priority int, want pgqueue.JobState) {
		t.Helper()
		if state, err := client.SetPriority(testContext(t), db.Pool, id, priority); err != nil || state != want {
			t.Errorf("%s, %v, want %s", state, err, want)
		}
	}
	set(jobs[3], 1, pgqueue.JobPending)
	set(jobs[1], 1, pgqueue.JobPending)
	set(jobs[2], 3, pgqueue.JobPending)
	drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1, Batch: 10}}})
	if !slices.Equal(order, []int{1, 3, 2, 0}) {
		t.Errorf("they ran in the order %v", order)
	}
	set(place(t, db, pgqueue.JobRunning), 3, pgqueue.JobRunning)
	for _, state := range []pgqueue.JobState{pgqueue.JobFailed, pgqueue.JobDead} {
		id := place(t, db, state)
		set(id, 3, state)
		if err := client.Retry(testContext(t), db.Pool, id); err != nil {
			t.Fatal(err)
		}
		if s := get(t, client, db.Pool, id); s.Priority != 3 {
			t.Errorf("after the retry: priority %d", s.Priority)
		}
	}
	for _, id := range []int64{jobs[0], place(t, db, pgqueue.JobCancelled), 1 << 40} {
		if _, err := client.SetPriority(testContext(t), db.Pool, id, 1); !errors.Is(err, pgqueue.ErrNotFound) {
			t.Errorf("of a job that has ended: %v", err)
		}
	}
	for _, priority := range []int{0, 5, -1} {
		_, err := client.SetPriority(testContext(t), db.Pool, jobs[0], priority)
		requireInvalid(t, err, "priority")
	}
}

// An edit is a new input: its budget is new, its place and everything else as they were.
func TestEditPayload(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	inspector := newInspector(t, db.Pool)
	key := []pgqueue.EnqueueOption{pgqueue.WithKey("K"), pgqueue.WithRevision("r1"), pgqueue.WithMaxAttempts(2), pgqueue.WithTags("tag"), pgqueue.WithMetadata(map[string]string{"a": "b"})}
	id := enqueue(t, client, db.Pool, task{Do: "fail"}, key...).ID
	var seen []string
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		seen = append(seen, job.Args.Do)
		if job.Args.Do == "fail" {
			return errors.New("no")
		}
		return nil
	})
	drain(t, client, mux, pgqueue.WorkerConfig{})
	before := inspect(t, inspector, id)
	if state, err := client.EditPayload(testContext(t), db.Pool, id, task{Do: "fail", N: 2}, before.Generation); err != nil || state != pgqueue.JobPending {
		t.Fatalf("edit: %s, %v", state, err)
	}
	after := inspect(t, inspector, id)
	if after.Generation != before.Generation+1 || after.Failures != 0 || after.ErrorCount != 1 || after.Attempt != 1 || !after.RunAt.Equal(before.RunAt) ||
		after.Key != "K" || after.Revision != "r1" || len(after.Tags) != 1 || !strings.Contains(string(after.Metadata), "a") {
		t.Errorf("before %+v, after %+v", before, after)
	}
	// The old input is not the one that somebody looks at any more.
	var changed *pgqueue.ChangedError
	_, err := client.EditPayload(testContext(t), db.Pool, id, task{}, before.Generation)
	if !errors.As(err, &changed) || changed.Have.Generation != before.Generation+1 || changed.Want.Generation != before.Generation {
		t.Errorf("an edit of an older input: %v", err)
	}
	requireOutcome(t, enqueue(t, client, db.Pool, task{Do: "enqueued"}, key...), pgqueue.Same) // the edit stands
	rerun(t, db, client, mux, 2)
	dead := inspect(t, inspector, id)
	if dead.State != pgqueue.JobDead || dead.Failures != 2 || dead.Attempt != 3 {
		t.Fatalf("the budget of the new input: %+v", dead)
	}

	// A dead one: edited and retried in one step.
	if _, err := client.EditPayload(testContext(t), db.Pool, id, task{}, 0); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("an edit of a dead job: %v", err)
	}
	if err := client.RetryWith(testContext(t), db.Pool, id, task{}, dead.Generation-1); !errors.As(err, &changed) {
		t.Errorf("an edit of an older input: %v", err)
	}
	if state := inspect(t, inspector, id).State; state != pgqueue.JobDead {
		t.Errorf("a refusal made it %s", state)
	}
	if err := client.RetryWith(testContext(t), db.Pool, id, task{Do: "fine"}, dead.Generation); err != nil {
		t.Fatal(err)
	}
	if err := client.RetryWith(testContext(t), db.Pool, id, task{}, 0); !errors.Is(err, pgqueue.ErrJobLive) {
		t.Errorf("a retry of a live job: %v", err)
	}
	rerun(t, db, client, mux, 1)
	job(t, db.Pool, id).requireState(t, "succeeded", 4, 0)
	if !slices.Equal(seen, []string{"fail", "fail", "fail", "fine"}) {
		t.Errorf("the handler was given %v", seen)
	}
	for name, payload := range map[string]any{"no JSON": func() {}, "NUL": map[string]string{"a": "\x00"}} {
		var invalid *pgqueue.ValidationError
		if _, err := client.EditPayload(testContext(t), db.Pool, id, payload, 0); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
		if err := client.RetryWith(testContext(t), db.Pool, id, payload, 0); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := client.RetryWith(testContext(t), db.Pool, 1<<40, task{}, 0); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("no such job: %v", err)
	}
	for _, sql := range []string{`edit_payload(1, NULL)`, `retry_with(1, NULL)`} {
		if _, err := db.Pool.Exec(testContext(t), `SELECT pgqueue.`+sql); !isCode(err, "22023") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// A newer job has the key: nothing moves.
func TestRetryWithBesideALiveJob(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	old := enqueue(t, client, db.Pool, task{N: 1}, pgqueue.WithKey("K"), pgqueue.WithMaxAttempts(1)).ID
	drain(t, client, failing(pgqueue.NewMux(), always), pgqueue.WorkerConfig{})
	newer := enqueue(t, client, db.Pool, task{N: 2}, pgqueue.WithKey("K")).ID
	var taken *pgqueue.KeyTakenError
	if err := client.RetryWith(testContext(t), db.Pool, old, task{N: 3}, 0); !errors.As(err, &taken) || taken.Other != newer {
		t.Fatalf("%v, want that job %d has the key", err, newer)
	}
	if s := get(t, client, db.Pool, old); s.State != pgqueue.JobDead || string(s.Payload) != `{"n": 1}` {
		t.Errorf("it was changed: %+v", s)
	}
}

// The run of a job that is edited counts for nothing, whatever becomes of it, and the job runs again with the new input. A wish to
// cancel the old one is gone.
func TestC44_EditPayloadOfARunningJob(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	began, release := make(chan struct{}), make(chan struct{})
	var second atomic.Int64
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		if job.Args.N != 0 {
			second.Add(int64(job.Args.N))
			return nil
		}
		began <- struct{}{}
		<-release
		if job.Args.Do == "fail" {
			return pgqueue.Permanent(errors.New("no"))
		}
		return nil
	})
	startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 2}}})
	jobs := []int64{enqueue(t, client, db.Pool, task{Do: "fail"}).ID, enqueue(t, client, db.Pool, task{}).ID}
	for range jobs {
		receive(t, began, "the handler")
	}
	exec(t, db.Pool, `UPDATE pgqueue.jobs SET cancel_requested_at = now()`)
	for _, id := range jobs {
		if state, err := client.EditPayload(testContext(t), db.Pool, id, task{N: 7}, 0); err != nil || state != pgqueue.JobRunning {
			t.Fatalf("%s, %v", state, err)
		}
	}
	close(release)
	for _, id := range jobs {
		awaitState(t, db.Pool, id, "succeeded").requireState(t, "succeeded", 2, 0)
	}
	if n := second.Load(); n != 14 {
		t.Errorf("the new input ran %d times, want 2", n/7)
	}
}

// With IfVersion an edit happens at the version that was looked at, and the audit log holds what was done and no payload.
func TestInspectorEditsWithVersions(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := auditLog(t, db)
	ctx := testContext(t)
	actions := map[string]func(id int64, o ...pgqueue.ActionOption) error{
		"reschedule": func(id int64, o ...pgqueue.ActionOption) error {
			return inspector.Reschedule(ctx, id, time.Now().Add(time.Hour), o...)
		},
		"set_priority": func(id int64, o ...pgqueue.ActionOption) error {
			_, err := inspector.SetPriority(ctx, id, 2, o...)
			return err
		},
		"edit": func(id int64, o ...pgqueue.ActionOption) error {
			_, err := inspector.EditPayload(ctx, id, task{N: 9}, o...)
			return err
		},
		"retry_with": func(id int64, o ...pgqueue.ActionOption) error { return inspector.RetryWith(ctx, id, task{N: 9}, o...) },
	}
	for name, act := range actions {
		state := pgqueue.JobPending
		if name == "retry_with" {
			state = pgqueue.JobDead
		}
		id := place(t, db, state)
		version := inspect(t, inspector, id).Version()
		row := func() string {
			return one[string](t, db.Pool, `SELECT concat(j.run_at, j.priority, j.payload, j.generation, h.priority, h.payload) FROM (VALUES ($1::bigint)) v (id)
				LEFT JOIN pgqueue.jobs j USING (id) LEFT JOIN pgqueue.history h USING (id)`, id)
		}
		before := row()
		for _, other := range []pgqueue.Version{{Attempt: version.Attempt + 1, Generation: version.Generation}, {Attempt: version.Attempt, Generation: version.Generation + 1}} {
			var changed *pgqueue.ChangedError
			if err := act(id, pgqueue.IfVersion(other)); !errors.As(err, &changed) || changed.Want != other || changed.Have != version {
				t.Errorf("%s at another version: %v", name, err)
			}
		}
		if after := row(); after != before {
			t.Errorf("%s was refused and did something: %s, was %s", name, after, before)
		}
		if n := one[int](t, db.Pool, `SELECT count(*) FROM public.audit`); n != 0 {
			t.Errorf("%s: the log holds %d refusals", name, n)
		}
		if err := act(id, pgqueue.IfVersion(version)); err != nil {
			t.Errorf("%s at its version: %v", name, err)
		}
		if after := row(); after == before {
			t.Errorf("%s did nothing", name)
		}
		if got := one[string](t, db.Pool, `SELECT string_agg(action || coalesce(' ' || jobs::text, ''), ' ') FROM public.audit`); !strings.HasPrefix(got, name+" ") {
			t.Errorf("%s: the log says %q", name, got)
		}
		if got := audited(t, db); strings.Contains(got, "{") {
			t.Errorf("%s: the log holds the payload: %s", name, got)
		}
		exec(t, db.Pool, `TRUNCATE public.audit`)
	}
}

// Pauses by an inspector are told to the audit log with their place, their end and their reason.
func TestInspectorPauses(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	ctx := testContext(t)
	var told []pgqueue.AuditEntry
	inspector, err := pgqueue.NewInspector(db.Pool, pgqueue.InspectorConfig{Audit: func(_ context.Context, _ pgx.Tx, entry pgqueue.AuditEntry) error {
		told = append(told, entry)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Hour)
	pause := pgqueue.KindPause{Kind: "k", Queue: "q", Until: until, Reason: "r"}
	for _, err := range []error{inspector.PauseQueueUntil(ctx, "q", until, "r"), inspector.PauseKind(ctx, pause), inspector.PauseKind(ctx, pgqueue.KindPause{Kind: "k"})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	kinds, err := inspector.PausedKinds(ctx)
	if err != nil || len(kinds) != 2 || kinds[0].Queue != "" || kinds[1].Queue != "q" || !kinds[1].Until.Equal(until.Truncate(time.Microsecond)) {
		t.Errorf("paused: %+v, %v", kinds, err)
	}
	if err := inspector.ResumeKind(ctx, "k", ""); err != nil {
		t.Fatal(err)
	}
	detail := "until " + until.UTC().Format(time.RFC3339) + ": r"
	want := []pgqueue.AuditEntry{
		{Action: pgqueue.ActionPause, Queue: "q", Detail: detail}, {Action: pgqueue.ActionPauseKind, Queue: "q", Kind: "k", Detail: detail},
		{Action: pgqueue.ActionPauseKind, Kind: "k"}, {Action: pgqueue.ActionResumeKind, Kind: "k"},
	}
	if len(told) != len(want) {
		t.Fatalf("told %+v", told)
	}
	for n := range want {
		if got := told[n]; got.Action != want[n].Action || got.Queue != want[n].Queue || got.Kind != want[n].Kind || got.Detail != want[n].Detail {
			t.Errorf("entry %d: %+v, want %+v", n, got, want[n])
		}
	}
}

// In bulk: what matches is changed, in batches that go on where another run stopped, and what was claimed since is left alone.
func TestC140_BulkRescheduleAndPriority(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	ctx := testContext(t)
	inspector := newInspector(t, db.Pool)
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, run_at) SELECT 'q', CASE WHEN g % 2 = 0 THEN 'k' ELSE 'l' END, now() + interval '1 day' FROM generate_series(1, 200) g`)
	filter := pgqueue.Filter{Queue: "q", Kind: "k"}
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	first, err := inspector.RescheduleMany(ctx, filter, at, pgqueue.BulkOptions{BatchSize: 10, Limit: 30})
	if err != nil || first.Done != 30 || first.Cursor == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	rest, err := inspector.RescheduleMany(ctx, filter, at, pgqueue.BulkOptions{BatchSize: 10, Cursor: first.Cursor})
	if err != nil || rest.Done != 70 || rest.Cursor != "" || rest.Batches != 7 {
		t.Fatalf("%+v, %v", rest, err)
	}
	if n := one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs WHERE kind = 'k' AND run_at = $1 OR kind = 'l' AND run_at > now() + interval '23 h'`, at); n != 200 {
		t.Errorf("%d of 200 jobs are due when they should be", n)
	}
	// Now, but spread: at different times, none of them later than that.
	if result, err := inspector.RescheduleMany(ctx, filter, time.Time{}, pgqueue.BulkOptions{Spread: 20 * time.Minute}); err != nil || result.Done != 100 {
		t.Fatalf("%+v, %v", result, err)
	}
	if n := one[int](t, db.Pool, `SELECT count(DISTINCT run_at) FROM pgqueue.jobs WHERE kind = 'k' AND run_at < now() + interval '20 min'`); n < 90 {
		t.Errorf("the jobs are due at %d times", n)
	}
	if result, err := inspector.SetPriorityMany(ctx, filter, 4, pgqueue.BulkOptions{}); err != nil || result.Done != 100 {
		t.Fatalf("%+v, %v", result, err)
	}
	if n := one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs WHERE (kind = 'k') = (priority = 4)`); n != 200 {
		t.Errorf("%d of 200 jobs have the priority that they should have", n)
	}
	dead, running := place(t, db, pgqueue.JobDead), place(t, db, pgqueue.JobRunning)
	if result, err := inspector.SetPriorityMany(ctx, pgqueue.Filter{IDs: []int64{dead, running}, States: []pgqueue.JobState{"dead", "running"}}, 3, pgqueue.BulkOptions{}); err != nil || result.Done != 2 {
		t.Errorf("those that are not pending: %+v, %v", result, err)
	}

	// What changes between being found and being acted on is another job.
	for action, text := range map[string]string{"reschedule": ".reschedule(", "priority": ".set_priority("} {
		hook := &meanwhile{text: text}
		watched := newInspector(t, poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = hook }))
		id, neighbour := place(t, db, pgqueue.JobPending), place(t, db, pgqueue.JobPending)
		change := func() { // a running one would be refused by reschedule itself
			exec(t, db.Pool, `UPDATE pgqueue.jobs SET generation = generation + 1 WHERE id = $1`, id)
		}
		hook.do.Store(&change)
		some := pgqueue.Filter{IDs: []int64{id, neighbour}}
		var result *pgqueue.BulkResult
		if action == "reschedule" {
			result, err = watched.RescheduleMany(ctx, some, at, pgqueue.BulkOptions{})
		} else {
			result, err = watched.SetPriorityMany(ctx, some, 3, pgqueue.BulkOptions{})
		}
		if err != nil || result.Done != 1 || !slices.Equal(result.Skips, []pgqueue.Skip{{ID: id, Reason: pgqueue.SkipChanged}}) {
			t.Errorf("%s: %+v, %v", action, result, err)
		}
		if n := one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs WHERE id = $1 AND (priority <> 1 OR run_at > now())`, id); n != 0 {
			t.Errorf("%s: a job with another input was changed", action)
		}
	}
	_, err = inspector.SetPriorityMany(ctx, none, 5, pgqueue.BulkOptions{})
	requireInvalid(t, err, "priority")
	_, err = inspector.SetPriorityMany(ctx, none, 1, pgqueue.BulkOptions{Spread: time.Hour})
	requireInvalid(t, err, "options.spread")
	_, err = inspector.RescheduleMany(ctx, pgqueue.Filter{States: []pgqueue.JobState{"running"}}, at, pgqueue.BulkOptions{})
	requireInvalid(t, err, "filter.states[0]")
	_, err = inspector.RescheduleMany(ctx, none, at.AddDate(9000, 0, 0), pgqueue.BulkOptions{})
	requireInvalid(t, err, "run_at")
}

// With a codec an edited input is stored as every other, also by an inspector that has it, and the handler reads it.
func TestEditsAreStoredEncoded(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool, pgqueue.WithCodec(aesGCM(t, "k1")))
	inspector, err := pgqueue.NewInspector(db.Pool, pgqueue.InspectorConfig{Codecs: []pgqueue.Codec{aesGCM(t, "k1")}})
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		seen = append(seen, job.Args.Do)
		return errors.New("no")
	})
	id := enqueue(t, client, db.Pool, task{}, pgqueue.WithMaxAttempts(1)).ID
	if _, err := inspector.EditPayload(testContext(t), id, task{Do: "secret 1"}); err != nil {
		t.Fatal(err)
	}
	hidden := func() {
		t.Helper()
		if n := one[int](t, db.Pool, `SELECT count(*) FROM (SELECT payload FROM pgqueue.jobs UNION ALL SELECT payload FROM pgqueue.history) p WHERE payload::text LIKE '%secret%'`); n != 0 {
			t.Error("the input is stored as it was given")
		}
	}
	hidden()
	drain(t, client, mux, pgqueue.WorkerConfig{})
	if err := client.RetryWith(testContext(t), db.Pool, id, task{Do: "secret 2"}, 0); err != nil {
		t.Fatal(err)
	}
	hidden()
	drain(t, client, mux, pgqueue.WorkerConfig{})
	if !slices.Equal(seen, []string{"secret 1", "secret 2"}) {
		t.Errorf("the handler was given %v", seen)
	}
	if _, err := client.EditPayload(testContext(t), db.Pool, 1<<40, task{}, 0); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("no such job: %v", err)
	}
}
