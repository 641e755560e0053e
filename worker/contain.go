package worker

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// errGoexit is how a call ends that neither returns nor panics. (Under GODEBUG=panicnil=1 a panic with nil looks the same.)
var errGoexit = errors.New("runtime.Goexit was called")

// panicError is a panic that was contained.
type panicError struct {
	value any
	stack string
}

// goexitError is a call of runtime.Goexit that was contained.
type goexitError struct{ stack string }

// Error is always the same.
func (e *goexitError) Error() string { return errGoexit.Error() }

// stackOf is the stack of a call that did not return; empty if it did.
func stackOf(err error) string {
	var panicked *panicError
	var left *goexitError
	switch {
	case errors.As(err, &panicked):
		return panicked.stack
	case errors.As(err, &left):
		return left.stack
	}
	return ""
}

// Error describes the value. Sprint survives values whose own methods panic.
func (e *panicError) Error() string { return "panic: " + fmt.Sprint(e.value) }

// attempt runs f and, however f ends, tells done once how: done gets f's error, or one that describes a panic or Goexit.
// After a Goexit it does not return, so the caller's duties belong into deferred functions.
func attempt(f func() error, done func(error)) {
	err := errGoexit
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value: value, stack: string(debug.Stack())}
		} else if err == errGoexit { // deferred functions run on top of the stack that is ending
			err = &goexitError{string(debug.Stack())}
		}
		done(err)
	}()
	err = readable(f())
}

// readable makes sure, while panics are still contained, that the error can be read: Error methods panic too, of a nil
// pointer in a non-nil error most of all.
func readable(err error) error {
	if err != nil {
		_ = err.Error()
	}
	return err
}
