package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/memqueue"
)

// A runner over a queue of your own, here one in memory, with its metrics on a registry of its own.
func ExampleNewPrometheus() {
	registry := prometheus.NewRegistry()
	m, err := metrics.NewPrometheus(metrics.PrometheusConfig{Registerer: registry})
	if err != nil {
		fmt.Println(err)
		return
	}

	queue := memqueue.New[string, int](memqueue.Config{})
	for _, word := range []string{"lorem", "ipsum", ""} {
		queue.Put(memqueue.Input[string]{Name: "word " + word, Payload: word})
	}
	count := func(_ context.Context, task *runner.Task[string]) (int, error) {
		if task.Payload == "" {
			return 0, runner.Permanent(errors.New("nothing to count"))
		}
		return len(task.Payload), nil
	}
	words, err := runner.New(queue, runner.HandlerFunc[string, int](count), runner.Config{Name: "words", Observer: m})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.WatchRunner(words)()
	if _, err := words.Drain(context.Background()); err != nil {
		fmt.Println(err)
		return
	}

	families, err := registry.Gather() // what promhttp.HandlerFor(registry, …) answers with
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, family := range families {
		if family.GetName() != "pgqueue_verdicts_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if n := metric.GetCounter().GetValue(); n > 0 {
				for _, label := range metric.GetLabel() {
					if label.GetName() == "outcome" {
						fmt.Println(label.GetValue(), n)
					}
				}
			}
		}
	}
	// Output:
	// failed 1
	// succeeded 2
}

// Welcome is a job.
type Welcome struct {
	UserID int64 `json:"user_id"`
}

// Kind is its name.
func (Welcome) Kind() string { return "welcome" }

// A service that works and is scraped at http://localhost:8080/metrics.
func Example_service() {
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}

func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()

	m, err := metrics.NewPrometheus(metrics.PrometheusConfig{Pool: pool})
	if err != nil {
		return err
	}
	client, err := pgqueue.NewClient(pool, pgqueue.WithObserver(m))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close(context.Background()) }()

	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[Welcome]) error {
		log.Printf("welcome, user %d", job.Args.UserID)
		return nil
	})
	worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 10}}})
	if err != nil {
		return err
	}
	defer m.Watch(worker)()

	numbers := make(chan error, 1)
	go func() { numbers <- m.Run(ctx) }()
	server := &http.Server{Addr: "localhost:8080", Handler: promhttp.Handler()}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Print(err)
		}
	}()
	err = worker.Run(ctx)
	return errors.Join(err, <-numbers, server.Close())
}
