package pgqueuetest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// drainTimeout bounds one drain, so that a handler which hangs, or a job that snoozes for ever, ends the test with a
// message.
const drainTimeout = time.Minute

// stopTimeout is how long a handler may go on after that before its context is cancelled.
const stopTimeout = time.Second

// Drain runs the jobs that are due in queues, and those that they enqueue there, until nothing is due any more; see
// [pgqueue.Client.Drain]. Without queues it drains [pgqueue.DefaultQueue]. It returns when everything is committed.
//
// One handler runs at a time, so that tests are repeatable and handlers may write to the test's variables.
//
// A job that fails does not fail the test: look at the result's Outcomes, and for the reason at the test's output, where
// clients of [DB.Client] log. It is an error, which ends the test, when the drain cannot be done or takes longer than a
// minute. Jobs that are only enqueued in an open transaction are not seen; see [DrainTx].
func Drain(t testing.TB, client *pgqueue.Client, mux *pgqueue.Mux, queues ...string) pgqueue.DrainResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), drainTimeout)
	defer cancel()
	result, err := client.Drain(ctx, mux, configFor(queues))
	if err != nil {
		t.Fatalf("pgqueuetest: %v (so far: %+v)", err, result.Outcomes)
	}
	return result
}

// DrainTx is [Drain] inside tx, which is open: the jobs that were enqueued in it are claimed, run and completed in it, and
// rolling it back undoes all of that. See [pgqueue.Client.DrainTx] for what handlers may do there. It uses no other
// connection. Jobs of other tests that are due and committed in the same database are run as well; with [New] there are
// none.
func DrainTx(t testing.TB, tx pgx.Tx, client *pgqueue.Client, mux *pgqueue.Mux, queues ...string) pgqueue.DrainResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), drainTimeout)
	defer cancel()
	result, err := client.DrainTx(ctx, tx, mux, configFor(queues))
	if err != nil {
		t.Fatalf("pgqueuetest: %v (so far: %+v)", err, result.Outcomes)
	}
	return result
}

func configFor(queues []string) pgqueue.WorkerConfig {
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{}, StopTimeout: stopTimeout}
	if len(queues) == 0 {
		queues = []string{pgqueue.DefaultQueue}
	}
	for _, queue := range queues {
		config.Queues[queue] = pgqueue.QueueConfig{Workers: 1}
	}
	return config
}
