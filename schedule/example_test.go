package schedule_test

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/schedule"
)

// Invoices are written for one month.
type Invoices struct {
	Month string `json:"month"`
}

// Kind names the kind.
func (Invoices) Kind() string { return "invoices" }

// A worker and a scheduler in one process. Any number of such processes may run.
func Example() {
	run := func(ctx context.Context, client *pgqueue.Client, worker *pgqueue.Worker) error {
		scheduler, err := schedule.New(client, schedule.Config{
			Source: "billing",
			Schedules: []schedule.Schedule{
				{
					Name: "invoices", Spec: "30 2 1 * *", TimeZone: "Europe/Copenhagen", Args: Invoices{},
					// The month that has ended, whenever the job is enqueued.
					ArgsFunc: func(_ context.Context, tick schedule.Tick) (pgqueue.Args, error) {
						return Invoices{Month: tick.At.AddDate(0, -1, 0).Format("2006-01")}, nil
					},
					Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("billing"), pgqueue.WithKey("invoices")},
				},
				{Name: "rates", Spec: "@every 10m", Args: pgqueue.Raw{Name: "fetch_rates"}, CatchUp: schedule.Skip, Jitter: time.Minute},
			},
		})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- scheduler.Run(ctx) }() // or both in an errgroup
		err = worker.Run(ctx)
		cancel()
		if failed := <-done; err == nil {
			err = failed
		}
		return err
	}
	_ = run
}

// A function that a platform calls once a minute: nothing has to run in between.
func ExampleScheduler_Tick() {
	invoke := func(ctx context.Context, scheduler *schedule.Scheduler) error {
		result, err := scheduler.Tick(ctx)
		if err != nil {
			return err
		}
		for _, tick := range result.Ticks {
			fmt.Println(tick.Schedule, tick.At, tick.JobID)
		}
		return nil
	}
	_ = invoke
}

// A customer sets when the report comes; with the same commit it is true.
func ExampleEditor_Put() {
	save := func(ctx context.Context, pool *pgxpool.Pool, editor *schedule.Editor, customer int, spec, zone string) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		// … what else is saved
		_, err = editor.Put(ctx, tx, schedule.Schedule{
			Name: fmt.Sprintf("report of customer %d", customer), Spec: spec, TimeZone: zone,
			Args: pgqueue.Raw{Name: "report", Payload: fmt.Appendf(nil, `{"customer": %d}`, customer)},
		})
		if err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	_ = save
}

// What a specification means, before it is stored.
func ExamplePreview() {
	ticks, err := schedule.Preview("30 2 * * *", "America/New_York", time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC), 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, tick := range ticks {
		fmt.Println(tick.Format(time.RFC3339))
	}
	_, err = schedule.Preview("0 0 30 2 *", "UTC", time.Now(), 1)
	fmt.Println(err)
	// Output:
	// 2026-03-07T07:30:00Z
	// 2026-03-08T07:00:00Z
	// 2026-03-09T06:30:00Z
	// preview: spec "0 0 30 2 *" matches no day of any year
}

// A handler learns which tick its job is for.
func ExampleTickOf() {
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[Invoices]) error {
		if tick, ok := schedule.TickOf(job.Metadata); ok {
			fmt.Println(tick.Schedule, "of", tick.At)
		}
		return nil
	})
}
