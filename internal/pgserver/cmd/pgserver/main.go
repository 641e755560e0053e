// Command pgserver finds the PostgreSQL binaries that tests and the demo use, or runs a throwaway server.
//
//	go run ./internal/pgserver/cmd/pgserver find [-version N] [-no-download]   # prints the directory and the version
//	go run ./internal/pgserver/cmd/pgserver run [-version N]                   # prints the URL; runs until interrupted
//
// find ends with exit code 1 and one sentence when there is nothing to use.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pgqueue/pgqueue/internal/pgserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func run(ctx context.Context, args []string, output io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: pgserver find|run [-version N] [-no-download]")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	var opts pgserver.Options
	flags.IntVar(&opts.Version, "version", 0, "major version; 0 takes "+pgserver.EnvVersion+", or any")
	flags.BoolVar(&opts.NoDownload, "no-download", false, "do not fetch binaries through npm")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "find":
		found, err := pgserver.Find(ctx, opts)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(output, "%s\t%s\n", found.Dir, found.Version)
		return err
	case "run":
		return serve(ctx, opts, output)
	default:
		return fmt.Errorf("pgserver: unknown command %q: use find or run", args[0])
	}
}

// serve runs a server until ctx ends or the server does.
func serve(ctx context.Context, opts pgserver.Options, output io.Writer) error {
	server, err := pgserver.Start(ctx, opts)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(output, server.URL("postgres"))
	if err == nil {
		select {
		case <-ctx.Done():
		case <-server.Done():
			err = fmt.Errorf("pgserver: the server ended by itself:\n%s", server.Log())
		}
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, server.Stop(stopping))
}
