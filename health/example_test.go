package health_test

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/health"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// A process for Kubernetes: probes on port 8080 that outlive the worker, and a stop at SIGTERM. See docs/kubernetes.md for the
// numbers.
func Example() {
	if err := serve(); err != nil {
		log.Print(err)
	}
}

func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := pgqueue.NewClient(pool)
	if err != nil {
		return err
	}
	mux := pgqueue.NewMux()
	mux.HandleFunc("send", func(context.Context, *pgqueue.AnyJob) error { return nil })
	worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"mail": {Workers: 10}}, Version: "1.2.3"})
	if err != nil {
		return err
	}

	routes := http.NewServeMux()
	routes.Handle("/livez", health.Live(worker))
	routes.Handle("/readyz", health.Ready(worker))
	server := &http.Server{Addr: ":8080", Handler: routes, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()

	err = worker.Run(ctx) // until SIGTERM, and then up to 42 s
	last, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return errors.Join(err, client.Close(last), server.Shutdown(last))
}
