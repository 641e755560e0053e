package pgqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// tenantJob has options of its own.
type tenantJob struct {
	N int `json:"n"`
}

func (tenantJob) Kind() string { return "tenant_job" }
func (tenantJob) EnqueueOptions() []pgqueue.EnqueueOption {
	return []pgqueue.EnqueueOption{
		pgqueue.OnQueue("tenants"), pgqueue.WithDelay(time.Hour), pgqueue.WithPriority(3), pgqueue.AddMetadata("team", "billing"),
	}
}

// wraps is a middleware that notes its name on the way in and out and adds options to every job.
func wraps(name string, seen *[]string, options ...pgqueue.EnqueueOption) func(pgqueue.EnqueueFunc) pgqueue.EnqueueFunc {
	return func(next pgqueue.EnqueueFunc) pgqueue.EnqueueFunc {
		return func(ctx context.Context, q pgqueue.Querier, jobs []pgqueue.NewJob) ([]pgqueue.Enqueued, error) {
			var kinds []string
			for i := range jobs {
				kinds = append(kinds, jobs[i].Queue()+"/"+jobs[i].Kind())
				jobs[i].Options = append(jobs[i].Options, options...)
			}
			*seen = append(*seen, name+" "+strings.Join(kinds, " "))
			enqueued, err := next(ctx, q, jobs)
			*seen = append(*seen, fmt.Sprintf("%s %d %v", name, len(enqueued), err != nil))
			return enqueued, err
		}
	}
}

// row is what the middleware's tests look at.
func row(t *testing.T, q pgx.Tx, id int64) (queue string, priority int, delayed bool, metadata map[string]any) {
	t.Helper()
	var text string
	err := q.QueryRow(testContext(t), `SELECT queue, priority, run_at > now() + interval '10 min', metadata::text FROM pgqueue.jobs WHERE id = $1`, id).
		Scan(&queue, &priority, &delayed, &text)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &metadata); err != nil {
		t.Fatal(err)
	}
	return queue, priority, delayed, metadata
}

