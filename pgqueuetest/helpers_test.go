package pgqueuetest

import (
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// welcome is the job of these tests.
type welcome struct {
	UserID int64  `json:"user_id"`
	Name   string `json:"name,omitempty"`
}

func (welcome) Kind() string { return "welcome" }

// goodbye is a job of another kind.
type goodbye struct{}

func (goodbye) Kind() string { return "goodbye" }

// message runs f with a test that only notes how it ended, and returns what it said; "" if f returned.
func message(t *testing.T, f func(t testing.TB)) (text string) {
	t.Helper()
	noted := &failing{TB: t}
	defer func() {
		if ended := recover(); ended != nil && ended != noted {
			panic(ended)
		}
		text = noted.text
	}()
	f(noted)
	return ""
}

func enqueue(t testing.TB, client *pgqueue.Client, q pgqueue.Querier, args pgqueue.Args, opts ...pgqueue.EnqueueOption) int64 {
	t.Helper()
	enqueued, err := client.Enqueue(t.Context(), q, args, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return enqueued.ID
}
