package pgqueue_test

import (
	"context"
	"log"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// A process tells its operators of jobs that it could not do, while its worker runs.
func ExampleWorker_Subscribe() {
	run := func(ctx context.Context, worker *pgqueue.Worker) error {
		sub, err := worker.Subscribe(pgqueue.SubscribeConfig{Outcomes: []runner.Outcome{runner.Failed, runner.Dead}})
		if err != nil {
			return err
		}
		go func() { // ends with the worker
			for event := range sub.Events() {
				log.Printf("job %d (%s) is %s: %s", event.Job.ID, event.Job.Kind, event.Outcome, event.Code)
				if event.Missed > 0 {
					log.Printf("%d more were not told of", event.Missed)
				}
			}
		}()
		return worker.Run(ctx)
	}
	_ = run
}

// replaceOnce asks for a replacement slot for handlers of one kind that ignore their context.
type replaceOnce struct{ kind string }

func (r replaceOnce) ReplaceStuck(e runner.StuckEvent) bool { return e.Kind == r.kind }

// A handler calls a library that hangs at times and heeds no context. Its slot is replaced until it returns.
func ExampleObservers_replaceStuck() {
	run := func(ctx context.Context, client *pgqueue.Client, mux *pgqueue.Mux) error {
		worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{
			Queues:   pgqueue.Queues{"reports": {Workers: 4}},
			Observer: replaceOnce{"render_pdf"},
		})
		if err != nil {
			return err
		}
		return worker.Run(ctx)
	}
	_ = run
}
