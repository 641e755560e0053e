package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// The lower of the job's budget and the handler's bound counts, and the history says which it was.
func TestKindMaxAttempts(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := failing(pgqueue.NewMux(), always, pgqueue.KindMaxAttempts(2))
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error { return errors.New("no") })
	ids := map[string]int64{
		"more than the bound": enqueue(t, client, db.Pool, task{}, pgqueue.WithMaxAttempts(10)).ID,
		"less than the bound": enqueue(t, client, db.Pool, task{}, pgqueue.WithMaxAttempts(1)).ID,
		"no bound":            enqueue(t, client, db.Pool, other{}, pgqueue.WithMaxAttempts(3)).ID,
	}
	rerun(t, db, client, mux, 4)
	for name, want := range map[string]int{"more than the bound": 2, "less than the bound": 1, "no bound": 3} {
		s := get(t, client, db.Pool, ids[name])
		if s.State != pgqueue.JobDead || s.Attempt != want || s.Failures != want || s.MaxAttempts != want {
			t.Errorf("%s: %+v, want dead after %d", name, s, want)
		}
	}
	for _, n := range []int{-1, 32_768} {
		bad := failing(pgqueue.NewMux(), always, pgqueue.KindMaxAttempts(n))
		requireInvalid(t, bad.Err(), "max_attempts")
	}
}

// A kind was renamed: jobs under its old names go to the new handler, keep their name, and share its bounds.
func TestKindAliases(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	var mutex sync.Mutex
	ran := map[string]int{}
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		mutex.Lock()
		defer mutex.Unlock()
		ran[fmt.Sprintf("%s %d", job.Kind, job.Args.N)]++
		return nil
	}, pgqueue.KindAliases("old", "older"), pgqueue.KindAliases("oldest"))
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error { return nil })
	if got := fmt.Sprint(mux.Kinds()); got != "[old older oldest other task]" || mux.Err() != nil {
		t.Errorf("kinds %s, %v", got, mux.Err())
	}
	for i, kind := range []string{"task", "old", "older", "oldest"} {
		enqueue(t, client, db.Pool, pgqueue.Raw{Name: kind, Payload: fmt.Appendf(nil, `{"n": %d}`, i)}, pgqueue.WithKey("K"))
	}
	theirs := enqueue(t, client, db.Pool, pgqueue.Raw{Name: "theirs"}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	if got := fmt.Sprint(ran); got != "map[old 1:1 older 2:1 oldest 3:1 task 0:1]" {
		t.Errorf("ran %s", got)
	}
	job(t, db.Pool, theirs).requireState(t, "pending", 0, 0)

	handle := func(context.Context, *pgqueue.AnyJob) error { return nil }
	for name, register := range map[string]func(*pgqueue.Mux){
		"a name with a handler":  func(m *pgqueue.Mux) { m.HandleFunc("b", handle, pgqueue.KindAliases("a")) },
		"another's alias":        func(m *pgqueue.Mux) { m.HandleFunc("b", handle, pgqueue.KindAliases("a2")) },
		"its own name":           func(m *pgqueue.Mux) { m.HandleFunc("b", handle, pgqueue.KindAliases("b")) },
		"twice":                  func(m *pgqueue.Mux) { m.HandleFunc("b", handle, pgqueue.KindAliases("x", "x")) },
		"no name":                func(m *pgqueue.Mux) { m.HandleFunc("b", handle, pgqueue.KindAliases("")) },
		"a handler for an alias": func(m *pgqueue.Mux) { m.HandleFunc("a2", handle) },
	} {
		m := pgqueue.NewMux()
		m.HandleFunc("a", handle, pgqueue.KindAliases("a2"))
		register(m)
		if err := m.Err(); !errors.Is(err, pgqueue.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
