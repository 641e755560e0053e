package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// What failed last, one page at a time; the cursor fits into a URL.
func ExampleInspector_List() {
	run := func(ctx context.Context, inspector *pgqueue.Inspector, cursor string) (next string, err error) {
		filter := pgqueue.Filter{States: []pgqueue.JobState{pgqueue.JobFailed, pgqueue.JobDead}, Queue: "mail"}
		page, err := inspector.List(ctx, filter, pgqueue.ListOptions{Order: pgqueue.OrderLatestEnded, Cursor: cursor})
		if err != nil {
			return "", err
		}
		for _, job := range page.Jobs {
			fmt.Println(job.ID, job.Kind, job.FinishedAt.Format(time.TimeOnly), job.LastCode, job.Payload.Text)
		}
		return page.Next, nil
	}
	_ = run
}

// All jobs of one user, from a payload that no index knows: page after page, until everything was looked at.
func ExampleInspector_All() {
	run := func(ctx context.Context, inspector *pgqueue.Inspector) error {
		for job, err := range inspector.All(ctx, pgqueue.Filter{Payload: []byte(`{"user_id": 42}`)}, pgqueue.ListOptions{}) {
			if err != nil {
				return err
			}
			fmt.Println(job.ID, job.State)
		}
		return nil
	}
	_ = run
}

// The attempts of one job, and why it is not running now.
func ExampleInspector_Get() {
	run := func(ctx context.Context, inspector *pgqueue.Inspector, id int64) error {
		job, err := inspector.Get(ctx, id)
		if err != nil {
			return err
		}
		for _, a := range job.Attempts {
			fmt.Printf("%d: %s on %s, %s, %s %s\n", a.Number, a.State, a.Worker, a.EndedAt.Sub(a.StartedAt), a.Code, a.Message)
		}
		reason, err := inspector.WhyNotRunning(ctx, id)
		if err != nil {
			return err
		}
		fmt.Println(reason)
		return nil
	}
	_ = run
}

// A form was filled in while looking at one version of the job. If it has changed since, nothing happens.
func ExampleIfVersion() {
	run := func(ctx context.Context, inspector *pgqueue.Inspector, id int64, fromTheForm string) error {
		version, err := pgqueue.ParseVersion(fromTheForm)
		if err != nil {
			return err
		}
		err = inspector.As("alice").Retry(ctx, id, pgqueue.IfVersion(version))
		var changed *pgqueue.ChangedError
		if errors.As(err, &changed) {
			return fmt.Errorf("look again: %w", err)
		}
		return err
	}
	_ = run
}

// A provider was down for an hour. What died of it comes back, spread over ten minutes; a preview first.
func ExampleInspector_RetryMany() {
	run := func(ctx context.Context, inspector *pgqueue.Inspector, cursor string) (goOn string, err error) {
		filter := pgqueue.Filter{Kind: "send_mail", ErrorCode: "timeout"}
		preview, err := inspector.RetryMany(ctx, filter, pgqueue.BulkOptions{DryRun: true})
		if err != nil {
			return "", err
		}
		result, err := inspector.RetryMany(ctx, filter, pgqueue.BulkOptions{
			Spread:   10 * time.Minute,
			Cursor:   cursor, // of a run that was interrupted
			Progress: func(sofar pgqueue.BulkResult) { fmt.Printf("%d of %d\n", sofar.Matched, preview.Matched) },
		})
		if result == nil {
			return "", err // nothing was begun
		}
		for _, skip := range result.Skips {
			log.Printf("job %d stays where it is: %s %s", skip.ID, skip.Reason, skip.Detail)
		}
		return result.Cursor, err
	}
	_ = run
}

// An audit log in the application's own table, written in the transaction of each action.
func ExampleNewInspector() {
	run := func(pool *pgxpool.Pool) (*pgqueue.Inspector, error) {
		return pgqueue.NewInspector(pool, pgqueue.InspectorConfig{
			Audit: func(ctx context.Context, tx pgx.Tx, entry pgqueue.AuditEntry) error {
				_, err := tx.Exec(ctx, `INSERT INTO audit (who, what, jobs, queue) VALUES ($1, $2, $3, $4)`,
					entry.Actor, entry.Action, entry.Jobs, entry.Queue)
				return err
			},
		})
	}
	_ = run
}
