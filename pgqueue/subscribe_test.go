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

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

func subscribe(t testing.TB, worker *pgqueue.Worker, config pgqueue.SubscribeConfig) *pgqueue.Subscription {
	t.Helper()
	sub, err := worker.Subscribe(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sub.Close)
	return sub
}

func next(t testing.TB, sub *pgqueue.Subscription) pgqueue.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	event, err := sub.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return event
}

// allOutcomes is a handler that does what its job says.
func allOutcomes(db *pgqueuetest.DB, client *pgqueue.Client) *pgqueue.Mux {
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		failure := pgqueue.Coded("broken", errors.New("it is broken"))
		switch job.Args.Do {
		case "retry":
			return pgqueue.RetryAfter(time.Hour, failure)
		case "fail":
			return pgqueue.Permanent(failure)
		case "die":
			return failure
		case "snooze":
			return pgqueue.Snooze(2 * time.Hour)
		case "cancel":
			return pgqueue.Cancel(nil)
		case "replace":
			_, err := client.Enqueue(ctx, db.Pool, task{Do: "snooze"}, pgqueue.WithKey("k"), pgqueue.WithRevision("2"))
			return err
		case "lose":
			_, err := db.Pool.Exec(ctx, "DELETE FROM pgqueue.jobs WHERE id = $1", job.ID)
			return err
		case "complete":
			tx, err := db.Pool.Begin(ctx)
			if err != nil {
				return err
			}
			if err := job.CompleteTx(ctx, tx); err != nil {
				return errors.Join(err, tx.Rollback(ctx))
			}
			return tx.Commit(ctx)
		}
		return nil
	})
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error { return nil })
	return mux
}

// Each outcome is told once, after it was stored, with the job, what went wrong, and when it is due again.
func TestEventsOfEveryOutcome(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}}
	listenDirectly(t, client, &config)
	worker, err := client.NewWorker(allOutcomes(db, client), config)
	if err != nil {
		t.Fatal(err)
	}
	sub := subscribe(t, worker, pgqueue.SubscribeConfig{})
	running := run(t, worker)
	for _, c := range []struct {
		do      string
		outcome runner.Outcome
		code    string
		delay   time.Duration
		state   pgqueue.JobState // "" where there is no job any more
		options []pgqueue.EnqueueOption
	}{
		{"", runner.Succeeded, "", 0, pgqueue.JobSucceeded, nil},
		{"complete", runner.Succeeded, "", 0, pgqueue.JobSucceeded, nil},
		{"retry", runner.Retrying, "broken", time.Hour, pgqueue.JobPending, nil},
		{"fail", runner.Failed, "broken", 0, pgqueue.JobFailed, nil},
		{"die", runner.Dead, "broken", 0, pgqueue.JobDead, []pgqueue.EnqueueOption{pgqueue.WithMaxAttempts(1)}},
		{"snooze", runner.Snoozed, "", 2 * time.Hour, pgqueue.JobPending, nil},
		{"cancel", runner.Cancelled, "", 0, pgqueue.JobCancelled, nil},
		{"lose", runner.Lost, "", 0, "", nil},
		{"replace", runner.Superseded, "", 0, pgqueue.JobPending, []pgqueue.EnqueueOption{pgqueue.WithKey("k"), pgqueue.WithRevision("1")}},
	} {
		id := enqueue(t, client, db.Pool, task{Do: c.do}, append(c.options, pgqueue.WithTags("x"))...).ID
		event := next(t, sub)
		if event.Job.ID != id || event.Outcome != c.outcome || event.Code != c.code || event.Delay != c.delay || event.Missed != 0 {
			t.Errorf("%q: %+v", c.do, event)
		}
		if event.Job.Kind != "task" || event.Job.Queue != "default" || event.Job.Attempt != 1 || !slices.Equal(event.Job.Tags, []string{"x"}) ||
			event.Duration <= 0 || event.Waited < 0 {
			t.Errorf("%q: %+v", c.do, event)
		}
		if (event.Code != "") != (event.Message != "") {
			t.Errorf("%q: code %q with message %q", c.do, event.Code, event.Message)
		}
		// The outcome was stored before it was told.
		job, err := client.Get(t.Context(), db.Pool, id)
		switch {
		case c.state == "":
			if !errors.Is(err, pgqueue.ErrNotFound) {
				t.Errorf("%q: %v", c.do, err)
			}
		case err != nil || job.State != c.state && c.outcome != runner.Superseded:
			t.Errorf("%q: %+v, %v", c.do, job, err)
		}
	}
	if event := next(t, sub); event.Outcome != runner.Snoozed || event.Job.Attempt != 2 { // of the one that was replaced
		t.Errorf("%+v", event)
	}
	if err := running.end(t); err != nil {
		t.Fatal(err)
	}
	if event, ok := <-sub.Events(); ok {
		t.Errorf("after the end: %+v", event)
	}
}

