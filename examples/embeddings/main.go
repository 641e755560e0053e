// Command embeddings keeps a vector for each document, with a queue written by hand: no table of pgqueue's, no adapter, but a
// [runner.Queue] of about three hundred lines over the application's own table. README.md says how to write one.
//
//	go run ./embeddings
//
// Read it in this order:
//
//   - schema.sql:   the table that is queue and result in one;
//   - documents.go: the producer: content and work change in one statement, in the application's transaction;
//   - queue.go:     Claim and NextDue;
//   - report.go:    Report, the heart of it: fence, revision, eligibility and result in one statement;
//   - lease.go:     Renew and Recover;
//   - embed.go:     the handler;
//   - conformance_test.go: the proof that it is a queue.
//
// The rest is the program around it: demo.go runs it, editor.go changes documents meanwhile, proof.go looks whether every
// document has the right vector, freshness.go measures how far behind they were.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options is what the flags say.
type options struct {
	documents int
	changes   int
	workers   int
	latency   time.Duration
	seed      uint64
}

// command runs the program and returns the exit code.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var opts options
	flags := flag.NewFlagSet("embeddings", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&opts.documents, "documents", 2000, "how many documents there are at first")
	flags.IntVar(&opts.changes, "changes", 4000, "how often one is changed, withdrawn, or deleted and created again")
	flags.IntVar(&opts.workers, "workers", 8, "how many documents are embedded at once")
	flags.DurationVar(&opts.latency, "latency", 5*time.Millisecond, "how long the model takes")
	flags.Uint64Var(&opts.seed, "seed", 1, "of the random changes")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // the flag package has said why
	case flags.NArg() > 0 || opts.documents < 1 || opts.changes < 0 || opts.workers < 1:
		fmt.Fprintln(stderr, "embeddings: no arguments, at least one document and one worker, please")
		return 2
	}
	found, err := demo(ctx, opts, stdout)
	if err != nil {
		fmt.Fprintln(stdout, "embeddings failed: "+strings.Join(strings.Fields(err.Error()), " "))
		return 1
	}
	fmt.Fprintln(stdout, found)
	return 0
}
