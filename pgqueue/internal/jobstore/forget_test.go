package jobstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// complete_forget deletes by ctid, which every renewal changes. A success that meets one is asked for again, and in the end
// each has counted once and no row is left behind in running.
func TestForgottenSuccessesBesideRenewals(t *testing.T) {
	t.Parallel()
	f := open(t)
	if err := f.store.SetHistory(f.ctx, f.pool, queueName, "off"); err != nil {
		t.Fatal(err)
	}
	const jobs = 400
	f.insert(jobs)
	tasks := f.claim(jobs)
	if len(tasks) != jobs {
		t.Fatalf("claimed %d jobs", len(tasks))
	}
	ctx, stop := context.WithCancel(f.ctx)
	tokens := make([]runner.Token, jobs)
	for i := range tasks {
		tokens[i] = tasks[i].Token
	}
	var renewing sync.WaitGroup
	for range 3 {
		renewing.Go(func() {
			for ctx.Err() == nil {
				if _, err := f.queue.Renew(ctx, tokens, time.Minute); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
	succeeded := 0
	for left := tasks; len(left) > 0; {
		verdicts := make([]verdict, len(left))
		for i := range left {
			verdicts[i] = succeed(left[i].Payload)
		}
		outcomes := must(f.queue.Report(f.ctx, verdicts))(t)
		var busy []runner.Task[*jobstore.Row]
		for i, outcome := range outcomes {
			switch outcome {
			case runner.Succeeded:
				succeeded++
			case runner.Busy:
				busy = append(busy, left[i])
			default:
				t.Fatalf("%s ended as %v", left[i].Token, outcome)
			}
		}
		left = busy
	}
	stop()
	renewing.Wait()
	if succeeded != jobs || query1[int](f, "SELECT count(*)::int FROM %s.jobs") != 0 {
		t.Errorf("%d of %d succeeded and %d rows are left", succeeded, jobs, query1[int](f, "SELECT count(*)::int FROM %s.jobs"))
	}
}
