package pgqueue

import (
	"errors"

	"github.com/pgqueue/pgqueue/runner"
)

var (
	// ErrInvalid is what every [ValidationError] is: errors.Is(err, ErrInvalid) tells bad input from everything else.
	ErrInvalid = errors.New("invalid input")

	// ErrClosed is returned by a [Client] after [Client.Close].
	ErrClosed = errors.New("the client is closed")

	// ErrLeaseLost means that an attempt no longer owns its job: its lease ran out and another worker took the job, or
	// the job is gone. It is also the cause of the context of a handler that lost its lease.
	ErrLeaseLost = runner.ErrLeaseLost

	// ErrCancelled is the cause of the context of a handler whose job somebody asked to stop, see [Client.Cancel].
	ErrCancelled = runner.ErrCancelled

	// ErrSchema means that the database does not have the tables that this version works with: run migrations.Up. Worker.Run,
	// Drain and DrainTx look and return it; an enqueue returns it together with Postgres's own error, such as 42P01.
	ErrSchema = errors.New("the schema is not ready")

	// ErrPooler means that there is a pooler between this program and Postgres, and that the connection string asks for what it does not
	// do: keep prepared statements from one transaction to the next, or take a setting at the start of a connection. The error's text says
	// what to change; docs/poolers.md has the whole table. Worker.Run, Drain and DrainTx look and return it; an enqueue returns it together
	// with the pooler's or Postgres's own error, such as 26000.
	ErrPooler = errors.New("a pooler stands in the way")

	// ErrWorkerRunning is returned by [Worker.Run] when that worker runs already.
	ErrWorkerRunning = errors.New("the worker is running already")

	// ErrTxOwned is returned by Commit and Rollback of a transaction that a transactional handler was given, and by its
	// job's CompleteTx: returning from the handler ends the transaction, together with the job.
	ErrTxOwned = errors.New("the transaction is ended by returning from the handler")
)

// ValidationError says which input was refused, before any SQL was sent: a transaction that the input was meant for is
// as good as before.
type ValidationError struct {
	// Field is the path of what was refused: "queue", "tags[2]", "payload.items[3].name", and with EnqueueMany
	// "jobs[7].key". Where the name of a JSON member is at fault, the path ends with it.
	Field string
	// Message says what is wrong with it, as the rest of a sentence that starts with Field. It quotes nothing of a
	// payload but what encoding/json says itself.
	Message string

	cause error
}

// Error is Field and Message.
func (e *ValidationError) Error() string {
	return e.Field + " " + e.Message
}

// Unwrap gives [ErrInvalid] and, where another package refused the input, that package's error.
func (e *ValidationError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrInvalid}
	}
	return []error{ErrInvalid, e.cause}
}

// invalid makes a ValidationError. It returns the concrete type, so that callers can prefix the field; it is never nil.
func invalid(field, message string) *ValidationError {
	return &ValidationError{Field: field, Message: message}
}
