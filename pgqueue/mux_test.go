package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// nameless is a type whose kind cannot be used.
type nameless struct{}

func (nameless) Kind() string { return "" }

// shy is a type whose Kind method cannot do without its fields.
type shy struct{ name *string }

func (s shy) Kind() string { return *s.name }

// byPointer is a type whose methods have a pointer receiver.
type byPointer struct {
	N int `json:"n"`
}

func (*byPointer) Kind() string { return "by_pointer" }

// What is wrong with a registration is an error of NewWorker and Drain, before any SQL.
func TestMuxRefuses(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	nothing := func(context.Context, *pgqueue.AnyJob) error { return nil }
	for name, test := range map[string]struct {
		register func(mux *pgqueue.Mux)
		field    string
		says     string
	}{
		"twice": {func(mux *pgqueue.Mux) {
			mux.HandleFunc("task", nothing)
			pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
		}, "handler", `of kind "task" is registered already`},
		"nil function":    {func(mux *pgqueue.Mux) { mux.HandleFunc("task", nil) }, "handler", `of kind "task" must not be nil`},
		"nil handler":     {func(mux *pgqueue.Mux) { mux.Handle("task", nil) }, "handler", `of kind "task" must not be nil`},
		"nil typed":       {func(mux *pgqueue.Mux) { pgqueue.Handle[task](mux, nil) }, "handler", `of kind "task" must not be nil`},
		"nil in a tx":     {func(mux *pgqueue.Mux) { pgqueue.HandleTx[task](mux, nil) }, "handler", `of kind "task" must not be nil`},
		"nil HandlerFunc": {func(mux *pgqueue.Mux) { mux.Handle("task", pgqueue.HandlerFunc(nil)) }, "handler", `of kind "task" must not be nil`},
		"empty kind":      {func(mux *pgqueue.Mux) { mux.HandleFunc("", nothing) }, "kind", "must not be empty"},
		"long kind":       {func(mux *pgqueue.Mux) { mux.HandleFunc(strings.Repeat("k", 129), nothing) }, "kind", "is too long"},
		"NUL":             {func(mux *pgqueue.Mux) { mux.HandleFunc("a\x00b", nothing) }, "kind", "NUL"},
		"nameless type": {func(mux *pgqueue.Mux) {
			pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[nameless]) error { return nil })
		}, "kind", "must not be empty"},
		"panicking Kind": {func(mux *pgqueue.Mux) {
			pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[shy]) error { return nil })
		}, "kind", "must not be empty"},
		"nil middleware":   {func(mux *pgqueue.Mux) { mux.HandleFunc("task", nothing); mux.Use(nil) }, "middleware", "must not be nil"},
		"negative workers": {func(mux *pgqueue.Mux) { mux.HandleFunc("task", nothing, pgqueue.KindWorkers(-1)) }, "workers", "must not be negative"},
		"no handler":       {func(*pgqueue.Mux) {}, "mux", "has no handler"},
		"middleware to nil": {func(mux *pgqueue.Mux) {
			mux.HandleFunc("task", nothing)
			mux.Use(func(pgqueue.Handler) pgqueue.Handler { return nil })
		}, "middleware", "returned a nil handler"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mux := pgqueue.NewMux()
			test.register(mux)
			config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}}
			_, made := client.NewWorker(mux, config)
			_, drained := client.Drain(testContext(t), mux, config)
			for _, err := range []error{made, drained} {
				requireInvalid(t, err, test.field)
				if !strings.Contains(err.Error(), test.says) {
					t.Errorf("error %q does not say %q", err, test.says)
				}
			}
		})
	}
	_, err := client.NewWorker(nil, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
	requireInvalid(t, err, "mux")
}

// A mux stays what it was when the worker was made, and the first registration of a kind stands.
func TestMuxKeepsTheFirst(t *testing.T) {
	t.Parallel()
	mux := pgqueue.NewMux()
	nothing := func(context.Context, *pgqueue.AnyJob) error { return nil }
	mux.HandleFunc("b", nothing)
	mux.HandleFunc("a", nothing)
	if err := mux.Err(); err != nil {
		t.Fatal(err)
	}
	mux.HandleFunc("a", nothing)
	mux.HandleFunc("", nothing)
	err := mux.Err()
	if err == nil || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), "must not be empty") {
		t.Errorf("error %v, want both faults", err)
	}
	if kinds := mux.Kinds(); !slices.Equal(kinds, []string{"a", "b"}) {
		t.Errorf("kinds %v", kinds)
	}
}

// The first middleware is the outermost, around handlers that were registered before and after it.
func TestMiddlewareOrder(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	var calls []string // one job at a time
	note := func(name string) pgqueue.Middleware {
		return func(next pgqueue.Handler) pgqueue.Handler {
			return pgqueue.HandlerFunc(func(ctx context.Context, job *pgqueue.AnyJob) error {
				calls = append(calls, name+" "+job.Kind+" "+string(job.Args))
				err := next.HandleJob(context.WithValue(ctx, task{}, name), job)
				calls = append(calls, fmt.Sprintf("%s got %v", name, err))
				return pgqueue.Coded(name, err)
			})
		}
	}
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		calls = append(calls, fmt.Sprintf("handler %d below %s", job.Args.N, ctx.Value(task{})))
		return errors.New("no")
	})
	mux.Use(note("first"), note("second"))
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[other]) error {
		return effect(ctx, tx, "other")
	})
	id := enqueue(t, client, db.Pool, task{N: 7}).ID
	enqueue(t, client, db.Pool, other{N: 8})
	drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1}}})
	want := []string{
		`first task {"n": 7}`, `second task {"n": 7}`, "handler 7 below second", "second got no", "first got no",
		`first other {"n": 8}`, `second other {"n": 8}`, "second got <nil>", "first got <nil>",
	}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
	if s := job(t, db.Pool, id); len(s.Errors) != 1 || s.Errors[0].Code != "first" {
		t.Errorf("errors %+v, want the code that the outermost middleware gave", s.Errors)
	}
	requireEffects(t, db.Pool, "other")
}

// Arguments that do not fit the type fail their own attempt alone.
func TestUndecodableArguments(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	pgqueue.HandleTx(mux, func(context.Context, pgx.Tx, *pgqueue.Job[other]) error { return nil })
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[*byPointer]) error {
		if job.Args == nil || job.Args.N != 5 {
			return fmt.Errorf("arguments %+v", job.Args)
		}
		return nil
	})
	bad := []int64{
		enqueue(t, client, db.Pool, pgqueue.Raw{Name: "task", Payload: []byte(`{"n": "secret"}`)}).ID,
		enqueue(t, client, db.Pool, pgqueue.Raw{Name: "other", Payload: []byte(`[1]`)}).ID,
	}
	good := []int64{
		enqueue(t, client, db.Pool, task{N: 1}).ID, enqueue(t, client, db.Pool, other{N: 1}).ID,
		enqueue(t, client, db.Pool, &byPointer{N: 5}).ID, enqueue(t, client, db.Pool, pgqueue.Raw{Name: "task"}).ID,
	}
	drain(t, client, mux, pgqueue.WorkerConfig{})
	for _, id := range bad {
		s := job(t, db.Pool, id)
		s.requireState(t, "pending", 1, 1)
		if len(s.Errors) != 1 || s.Errors[0].Code != runner.CodeUndecodable || strings.Contains(s.Errors[0].Message, "secret") {
			t.Errorf("errors %+v, want one of code %s without the arguments", s.Errors, runner.CodeUndecodable)
		}
	}
	for _, id := range good {
		job(t, db.Pool, id).requireState(t, "succeeded", 1, 0)
	}
}
