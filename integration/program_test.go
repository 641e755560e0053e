package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// programVariable is the environment variable that makes the test binary a worker. Its value is a program as JSON.
const programVariable = "PGQUEUE_INTEGRATION_PROGRAM"

// queueName is the queue that the worker program serves.
const queueName = pgqueue.DefaultQueue

// orphaned is the exit code of a child whose parent is gone.
const orphaned = 86

// program says what a child process does. Zero values mean the library's defaults.
type program struct {
	URL         string
	DirectURL   string // past the pooler, where URL goes through one: for the listener
	Schema      string
	Drain       bool     // drain once instead of serving
	Kinds       []string // the kinds it has handlers for
	Workers     int
	Poll        time.Duration
	Lease       time.Duration
	Renew       time.Duration
	Reap        time.Duration
	StopTimeout time.Duration
	Outbox      string // serves a table of the application's instead, see c148_test.go: "tx", or the URL of a receiver
}

// runProgram is the child's main function. It returns the exit code.
func runProgram(text string) int {
	said := &voice{}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var p program
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		logger.Error("the program cannot be read", "error", err)
		return 2
	}
	// As a service would: the first signal asks to stop, the second stops at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hurry := make(chan struct{})
	context.AfterFunc(ctx, func() {
		second, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		said.say(event{What: eventStopping})
		<-second.Done()
		close(hurry)
	})
	orders := listenToParent()
	err := p.run(ctx, hurry, said, orders, logger)
	if err != nil {
		logger.Error("the worker ended with an error", "error", err)
		return 1
	}
	return 0
}

// listenToParent reads the standard input: a line "go on" closes the returned channel, its end means that there is no
// parent any more.
func listenToParent() <-chan struct{} {
	goOn := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for told := false; lines.Scan(); {
			if lines.Text() == orderGoOn && !told {
				told = true
				close(goOn)
			}
		}
		os.Exit(orphaned)
	}()
	return goOn
}

// run serves or drains.
func (p program) run(ctx context.Context, hurry <-chan struct{}, said *voice, goOn <-chan struct{}, logger *slog.Logger) error {
	poolConfig, err := pgxpool.ParseConfig(p.URL)
	if err != nil {
		return err
	}
	// Every transactional handler holds a connection, and claims, renewals and completions need some beside.
	poolConfig.MaxConns = min(20, int32(p.Workers)+4)
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return err
	}
	defer pool.Close()
	if p.Outbox != "" {
		return p.runOutbox(ctx, pool, said, logger)
	}
	client, err := pgqueue.NewClient(pool, pgqueue.WithSchema(p.Schema), pgqueue.WithLogger(logger))
	if err != nil {
		return err
	}
	mux, err := newKinds(said, goOn).mux(p.Kinds)
	if err != nil {
		return err
	}
	config := pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{queueName: {Workers: p.Workers, Poll: p.Poll}},
		Lease:  p.Lease, RenewEvery: p.Renew, StorageTimeout: min(p.Renew, 5*time.Second), ReapInterval: p.Reap,
		StopTimeout: p.StopTimeout,
		Observer:    said,
	}
	if p.DirectURL != p.URL {
		config.ListenerConn = func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, p.DirectURL) }
	}
	if p.Drain {
		result, err := client.Drain(ctx, mux, config)
		said.say(event{What: eventEnded, Err: text(err), Claimed: result.Claimed, Outcomes: &result.Outcomes,
			Requeued: result.Recovered.Requeued, Dead: result.Recovered.Dead})
		return err
	}
	worker, err := client.NewWorker(mux, config)
	if err != nil {
		return err
	}
	go func() {
		<-hurry
		_ = worker.StopNow(context.Background()) // Run's error says the same
	}()
	said.say(event{What: eventReady, Worker: worker.Status().ID})
	err = worker.Run(ctx)
	var outcomes runner.Outcomes
	for _, status := range worker.Status().Queues {
		outcomes = outcomes.Plus(status.Outcomes)
	}
	said.say(event{What: eventEnded, Err: text(err), Outcomes: &outcomes})
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return client.Close(context.WithoutCancel(ctx))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
