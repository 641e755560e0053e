package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// A provider is down: nothing more is started, anywhere, until somebody resumes the queue.
func ExampleClient_PauseQueue() {
	run := func(ctx context.Context, client *pgqueue.Client, pool *pgxpool.Pool) error {
		if err := client.PauseQueue(ctx, pool, "mail", "the provider is down, see the incident"); err != nil {
			return err
		}
		// … and when it is up again
		return client.ResumeQueue(ctx, pool, "mail")
	}
	_ = run
}

// A dead job gets another chance, unless newer work of the same key is under way already.
func ExampleClient_Retry() {
	run := func(ctx context.Context, client *pgqueue.Client, pool *pgxpool.Pool, id int64) error {
		err := client.Retry(ctx, pool, id)
		var taken *pgqueue.KeyTakenError
		if errors.As(err, &taken) {
			log.Printf("job %d has the key; job %d stays where it is", taken.Other, taken.ID)
			return nil
		}
		return err
	}
	_ = run
}

// The lag of a queue, and what it holds.
func ExampleClient_Stats() {
	run := func(ctx context.Context, client *pgqueue.Client) error {
		stats, err := client.Stats(ctx) // of all queues
		if err != nil {
			return err
		}
		for _, queue := range stats {
			fmt.Printf("%s: oldest %s, running %d, dead %d\n", queue.Queue, queue.OldestReady, queue.Running.N, queue.Dead.N)
		}
		return nil
	}
	_ = run
}

// Why did it fail? The last ten attempts say so, also of a job that has ended.
func ExampleClient_Get() {
	run := func(ctx context.Context, client *pgqueue.Client, pool *pgxpool.Pool, id int64) error {
		job, err := client.Get(ctx, pool, id)
		if err != nil {
			return err
		}
		fmt.Println(job.State)
		for _, failed := range job.Failed {
			fmt.Printf("attempt %d at %s by %s: %s %s\n", failed.Attempt, failed.At, failed.By, failed.Code, failed.Message)
		}
		return nil
	}
	_ = run
}
