package schedule

import (
	"errors"

	"github.com/pgqueue/pgqueue/pgqueue"
)

var (
	// ErrNoSchedule means that there is no schedule of that name.
	ErrNoSchedule = errors.New("there is no such schedule")

	// ErrNeedsProgram means that the arguments of a schedule are made by a Go function which this program does not have.
	ErrNeedsProgram = errors.New("its arguments are made by a Go function that this program does not have")

	// ErrSkip is returned by a [Schedule].ArgsFunc that wants no job for this tick. It is no failure.
	ErrSkip = errors.New("no job for this tick")

	// ErrRunning is returned by [Scheduler.Run] when that scheduler runs already.
	ErrRunning = errors.New("the scheduler is running already")
)

// ConfigError says what was refused before any SQL was sent. errors.Is(err, pgqueue.ErrInvalid) holds for it.
type ConfigError struct {
	// Field is the path of what was refused, such as "schedules[2].spec" or "poll".
	Field string
	// Message says what is wrong with it, as the rest of a sentence that starts with Field.
	Message string

	cause error
}

// Error is Field and Message.
func (e *ConfigError) Error() string { return e.Field + " " + e.Message }

// Unwrap gives [pgqueue.ErrInvalid] and, where package pgqueue refused the input, its error.
func (e *ConfigError) Unwrap() []error {
	if e.cause == nil {
		return []error{pgqueue.ErrInvalid}
	}
	return []error{pgqueue.ErrInvalid, e.cause}
}

func invalid(field, message string) *ConfigError { return &ConfigError{Field: field, Message: message} }