// Middleware is around every way to enqueue, in order; what it adds wins over the call's options and the type's, and leaves
// the rest of them alone.
func TestEnqueueMiddleware(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	var seen []string
	client := newClient(t, db.Pool, pgqueue.WithEnqueueMiddleware(wraps("outer", &seen, pgqueue.AddMetadata("trace", "t1"), pgqueue.AddMetadata("n", 1))),
		pgqueue.WithEnqueueMiddleware(wraps("inner", &seen, pgqueue.AddMetadata("n", 2), pgqueue.WithPriority(2))))
	ctx := testContext(t)
	tx := begin(t, db.Pool, pgx.TxOptions{})
	call := append(make([]pgqueue.EnqueueOption, 0, 10), pgqueue.WithMetadata(map[string]any{"mine": true, "n": 0}), pgqueue.WithPriority(4))
	check := func(what string, id int64, metadata map[string]any) {
		t.Helper()
		queue, priority, delayed, got := row(t, tx, id)
		if queue != "tenants" || priority != 2 || !delayed || !reflect.DeepEqual(got, metadata) {
			t.Errorf("%s: queue %s, priority %d, delayed %v, metadata %v, want %v", what, queue, priority, delayed, got, metadata)
		}
	}

	one, err := client.Enqueue(ctx, tx, tenantJob{}, call...)
	if err != nil {
		t.Fatal(err)
	}
	check("Enqueue", one.ID, map[string]any{"team": "billing", "mine": true, "trace": "t1", "n": 2.0})
	many, err := client.EnqueueMany(ctx, tx, []pgqueue.NewJob{{Args: tenantJob{}}, {Args: tenantJob{}, Options: call}})
	if err != nil {
		t.Fatal(err)
	}
	check("EnqueueMany", many[0].ID, map[string]any{"team": "billing", "trace": "t1", "n": 2.0})
	check("EnqueueMany", many[1].ID, map[string]any{"team": "billing", "mine": true, "trace": "t1", "n": 2.0})
	n, err := client.EnqueueCopy(ctx, tx, []pgqueue.NewJob{{Args: tenantJob{}, Options: call}, {Args: tenantJob{}}})
	if err != nil || n != 2 {
		t.Fatalf("%d copied, %v", n, err)
	}
	var copied int64
	if err := tx.QueryRow(ctx, `SELECT max(id) FROM pgqueue.jobs`).Scan(&copied); err != nil {
		t.Fatal(err)
	}
	check("EnqueueCopy", copied-1, map[string]any{"team": "billing", "mine": true, "trace": "t1", "n": 2.0})

	job, two := "tenants/tenant_job", "tenants/tenant_job tenants/tenant_job"
	want := []string{"outer " + job, "inner " + job, "inner 1 false", "outer 1 false"}
	for range 2 {
		want = append(want, "outer "+two, "inner "+two, "inner 2 false", "outer 2 false")
	}
	if !slices.Equal(seen, want) {
		t.Errorf("seen\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
	for _, option := range call[2:cap(call)] {
		if option != nil {
			t.Fatal("the middleware has written into the caller's slice")
		}
	}
	if _, err := client.EnqueueMany(ctx, tx, nil); err != nil || len(seen) != len(want) {
		t.Errorf("no jobs: %v, and the middleware was called", err)
	}
}

// What a middleware does wrong is an error of that enqueue, and what it adds is validated like the rest.
func TestEnqueueMiddlewareThatErrs(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	refused := errors.New("no tenant")
	for name, test := range map[string]struct {
		middleware func(next pgqueue.EnqueueFunc) pgqueue.EnqueueFunc
		field      string
		is         error
		says       string
	}{
		"adds what cannot be stored": {middleware: wraps("", new([]string), pgqueue.AddMetadata("a", "b\x00")), field: "metadata.a"},
		"adds what is no JSON":       {middleware: wraps("", new([]string), pgqueue.AddMetadata("a", func() {})), field: "metadata.a"},
		"adds too much":              {middleware: wraps("", new([]string), pgqueue.AddMetadata("a", strings.Repeat("x", 2000))), field: "metadata.a"},
		"refuses": {middleware: func(pgqueue.EnqueueFunc) pgqueue.EnqueueFunc {
			return func(context.Context, pgqueue.Querier, []pgqueue.NewJob) ([]pgqueue.Enqueued, error) {
				return nil, refused
			}
		}, is: refused},
		"panics": {middleware: func(pgqueue.EnqueueFunc) pgqueue.EnqueueFunc {
			return func(context.Context, pgqueue.Querier, []pgqueue.NewJob) ([]pgqueue.Enqueued, error) { panic("oh") }
		}, says: "panic in the middleware: oh"},
		"answers for nobody": {middleware: func(pgqueue.EnqueueFunc) pgqueue.EnqueueFunc {
			return func(context.Context, pgqueue.Querier, []pgqueue.NewJob) ([]pgqueue.Enqueued, error) { return nil, nil }
		}, says: "answered for 0 jobs and was given 1"},
		"drops the job": {middleware: func(next pgqueue.EnqueueFunc) pgqueue.EnqueueFunc {
			return func(ctx context.Context, q pgqueue.Querier, _ []pgqueue.NewJob) ([]pgqueue.Enqueued, error) {
				return next(ctx, q, nil)
			}
		}, says: "passed on 0 jobs of one"},
	} {
		t.Run(name, func(t *testing.T) {
			client := quietClient(t, db.Pool, pgqueue.WithMaxPayload(1000), pgqueue.WithEnqueueMiddleware(test.middleware))
			_, err := client.Enqueue(testContext(t), db.Pool, task{})
			switch {
			case test.field != "":
				requireInvalid(t, err, test.field)
			case test.is != nil:
				if !errors.Is(err, test.is) {
					t.Errorf("error %v", err)
				}
			case err == nil || !strings.Contains(err.Error(), test.says):
				t.Errorf("error %v, want %q", err, test.says)
			}
		})
	}
	if n := one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs`); n != 0 {
		t.Errorf("%d jobs", n)
	}
	_, err := pgqueue.NewClient(db.Pool, pgqueue.WithEnqueueMiddleware(nil))
	requireInvalid(t, err, "enqueue_middleware[0]")
	_, err = pgqueue.NewClient(db.Pool, pgqueue.WithEnqueueMiddleware(func(pgqueue.EnqueueFunc) pgqueue.EnqueueFunc { return nil }))
	requireInvalid(t, err, "enqueue_middleware[0]")
}

// fakeQuerier answers every enqueue of one job without a database.
type fakeQuerier struct {
	pgx.Rows
	left int
}

func (f *fakeQuerier) Query(context.Context, string, ...any) (pgx.Rows, error) {
	f.left = 1
	return f, nil
}
func (f *fakeQuerier) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults { return nil }
func (f *fakeQuerier) Next() bool                                             { f.left--; return f.left == 0 }
func (f *fakeQuerier) Scan(into ...any) error                                 { *into[0].(*int64) = 1; return nil }
func (f *fakeQuerier) Err() error                                             { return nil }
func (f *fakeQuerier) Close()                                                 {}

// Without middleware an enqueue costs no more than before there was any: neither it nor the options may be put on the heap
// for its sake. The figure is that of the version before. The counter is the whole process's: the pool's own goroutines add to
// it now and then, never take away, so the least of a few rounds is the enqueue's.
func TestEnqueueWithoutMiddlewareAllocatesNothingNew(t *testing.T) {
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool, pgqueue.WithoutHints())
	ctx, q := context.Background(), &fakeQuerier{}
	var args pgqueue.Args = task{N: 1}
	got := math.Inf(1)
	for range 5 {
		got = min(got, testing.AllocsPerRun(200, func() {
			if _, err := client.Enqueue(ctx, q, args, pgqueue.OnQueue("mail"), pgqueue.WithPriority(2)); err != nil {
				t.Fatal(err)
			}
		}))
	}
	const before = 15
	if got > before {
		t.Errorf("%v allocations, %d before there was middleware", got, before)
	}
}
