package pgqueue_test

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// rateLimited is what an API answers that has had enough until Reset.
type rateLimited struct{ Reset time.Time }

func (e *rateLimited) Error() string { return "rate limited" }

// An API says when it will listen again: until then nobody calls it, in no process, and then all go on by themselves.
func ExampleClient_PauseQueueUntil() {
	call := func(context.Context) error { return &rateLimited{Reset: time.Now().Add(time.Minute)} }
	register := func(client *pgqueue.Client, pool *pgxpool.Pool, mux *pgqueue.Mux) {
		pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[SendWelcome]) error {
			err := call(ctx)
			var limited *rateLimited
			if errors.As(err, &limited) {
				if err := client.PauseQueueUntil(ctx, pool, job.Queue, limited.Reset, "rate limit of the API"); err != nil {
					return err
				}
				return pgqueue.Snooze(time.Until(limited.Reset)) // spends nothing
			}
			return err
		})
	}
	_ = register
}

// One kind makes trouble; the other jobs of its queues go on.
func ExampleClient_PauseKind() {
	run := func(ctx context.Context, client *pgqueue.Client, pool *pgxpool.Pool) error {
		if err := client.PauseKind(ctx, pool, pgqueue.KindPause{Kind: "export_report", Reason: "the warehouse is being migrated"}); err != nil {
			return err
		}
		// … and when that is done
		return client.ResumeKind(ctx, pool, "export_report", "")
	}
	_ = run
}

// A dead job had a bad address in its arguments: it comes back with a good one, unless somebody else was faster.
func ExampleInspector_RetryWith() {
	run := func(ctx context.Context, inspector *pgqueue.Inspector, id int64) error {
		job, err := inspector.Get(ctx, id)
		if err != nil {
			return err
		}
		return inspector.RetryWith(ctx, id, SendWelcome{UserID: 43}, pgqueue.IfVersion(job.Version()))
	}
	_ = run
}

// What is due at midnight may as well be done over the first hour.
func ExampleInspector_RescheduleMany() {
	run := func(ctx context.Context, inspector *pgqueue.Inspector, midnight time.Time) error {
		_, err := inspector.RescheduleMany(ctx, pgqueue.Filter{Queue: "reports", Kind: "export_report"}, midnight, pgqueue.BulkOptions{Spread: time.Hour})
		return err
	}
	_ = run
}
