package pgqueuetest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func TestEnqueuedInATransaction(t *testing.T) {
	t.Parallel()
	db := New(t)
	client := db.Client(t)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	first := enqueue(t, client, tx, welcome{UserID: 7, Name: "Ada"}, pgqueue.OnQueue("mail"), pgqueue.WithKey("user:7"), pgqueue.WithRevision("r"),
		pgqueue.WithPriority(2), pgqueue.WithTags("a", "b"), pgqueue.WithMetadata(map[string]int{"m": 1}), pgqueue.WithMaxAttempts(9))
	second := enqueue(t, client, tx, welcome{UserID: 8}, pgqueue.WithDelay(time.Hour))
	enqueue(t, client, tx, goodbye{})

	all := Enqueued[welcome](t, tx)
	if len(all) != 2 || all[0].ID != first || all[1].ID != second || all[1].Due || !all[0].Due {
		t.Fatalf("found %+v", all)
	}
	job := RequireEnqueued[welcome](t, tx, OnQueue("mail"), WithKey("user:7"), WithRevision("r"), WithPriority(2), WithTag("b"), Due(),
		WithArgs(welcome{UserID: 7, Name: "Ada"}), Matching(func(args welcome) bool { return args.UserID == 7 }))
	if job.ID != first || job.Queue != "mail" || job.Key != "user:7" || job.State != "pending" || job.Kind != "welcome" || job.MaxAttempts != 9 ||
		job.Args != (welcome{UserID: 7, Name: "Ada"}) || len(job.Tags) != 2 || string(job.Metadata) != `{"m": 1}` || job.RunAt.IsZero() {
		t.Errorf("found %+v", job)
	}
	now := time.Now()
	RequireEnqueued[welcome](t, tx, Delayed(), DelayedBy(time.Hour), DueBetween(now.Add(50*time.Minute), now.Add(70*time.Minute)), WithKey(""))
	RequireEnqueued[*pointed](t, tx, OfKind("welcome"), Due())
	RequireEnqueued[pgqueue.Raw](t, tx, OfKind("goodbye"), WithArgs(pgqueue.Raw{Name: "goodbye"}))
	if raw := Enqueued[pgqueue.Raw](t, tx); len(raw) != 3 || raw[0].Args.Name != "welcome" || !json.Valid(raw[0].Args.Payload) {
		t.Errorf("of any kind: %+v", raw)
	}
	RequireNotEnqueued[welcome](t, tx, OnQueue("nobody's"))
	RequireNotEnqueued[welcome](t, db.Pool) // it is not committed

	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := Enqueued[pgqueue.Raw](t, db.Pool); left == nil || len(left) != 0 {
		t.Errorf("after the rollback: %+v", left)
	}
}

// pointed has a kind only behind a pointer.
type pointed struct {
	UserID int64 `json:"user_id"`
}

func (p *pointed) Kind() string { return "pointed" }

func TestEnqueuedInAnotherSchema(t *testing.T) {
	t.Parallel()
	db := New(t, WithSchema(`My "jobs"`))
	enqueue(t, db.Client(t), db.Pool, welcome{UserID: 1})
	RequireEnqueued[welcome](t, db.Pool, InSchema(db.Schema))
	text := message(t, func(tb testing.TB) { Enqueued[welcome](tb, db.Pool) })
	if !strings.Contains(text, `no table jobs in schema "pgqueue"; name another schema by InSchema`) {
		t.Errorf("it says %q", text)
	}
}

func TestEnqueuedShowsARunningJob(t *testing.T) {
	t.Parallel()
	db := New(t)
	client, mux := db.Client(t), pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[welcome]) error {
		job := RequireEnqueued[welcome](t, db.Pool)
		if job.State != "running" || job.Attempt != 1 || job.ClaimedAt.IsZero() {
			t.Errorf("found %+v", job)
		}
		RequireNotEnqueued[welcome](t, db.Pool, Due())
		return nil
	})
	enqueue(t, client, db.Pool, welcome{UserID: 1})
	if result := Drain(t, client, mux); result.Outcomes.Succeeded != 1 {
		t.Errorf("%+v", result)
	}
}

// requireText compares a failure message. {…} in want stands for anything on that line.
func requireText(t *testing.T, got, want string) {
	t.Helper()
	gotLines, wantLines := strings.Split(strings.TrimSpace(got), "\n"), strings.Split(strings.TrimSpace(want), "\n")
	same := len(gotLines) == len(wantLines)
	for i := 0; same && i < len(gotLines); i++ {
		before, after, open := strings.Cut(wantLines[i], "{…}")
		same = gotLines[i] == wantLines[i] || open && strings.HasPrefix(gotLines[i], before) && strings.HasSuffix(gotLines[i], after)
	}
	if !same {
		t.Errorf("the message is\n%s\nwant\n%s", got, want)
	}
}

