// Command indexer is the demo of pgqueue: a search index of the Go standard library, built by two processes of which
// one is killed half way, with a proof in SQL that every file was indexed exactly once.
//
//	go run ./indexer          # build or update the index
//	go run ./indexer serve    # only start the demo's database, to look around with psql
//
// Read it in this order:
//
//   - enqueue.go: a job for each changed file, in the transaction that records the file;
//   - worker.go:  what a worker process is, and the handler whose transaction completes the job;
//   - schema.sql: the application's own tables, next to pgqueue's;
//   - demo.go:    one run from start to end;
//   - kill.go:    the SIGKILL, and how the jobs of the killed process come back;
//   - report.go and proof.go: the totals and the proof.
//
// The rest has little to do with pgqueue: walk.go and parse.go read Go source, process.go starts the workers (this same
// program again), cluster.go finds or starts a database, progress.go draws the bar.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// command runs the subcommand that args name and returns the exit code.
func command(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	name := ""
	if len(args) > 0 && (args[0] == "serve" || args[0] == workerCommand) {
		name, args = args[0], args[1:]
	}
	opts, err := parseOptions(args, stderr)
	if err != nil {
		return 2 // the flag package has said why
	}
	if name == workerCommand {
		return workerMain(opts, stdin, stdout, stderr)
	}

	// The first Ctrl-C ends ctx, and everything stops in order. After that the signals have their usual effect again,
	// so that a second Ctrl-C ends the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	if name == "serve" {
		if err := serve(ctx, opts, stdout); err != nil {
			return fail(stdout, err)
		}
		return 0
	}
	result, err := demo(ctx, opts, stdout)
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return fail(stdout, errors.New("interrupted; what is enqueued stays, and the next run goes on from there"))
	case err != nil:
		return fail(stdout, err)
	}
	fmt.Fprintln(stdout, result)
	return 0
}

// longestLine is what a last line may take before its details stand above it instead.
const longestLine = 500

// fail says what went wrong, in one last line, and returns the exit code.
func fail(out io.Writer, err error) int {
	line := strings.Join(strings.Fields(err.Error()), " ") // the drivers' and joined errors have several lines
	if len(line) > longestLine {
		fmt.Fprintln(out, err)
		line, _, _ = strings.Cut(err.Error(), "\n")
	}
	fmt.Fprintln(out, "demo failed: "+line)
	return 1
}