// A stop tells what it gives back, and ends the subscriptions after the last event; another Run needs another subscription.
func TestSubscriptionsEndWithRun(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux, started := pgqueue.NewMux(), make(chan struct{}, 1)
	pgqueue.Handle(mux, func(ctx context.Context, _ *pgqueue.Job[task]) error {
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1}}, StopTimeout: -1, DisableListener: true}
	worker, err := client.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	sub := subscribe(t, worker, pgqueue.SubscribeConfig{})
	enqueue(t, client, db.Pool, task{})
	first := run(t, worker)
	receive(t, started, "the handler")
	late := subscribe(t, worker, pgqueue.SubscribeConfig{Outcomes: []runner.Outcome{runner.Released, runner.Dead}})
	if err := first.end(t); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*pgqueue.Subscription{sub, late} {
		var events []pgqueue.Event
		for event := range s.Events() {
			events = append(events, event)
		}
		if len(events) != 1 || events[0].Outcome != runner.Released {
			t.Errorf("events %+v", events)
		}
		if _, err := s.Next(t.Context()); !errors.Is(err, pgqueue.ErrSubscriptionEnded) {
			t.Errorf("after the end: %v", err)
		}
	}
	again := subscribe(t, worker, pgqueue.SubscribeConfig{})
	second := run(t, worker)
	receive(t, started, "the handler, again")
	if err := second.end(t); err != nil {
		t.Fatal(err)
	}
	if event := next(t, again); event.Outcome != runner.Released || event.Job.Attempt != 2 {
		t.Errorf("%+v", event)
	}
}