func TestRequireEnqueuedShowsWhatCameClose(t *testing.T) {
	t.Parallel()
	db := New(t)
	client := db.Client(t)
	enqueue(t, client, db.Pool, welcome{UserID: 8, Name: "Ada"}, pgqueue.WithDelay(time.Hour), pgqueue.WithTags("x"))
	enqueue(t, client, db.Pool, welcome{UserID: 7}, pgqueue.OnQueue("mail"), pgqueue.WithKey("k"))
	enqueue(t, client, db.Pool, goodbye{})

	requireText(t, message(t, func(tb testing.TB) {
		RequireEnqueued[welcome](tb, db.Pool, OnQueue("mail"), WithArgs(welcome{UserID: 7, Name: "Ada"}), Due())
	}), `
pgqueuetest: no live job matches: kind "welcome", queue "mail", args {"user_id":7,"name":"Ada"}, due now
  job 2: pending, queue "mail", key "k", due now, args {"user_id": 7}
    - args.name: "Ada" (wanted)
    + args.name: (absent)
  job 1: pending, queue "default", due at {…}, args {"name": "Ada", "user_id": 8}
    - queue: "mail" (wanted)
    + queue: "default"
    - args.user_id: 7 (wanted)
    + args.user_id: 8
    - due: now (wanted)
    + due: at {…}`)

	requireText(t, message(t, func(tb testing.TB) {
		RequireEnqueued[welcome](tb, db.Pool, OnQueue("mail"), Matching(func(welcome) bool { return false }), WithPriority(3), WithTag("y"), Delayed())
	}), `
pgqueuetest: no live job matches: kind "welcome", queue "mail", args that the function at enqueued_test.go:{…} accepts, priority 3, tag "y", due later
  job 1: pending, queue "default", due at {…}, args {"name": "Ada", "user_id": 8}
    - queue: "mail" (wanted)
    + queue: "default"
    - args: what the function at enqueued_test.go:{…} accepts (wanted)
    + args: {"name": "Ada", "user_id": 8}
    - priority: 3 (wanted)
    + priority: 1
    - tags: "y" among them (wanted)
    + tags: ["x"]
  job 2: pending, queue "mail", key "k", due now, args {"user_id": 7}
    - args: what the function at enqueued_test.go:{…} accepts (wanted)
    + args: {"user_id": 7}
    - priority: 3 (wanted)
    + priority: 1
    - tags: "y" among them (wanted)
    + tags: []
    - due: later (wanted)
    + due: now`)

	requireText(t, message(t, func(tb testing.TB) { RequireEnqueued[welcome](tb, db.Pool) }), `
pgqueuetest: 2 live jobs match where one is wanted: kind "welcome"
  job 1: pending, queue "default", due at {…}, args {"name": "Ada", "user_id": 8}
  job 2: pending, queue "mail", key "k", due now, args {"user_id": 7}`)

	requireText(t, message(t, func(tb testing.TB) { RequireNotEnqueued[welcome](tb, db.Pool, WithKey("k")) }), `
pgqueuetest: 1 live jobs match where none is wanted: kind "welcome", key "k"
  job 2: pending, queue "mail", key "k", due now, args {"user_id": 7}`)
}

func TestRequireEnqueuedSaysWhatThereIsInstead(t *testing.T) {
	t.Parallel()
	db := New(t)
	client, mux := db.Client(t), pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[welcome]) error { return nil })

	requireText(t, message(t, func(tb testing.TB) { RequireEnqueued[welcome](tb, db.Pool) }), `
pgqueuetest: no live job matches: kind "welcome"
  there is no live job at all in schema "pgqueue"
  a job that is enqueued in an open transaction is seen through that transaction only`)

	enqueue(t, client, db.Pool, welcome{UserID: 1})
	Drain(t, client, mux)
	for range 2 {
		enqueue(t, client, db.Pool, goodbye{}, pgqueue.OnQueue("o"))
	}
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		requireText(t, message(t, func(tb testing.TB) { RequireEnqueued[welcome](tb, tx) }), `
pgqueuetest: no live job matches: kind "welcome"
  there is no live job of this kind; the live jobs are:
    2 of kind "goodbye" on queue "o"
  of this kind have finished already: 1 succeeded`)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAFewOfManyJobsAreShown(t *testing.T) {
	t.Parallel()
	db := New(t)
	client := db.Client(t)
	for n := range 8 {
		enqueue(t, client, db.Pool, welcome{UserID: int64(n), Name: strings.Repeat("é", 1000)})
	}
	for _, text := range []string{
		message(t, func(tb testing.TB) { RequireEnqueued[welcome](tb, db.Pool) }),
		message(t, func(tb testing.TB) { RequireEnqueued[welcome](tb, db.Pool, WithKey("none")) }),
	} {
		if strings.Count(text, "  job ") != 5 || !strings.Contains(text, "  and 3 more") || len(text) > 4000 || !strings.Contains(text, "é…") {
			t.Errorf("it says %q", text)
		}
	}
}

func TestMistakesInATestAreTold(t *testing.T) {
	t.Parallel()
	db := New(t)
	client := db.Client(t)
	for want, mistake := range map[string]func(tb testing.TB){
		"arguments of type pgqueuetest.goodbye cannot judge jobs of type pgqueuetest.welcome": func(tb testing.TB) {
			RequireNotEnqueued[welcome](tb, db.Pool, WithArgs(goodbye{}))
		},
		"arguments of type pgqueuetest.goodbye cannot": func(tb testing.TB) {
			Enqueued[welcome](tb, db.Pool, Matching(func(goodbye) bool { return true }))
		},
		"the zero value of pgqueuetest.nameless has no kind": func(tb testing.TB) { Enqueued[nameless](tb, db.Pool) },
		"do not fit pgqueuetest.welcome: json:": func(tb testing.TB) {
			enqueue(tb, client, db.Pool, pgqueue.Raw{Name: "welcome", Payload: []byte(`{"user_id": "seven"}`)})
			RequireNotEnqueued[welcome](tb, db.Pool)
		},
		"new client: max_payload": func(tb testing.TB) { db.Client(tb, pgqueue.WithMaxPayload(-1)) },
		"mux has no handler":      func(tb testing.TB) { Drain(tb, client, pgqueue.NewMux()) },
		"tx must not be nil":      func(tb testing.TB) { DrainTx(tb, nil, client, pgqueue.NewMux()) },
	} {
		if text := message(t, mistake); !strings.Contains(text, want) {
			t.Errorf("it says %q, want %q", text, want)
		}
	}
}

type nameless struct{}

func (nameless) Kind() string { return "" }
