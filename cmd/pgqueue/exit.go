package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/doctor"
	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/schedule"
)

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

// exitName is an exit code for those who read JSON.
func exitName(code int) string {
	switch code {
	case exitUsage:
		return "usage"
	case exitNotFound:
		return "not_found"
	case exitConflict:
		return "conflict"
	case exitPartial:
		return "partial"
	case exitConnect:
		return "connect"
	case exitFindings:
		return "findings"
	case exitStopped:
		return "stopped"
	}
	return "failed"
}

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

// usage is an error about what the command was given.
func usage(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// hintError is an error with a line that says what to do about it.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// withHint says what to do about an error. It is printed on a line of its own.
func withHint(err error, format string, args ...any) error {
	return &hintError{err: err, hint: fmt.Sprintf(format, args...)}
}

// exitCode prints an error without secrets and returns the code for it.
func (a *app) exitCode(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	code := a.codeOf(ctx, err)
	text := err.Error()
	if text == "" {
		return code
	}
	hint := a.hintFor(err, code)
	if code == exitStopped && errors.Is(err, context.Canceled) {
		text = "stopped"
	}
	if a.flags.json {
		_ = writeJSONTo(a.err, struct {
			Error    string `json:"error"`
			Hint     string `json:"hint,omitempty"`
			Code     string `json:"code"`
			ExitCode int    `json:"exit_code"`
		}{a.secrets.hide(text), a.secrets.hide(hint), exitName(code), code})
		return code
	}
	fmt.Fprintf(a.err, "pgqueue: %s\n", block(a.secrets.hide(text)))
	if hint != "" {
		fmt.Fprintf(a.err, "hint: %s\n", block(a.secrets.hide(hint)))
	}
	return code
}

// codeOf is the exit code of an error.
func (a *app) codeOf(ctx context.Context, err error) int {
	if known, ok := errors.AsType[*exitError](err); ok {
		return known.code
	}
	switch {
	case ctx.Err() != nil:
		return exitStopped
	case !a.running: // cobra refused the command line
		return exitUsage
	case isUsage(err):
		return exitUsage
	case isConflict(err): // before not found: that a job has ended is both
		return exitConflict
	case errors.Is(err, pgqueue.ErrNotFound), errors.Is(err, schedule.ErrNoSchedule):
		return exitNotFound
	case isConnection(err):
		return exitConnect
	}
	return exitFailed
}

// isUsage tells errors about input from all others.
func isUsage(err error) bool {
	_, scheduled := errors.AsType[*schedule.ConfigError](err)
	_, examined := errors.AsType[*doctor.OptionError](err)
	_, named := errors.AsType[*migrations.SchemaError](err)
	return scheduled || examined || named || errors.Is(err, pgqueue.ErrInvalid)
}

// isConflict tells whether something is in another state than the action takes.
func isConflict(err error) bool {
	if errors.Is(err, pgqueue.ErrJobEnded) || errors.Is(err, pgqueue.ErrJobLive) || errors.Is(err, pgqueue.ErrJobRunning) {
		return true
	}
	_, changed := errors.AsType[*pgqueue.ChangedError](err)
	_, taken := errors.AsType[*pgqueue.KeyTakenError](err)
	_, referenced := errors.AsType[*pgqueue.ReferencedError](err)
	_, left := errors.AsType[*migrations.JobsLeftError](err)
	_, inTheWay := errors.AsType[*migrations.ConflictError](err)
	return changed || taken || referenced || left || inTheWay
}

// isConnection tells whether the connection failed, at its start or later.
func isConnection(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if fromServer, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch fromServer.Code {
		case "57P01", "57P02", "57P03", "53300": // shut down, crashed, starting up, too many connections
			return true
		}
		return strings.HasPrefix(fromServer.Code, "08")
	}
	if broken, ok := errors.AsType[*net.OpError](err); ok && broken.Op != "listen" {
		return true
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, pgconn.ErrConnClosed)
}

// hintFor says what to do about an error, where there is something to say.
func (a *app) hintFor(err error, code int) string {
	if known, ok := errors.AsType[*hintError](err); ok {
		return known.hint
	}
	fromServer, _ := errors.AsType[*pgconn.PgError](err)
	_, changed := errors.AsType[*pgqueue.ChangedError](err)
	_, jobsLeft := errors.AsType[*migrations.JobsLeftError](err)
	switch {
	case jobsLeft:
		return "pgqueue migrate down --discard-jobs deletes them"
	case errors.Is(err, pgqueue.ErrSchema):
		return a.command("migrate status") + " shows what is installed, " + a.command("migrate up") + " brings it up to date"
	case errors.Is(err, pgqueue.ErrReadOnly), fromServer != nil && onlyReads(fromServer):
		return "this server only reads: it is a standby, or default_transaction_read_only is on; connect to the primary to change something"
	case fromServer != nil && fromServer.Code == "42501":
		return a.rightsHint()
	case changed:
		return "look again, and repeat the action if it is still what you want"
	case code == exitUsage && !a.running:
		return "pgqueue help lists the commands, pgqueue COMMAND --help their flags and examples"
	}
	return ""
}

// onlyReads tells whether a server refused a write, or a transaction that may write.
func onlyReads(err *pgconn.PgError) bool {
	return err.Code == "25006" || err.Code == "0A000" && strings.Contains(err.Message, "during recovery")
}

// command writes a command line of ours as somebody would type it here: with the schema, if it is not the usual one.
func (a *app) command(words string) string {
	line := "pgqueue " + words
	if schema := a.schema(); schema != migrations.DefaultSchema {
		line += " --schema " + shellWord(schema)
	}
	return line
}
