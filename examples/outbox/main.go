// Command outbox is a notifications service over two tables of its own, delivered by package outbox: three providers that
// time out, refuse, rate-limit and mostly work; two processes, of which one is killed; and a proof, from the provider's own
// log, that nothing was lost and nothing sent by two at once.
//
//	go run ./outbox        # 5,000 notifications
//	go run ./outbox sql    # print the statements that package outbox sends, for review
//
// Read it in this order:
//
//   - schema.sql:  the tables;
//   - produce.go:  the producer, which knows nothing of pgqueue;
//   - table.go:    the description of the table, and how long a claim must hold;
//   - send.go:     the handler: what an answer of the provider means for the row;
//   - worker.go:   what a worker process is;
//   - demo.go:     one run from start to end, with the SIGKILL;
//   - proof.go:    what must hold at the end.
//
// provider.go and fate.go play the providers, process.go starts the workers (this same program again).
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
	os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// options is what the flags say.
type options struct {
	notifications int
	workers       int
	timeout       time.Duration
	backoff       time.Duration
	seed          uint64
}

// args are the flags for a worker process.
func (o options) args() []string {
	return []string{"-workers", fmt.Sprint(o.workers), "-timeout", o.timeout.String(), "-backoff", o.backoff.String()}
}

// command runs the program and returns the exit code.
func command(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	name := ""
	if len(args) > 0 && (args[0] == workerCommand || args[0] == "sql") {
		name, args = args[0], args[1:]
	}
	var opts options
	flags := flag.NewFlagSet("outbox", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&opts.notifications, "notifications", 5000, "how many there are")
	flags.IntVar(&opts.workers, "workers", 24, "how many sends a process has under way at once")
	flags.DurationVar(&opts.timeout, "timeout", 500*time.Millisecond, "of a call of a provider")
	flags.DurationVar(&opts.backoff, "backoff", 250*time.Millisecond, "after the first failed send; then four times that, at most eight times. In real life: 30s")
	flags.Uint64Var(&opts.seed, "seed", 1, "of what the providers do")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // the flag package has said why
	case flags.NArg() > 0 || opts.notifications < 1 || opts.workers < 2 || opts.timeout <= 0 || opts.backoff <= 0:
		fmt.Fprintln(stderr, "outbox: at least one notification, two workers, and times above zero, please; the only commands are none and sql")
		return 2
	}
	if name == workerCommand {
		return workerMain(opts, stdin, stdout, stderr)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	if name == "sql" {
		if err := printSQL(opts, stdout); err != nil {
			return fail(stdout, err)
		}
		return 0
	}
	found, err := demo(ctx, opts, stdout)
	if err != nil {
		return fail(stdout, err)
	}
	fmt.Fprintln(stdout, found)
	return 0
}

// fail says what went wrong, in one last line, and returns the exit code.
func fail(out io.Writer, err error) int {
	text := err.Error()
	if strings.Contains(text, "\n") {
		fmt.Fprintln(out, text)
		text, _, _ = strings.Cut(text, "\n")
	}
	fmt.Fprintln(out, "outbox failed: "+text)
	return 1
}
