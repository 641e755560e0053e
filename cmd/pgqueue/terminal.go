package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// isTerminal tells whether somebody sits at a stream. A stream that is no file says so itself, by a method IsTerminal: tests do.
func isTerminal(stream any) bool {
	if says, ok := stream.(interface{ IsTerminal() bool }); ok {
		return says.IsTerminal()
	}
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// interactive tells whether somebody can be asked.
func (a *app) interactive() bool { return isTerminal(a.in) && isTerminal(a.err) }

// confirm asks whether to go on, and returns nil for yes. With yes nobody is asked, and where there is nobody to ask, as in a
// script, it is an error that says to give --yes.
func (a *app) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !a.interactive() {
		return withHint(usage("nobody is there to confirm: %s", question), "give --yes to go on without being asked")
	}
	fmt.Fprintf(a.err, "%s [y/N] ", block(question))
	answer, err := a.readLine(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &exitError{code: exitFailed, err: errors.New("nothing was done")}
}

// readLine reads a line of the input, or ends with ctx. A read from a terminal cannot be interrupted: after ctx has ended its
// goroutine stays until the program ends, which is at once.
func (a *app) readLine(ctx context.Context) (string, error) {
	type read struct {
		line string
		err  error
	}
	done := make(chan read, 1)
	go func() {
		line, err := bufio.NewReader(a.in).ReadString('\n')
		done <- read{line, err}
	}()
	select {
	case got := <-done:
		return got.line, got.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
