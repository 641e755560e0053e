package pgqueue_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/reaper"
)

// A worker of many queues asks once for all of them whether leases have run out, and reaps the one where they have; one
// of them is reaped every now and then, and all at the start, which shows that they can be.
func TestOneQuestionAboutTheLeasesOfAllQueues(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	sent := &statements{}
	traced := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent })
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error { return nil })
	queues := pgqueue.Queues{}
	for _, name := range strings.Fields("a b c d e f g h i j") {
		queues[name] = pgqueue.QueueConfig{}
	}
	w := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: queues, Pool: traced, ReapInterval: 300 * time.Millisecond})
	passes := func() (total int) {
		for _, target := range w.Status().Reaper.Targets {
			total += int(target.Passes)
		}
		return total
	}
	eventually(t, "some passes of the reaper", func() bool { return passes() >= 10*len(queues) })
	asked, done := sent.with("AS lapsed"), passes()
	// On a machine that stalls an answer may be too old for some queues.
	if asked == 0 || 4*asked > 3*done {
		t.Errorf("%d questions for %d passes", asked, done)
	}
	if n := sent.with("'lease_expired'"); n < len(queues)+asked/4-1 || n > len(queues)+asked/4+3 {
		t.Errorf("%d reaps after %d questions where nothing has run out", n, asked)
	}

	id := enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue("g")).ID
	abandon(t, db.Pool, id)
	eventually(t, "the job to come back", func() bool {
		return one[string](t, db.Pool, `SELECT state FROM pgqueue.jobs WHERE id = $1`, id) == "pending"
	})
	eventually(t, "the status to say which queue it was", func() bool { // it is counted after the row is written
		return slices.ContainsFunc(w.Status().Reaper.Targets, func(target reaper.TargetStatus) bool {
			return target.Name == "g" && target.Totals.Requeued == 1
		})
	})
}