// Filters: by queue, by kind, by outcome, and all together.
func TestSubscriptionsAreFiltered(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	subs := map[string]*pgqueue.Subscription{}
	var observers []any
	for name, config := range map[string]pgqueue.SubscribeConfig{
		"all":      {},
		"queue b":  {Queues: []string{"b", "none"}},
		"other":    {Kinds: []string{"other"}},
		"failed":   {Outcomes: []runner.Outcome{runner.Failed, runner.Dead}},
		"together": {Queues: []string{"b"}, Kinds: []string{"task"}, Outcomes: []runner.Outcome{runner.Succeeded}},
	} {
		sub, err := pgqueue.NewSubscription(config)
		if err != nil {
			t.Fatal(err)
		}
		subs[name] = sub
		observers = append(observers, sub)
	}
	for _, queue := range []string{"a", "b"} {
		enqueue(t, client, db.Pool, task{Do: "fail"}, pgqueue.OnQueue(queue))
		enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue(queue))
		enqueue(t, client, db.Pool, other{}, pgqueue.OnQueue(queue))
	}
	_, err := client.Drain(testContext(t), allOutcomes(db, client), pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"a": {}, "b": {}}, Observer: pgqueue.Observers(observers...),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"all": {"a other succeeded", "a task failed", "a task succeeded", "b other succeeded", "b task failed", "b task succeeded"},

		"queue b":  {"b other succeeded", "b task failed", "b task succeeded"},
		"other":    {"a other succeeded", "b other succeeded"},
		"failed":   {"a task failed", "b task failed"},
		"together": {"b task succeeded"},
	} {
		subs[name].Close()
		var got []string
		for event := range subs[name].Events() {
			got = append(got, fmt.Sprintf("%s %s %s", event.Job.Queue, event.Job.Kind, event.Outcome))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A subscriber that does not read holds up nothing: the work goes on, and it is told how much it has missed.
func TestSlowSubscribersAreToldWhatTheyMissed(t *testing.T) {
	t.Parallel()
	sub, err := pgqueue.NewSubscription(pgqueue.SubscribeConfig{Buffer: 3})
	if err != nil {
		t.Fatal(err)
	}
	tell := func(n int64) {
		sub.VerdictDone(runner.VerdictEvent{Token: &jobstore.Row{ID: n}, Outcome: runner.Succeeded})
	}
	for n := range int64(10) {
		tell(n)
	}
	if n := sub.Missed(); n != 7 {
		t.Errorf("missed %d, want 7", n)
	}
	first, second := next(t, sub), next(t, sub)
	tell(10)
	tell(11)
	third, fourth, fifth := next(t, sub), next(t, sub), next(t, sub)
	tell(12)
	sixth := next(t, sub)
	var got []string
	for _, event := range []pgqueue.Event{first, second, third, fourth, fifth, sixth} {
		got = append(got, fmt.Sprintf("%d after %d", event.Job.ID, event.Missed))
	}
	if want := []string{"0 after 0", "1 after 0", "2 after 0", "10 after 7", "11 after 0", "12 after 0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if n := sub.Missed(); n != 7 {
		t.Errorf("missed %d in all, want 7", n)
	}
}

// A worker with a subscriber that never reads works as ever.
func TestSlowSubscribersHoldUpNothing(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	sub, err := pgqueue.NewSubscription(pgqueue.SubscribeConfig{Buffer: 1})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 300 {
		enqueue(t, client, db.Pool, task{N: n})
	}
	result, err := client.Drain(testContext(t), allOutcomes(db, client), pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 20}}, Observer: sub})
	if err != nil || result.Outcomes.Succeeded != 300 || sub.Missed() != 299 {
		t.Errorf("%+v, %v, missed %d", result, err, sub.Missed())
	}
}

// Closing while events come, and waiting with a context that ends, are safe; the race detector looks.
func TestSubscriptionsCloseAtAnyTime(t *testing.T) {
	t.Parallel()
	sub, err := pgqueue.NewSubscription(pgqueue.SubscribeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sub.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was given up: %v", err)
	}
	var group sync.WaitGroup
	var closed atomic.Bool
	for range 4 {
		group.Go(func() {
			for n := int64(0); !closed.Load() || n < 1000; n++ { // so that one is left for next, whoever reads faster
				sub.VerdictDone(runner.VerdictEvent{Token: &jobstore.Row{ID: n}, Outcome: runner.Succeeded})
			}
		})
		group.Go(func() {
			for range sub.Events() {
			}
		})
	}
	next(t, sub)
	sub.Close()
	sub.Close()
	closed.Store(true)
	group.Wait()
}

func TestSubscriptionsAreValidated(t *testing.T) {
	t.Parallel()
	for field, config := range map[string]pgqueue.SubscribeConfig{
		"Buffer":      {Buffer: -1},
		"Kinds[1]":    {Kinds: []string{"a", ""}},
		"Queues[0]":   {Queues: []string{"\x00"}},
		"Outcomes[0]": {Outcomes: []runner.Outcome{runner.Busy}},
		"Outcomes[1]": {Outcomes: []runner.Outcome{runner.Dead, runner.Released + 1}},
	} {
		_, err := pgqueue.NewSubscription(config)
		var invalid *pgqueue.ValidationError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	// Events of another kind of queue are none of ours.
	sub, err := pgqueue.NewSubscription(pgqueue.SubscribeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	sub.VerdictDone(runner.VerdictEvent{Outcome: runner.Succeeded})
	if len(sub.Events()) != 0 {
		t.Error("it told of a task of another queue")
	}
}
