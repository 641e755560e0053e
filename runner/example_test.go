package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/memqueue"
)

// A runner works until its context ends; here that is the first SIGINT or SIGTERM, or the last task.
func Example() {
	queue := memqueue.New[string, int](memqueue.Config{})
	for _, word := range []string{"lorem", "ipsum", "dolor", ""} {
		queue.Put(memqueue.Input[string]{Name: "word " + word, Payload: word})
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	count := func(_ context.Context, task *runner.Task[string]) (int, error) {
		if task.Payload == "" {
			// Stored with the failure: the code and what was marked as safe.
			return 0, runner.Permanent(runner.Coded("empty_word", runner.Safef("nothing to count")))
		}
		return len(task.Payload), nil
	}
	r, err := runner.New(queue, runner.HandlerFunc[string, int](count), runner.Config{
		Name: "words", Workers: 4, Deadline: time.Minute,
		Observer: untilIdle{stop}, // so that this example ends
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := r.Run(ctx); err != nil {
		fmt.Println(err)
		return
	}
	outcomes := r.Status().Outcomes
	fmt.Println(outcomes.Succeeded, "succeeded,", outcomes.Failed, "failed")
	// Output: 3 succeeded, 1 failed
}

// untilIdle calls stop when a claim comes back empty.
type untilIdle struct{ stop func() }

// ClaimDone implements [runner.ClaimObserver].
func (u untilIdle) ClaimDone(e runner.ClaimEvent) {
	if e.Claimed == 0 {
		u.stop()
	}
}

// What a handler returns decides what becomes of the task.
func ExampleHandler() {
	queue := memqueue.New[string, struct{}](memqueue.Config{})
	queue.Put(memqueue.Input[string]{Name: "a", Payload: "broken"})
	queue.Put(memqueue.Input[string]{Name: "b", Payload: "too early"})
	queue.Put(memqueue.Input[string]{Name: "c", Payload: "busy"})

	handler := runner.HandlerFunc[string, struct{}](func(_ context.Context, task *runner.Task[string]) (struct{}, error) {
		switch task.Payload {
		case "broken":
			return struct{}{}, runner.Permanent(errors.New("no such user"))
		case "too early":
			return struct{}{}, runner.SnoozeFor(time.Hour)
		default:
			return struct{}{}, runner.RetryAfter(time.Minute, errors.New("429 too many requests"))
		}
	})
	r, err := runner.New(queue, handler, runner.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := r.Drain(context.Background())
	fmt.Println(result.Outcomes.Failed, result.Outcomes.Snoozed, result.Outcomes.Retrying, err)
	// Output: 1 1 1 <nil>
}
