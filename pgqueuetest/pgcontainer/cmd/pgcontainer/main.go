// Command pgcontainer runs a command beside a Postgres in a container: PGQUEUE_TEST_DATABASE_URL names it in the command's
// environment. It prints the image, the container's id and the server's version first, removes the container at the end, and
// exits as the command did.
//
//	pgcontainer -image postgres:18-alpine go test ./...
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/pgqueuetest/pgcontainer"
)

func main() {
	image := flag.String("image", pgcontainer.DefaultImage, "the image to run")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: pgcontainer [-image IMAGE] COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, *image, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

// cleanUpTimeout bounds the removal of the container.
const cleanUpTimeout = time.Minute

func run(ctx context.Context, image string, command []string) (code int, err error) {
	container, err := pgcontainer.Start(ctx, pgcontainer.Options{Image: image})
	if err != nil {
		return 0, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
		err = errors.Join(err, container.Terminate(ctx))
	}()
	fmt.Printf("image %s, container %s, PostgreSQL %s\n", container.Image(), container.ID(), container.ServerVersion())

	child := exec.CommandContext(ctx, command[0], command[1:]...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.Env = append(os.Environ(), pgqueuetest.EnvDatabaseURL+"="+container.URL())
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) }
	var failed *exec.ExitError
	if err := child.Run(); errors.As(err, &failed) {
		return max(1, failed.ExitCode()), nil
	} else if err != nil {
		return 0, err
	}
	return 0, nil
}
