package pgqueuetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

const (
	// awaitTimeout bounds a wait where the test has no deadline that comes sooner.
	awaitTimeout = 30 * time.Second
	// reportTime is kept of the test's time, for saying what has not happened and for the clean-ups.
	reportTime = 2 * time.Second
	// shownEvents is how many of the events that did not match a message shows.
	shownEvents = 10
)

// Await waits until job id has ended, in whatever process it is worked, and returns it: succeeded, failed, dead or cancelled; see
// [pgqueue.Client.Await]. The job must be committed, and somebody must work it: a worker of the test's, or of the program under test.
//
// It ends the test after 30 seconds, or shortly before the test's own deadline, with the job's state, the attempts that failed, and
// why it does not run.
func Await(t testing.TB, client *pgqueue.Client, id int64) *pgqueue.JobStatus {
	t.Helper()
	if client == nil {
		t.Fatalf("pgqueuetest: await job %d: client must not be nil", id)
	}
	return awaitFor(t, client, id, patienceOf(t))
}

func awaitFor(t testing.TB, client *pgqueue.Client, id int64, patience time.Duration) *pgqueue.JobStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	job, err := client.Await(ctx, id)
	switch {
	case err == nil:
		return job
	case ctx.Err() != nil:
		t.Fatalf("pgqueuetest: job %d has not ended within %v: %s", id, patience, describeJob(t, client, id))
	default:
		t.Fatalf("pgqueuetest: %v", err)
	}
	return nil
}

// WaitFor waits for an event of sub for which match answers true, and returns it. Events that do not match are read over: a test that
// wants several in any order has match note them. It ends the test after 30 seconds, or shortly before the test's own deadline,
// or when the subscription ends, with the events that came.
//
//	sub, err := worker.Subscribe(pgqueue.SubscribeConfig{}) // before Run
//	…
//	event := pgqueuetest.WaitFor(t, sub, func(e pgqueue.Event) bool { return e.Job.ID == id && e.Outcome == runner.Dead })
func WaitFor(t testing.TB, sub *pgqueue.Subscription, match func(pgqueue.Event) bool) pgqueue.Event {
	t.Helper()
	switch {
	case sub == nil:
		t.Fatalf("pgqueuetest: wait for an event: sub must not be nil; see Worker.Subscribe")
	case match == nil:
		t.Fatalf("pgqueuetest: wait for an event: match must not be nil")
	}
	return waitFor(t, sub, match, patienceOf(t))
}

func waitFor(t testing.TB, sub *pgqueue.Subscription, match func(pgqueue.Event) bool, patience time.Duration) pgqueue.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var others []pgqueue.Event
	count := 0
	for {
		event, err := sub.Next(ctx)
		switch {
		case errors.Is(err, pgqueue.ErrSubscriptionEnded):
			t.Fatalf("pgqueuetest: the subscription has ended without the event: %s", describeEvents(others, count, sub.Missed()))
		case err != nil:
			t.Fatalf("pgqueuetest: the event has not come within %v: %s", patience, describeEvents(others, count, sub.Missed()))
		case match(event):
			return event
		}
		count++
		if others = append(others, event); len(others) > shownEvents {
			others = others[1:]
		}
	}
}

// patienceOf is how long a test may wait.
func patienceOf(t testing.TB) time.Duration {
	patience := awaitTimeout
	if limited, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := limited.Deadline(); ok {
			patience = min(patience, time.Until(deadline)-reportTime)
		}
	}
	return max(patience, time.Millisecond)
}

// describeJob says how a job stands that should have ended.
func describeJob(t testing.TB, client *pgqueue.Client, id int64) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), reportTime)
	defer cancel()
	inspector := client.Inspector()
	job, err := inspector.Get(ctx, id)
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	fmt.Fprintf(&text, "kind %q of queue %q is %s", job.Kind, job.Queue, job.State)
	if job.ClaimedBy != "" {
		fmt.Fprintf(&text, ", attempt %d by worker %q", job.Attempt, job.ClaimedBy)
	}
	for _, failed := range job.Failed {
		fmt.Fprintf(&text, "\n  attempt %d failed with %s: %s", failed.Attempt, failed.Code, failed.Message)
	}
	if why, err := inspector.WhyNotRunning(ctx, id); err == nil {
		fmt.Fprintf(&text, "\n  why it is not running: %s", why)
	}
	return text.String()
}

// describeEvents lists the last events that were not wanted.
func describeEvents(events []pgqueue.Event, count int, missed uint64) string {
	var text strings.Builder
	if count == 0 {
		text.WriteString("none came")
	} else {
		fmt.Fprintf(&text, "%d others came", count)
	}
	if missed > 0 {
		fmt.Fprintf(&text, ", and %d were missed because the test was slow (see SubscribeConfig.Buffer)", missed)
	}
	for _, event := range events {
		fmt.Fprintf(&text, "\n  job %d, kind %q of queue %q, attempt %d: %s", event.Job.ID, event.Job.Kind, event.Job.Queue, event.Job.Attempt,
			event.Outcome)
		if event.Code != "" {
			fmt.Fprintf(&text, " (%s: %s)", event.Code, event.Message)
		}
	}
	return text.String()
}
