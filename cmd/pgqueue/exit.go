package main

import "fmt"

// Exit codes; docs/cli.md has the table.
const (
	exitOK       = 0
	exitFailed   = 1   // anything else
	exitUsage    = 2   // bad flags, arguments or input
	exitNotFound = 3   // no such job, queue, schedule
	exitConflict = 4   // it is in another state than the action takes, or has changed
	exitPartial  = 5   // a bulk action skipped some
	exitConnect  = 6   // the database could not be reached
	exitFindings = 7   // doctor, validate and status found something
	exitStopped  = 130 // by a signal
)

// exitError is an error with an exit code. An empty text prints nothing: what there was to say has been written.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

// exitCode prints an error without secrets and returns the code for it.
func (a *app) exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(a.err, "pgqueue:", err)
	return exitFailed
}
