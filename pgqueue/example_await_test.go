package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// Render is a job with a result: where the picture is.
type Render struct {
	Scene string `json:"scene"`
}

func (Render) Kind() string { return "render" }

// Picture is its result.
type Picture struct {
	URL string `json:"url"`
}

// A request that waits for the job it has enqueued, in whatever process that runs.
func ExampleAwaitResult() {
	answer := func(ctx context.Context, client *pgqueue.Client, pool *pgxpool.Pool, scene string) (string, error) {
		enqueued, err := client.Enqueue(ctx, pool, Render{Scene: scene})
		if err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		picture, err := pgqueue.AwaitResult[Picture](ctx, client, enqueued.ID)
		var failed *pgqueue.JobFailedError
		switch {
		case errors.As(err, &failed):
			return "", fmt.Errorf("the scene cannot be rendered: %s", failed.Code)
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Sprintf("/pictures/pending/%d", enqueued.ID), nil // the job goes on
		case err != nil:
			return "", err
		}
		return picture.URL, nil
	}
	_ = answer
}

// Frames is a long job that can go on where an earlier attempt has stopped.
type Frames struct {
	From, To int
}

func (Frames) Kind() string { return "frames" }

// A handler that says how far it is, and begins where the last attempt ended.
func ExampleJob_SetProgress() {
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[Frames]) error {
		at := job.Args.From
		if last, err := job.LastProgress(ctx); err == nil {
			if _, err := fmt.Sscan(string(last.Value), &at); err != nil {
				return err
			}
		} else if !errors.Is(err, pgqueue.ErrNotFound) {
			return err
		}
		for ; at < job.Args.To; at++ {
			if err := ctx.Err(); err != nil { // the deadline, a stop, or somebody has cancelled the job
				return context.Cause(ctx)
			}
			// … one frame …
			if err := job.SetProgress(at + 1); err != nil {
				return err
			}
		}
		return nil
	})
}
