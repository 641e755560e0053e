//go:build citus

package citus

import (
	"context"
	"fmt"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// BenchmarkJobs measures jobs a second through the coordinator: enqueued one by one, a hundred at a time, and worked off, from one queue
// and from eight. PGQUEUE_CITUS_URL may name a Postgres without Citus, to compare:
//
//	go test -tags citus -run '^$' -bench Jobs -benchtime 2000x ./citus
func BenchmarkJobs(b *testing.B) {
	c := connect(b)
	for _, queues := range []int{1, 8} {
		names := pgqueue.Queues{}
		option := make([]pgqueue.EnqueueOption, queues)
		for i := range queues {
			name := fmt.Sprintf("bench%d", i)
			names[name] = pgqueue.QueueConfig{Workers: 16, Batch: 256}
			option[i] = pgqueue.OnQueue(name)
		}
		mux := pgqueue.NewMux()
		pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[step]) error { return nil })
		b.Run(fmt.Sprintf("enqueue/queues=%d", queues), func(b *testing.B) {
			for i := range b.N {
				if _, err := c.client.Enqueue(c.ctx, c.pool, step{i}, option[i%queues]); err != nil {
					b.Fatal(err)
				}
			}
			perSecond(b)
		})
		c.exec("DELETE FROM %s.jobs")
		b.Run(fmt.Sprintf("enqueue_many/queues=%d", queues), func(b *testing.B) {
			c.fill(b, option)
			perSecond(b)
		})
		c.exec("DELETE FROM %s.jobs")
		b.Run(fmt.Sprintf("work/queues=%d", queues), func(b *testing.B) {
			c.fill(b, option)
			b.ResetTimer()
			if drained, err := c.client.Drain(c.ctx, mux, pgqueue.WorkerConfig{Queues: names}); err != nil || int(drained.Outcomes.Succeeded) != b.N {
				b.Fatal(drained, err)
			}
			perSecond(b)
		})
	}
}

// fill enqueues b.N jobs in groups of a hundred, each of one queue.
func (c *cluster) fill(b *testing.B, option []pgqueue.EnqueueOption) {
	b.Helper()
	for i := 0; i < b.N; {
		var jobs []pgqueue.NewJob
		queue := option[i/100%len(option)]
		for ; i < b.N && len(jobs) < 100; i++ {
			jobs = append(jobs, pgqueue.NewJob{Args: step{i}, Options: []pgqueue.EnqueueOption{queue}})
		}
		if _, err := c.client.EnqueueMany(c.ctx, c.pool, jobs); err != nil {
			b.Fatal(err)
		}
	}
}

func perSecond(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
