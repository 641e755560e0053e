package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// eachNamed does something to one thing after the other: to queues, to schedules. All names are checked before the first, so that a
// typing error in the third leaves the first two alone. One that is not there, or is in another state, is told on standard error and
// holds up no other; whatever would meet the next one, too, ends it. The exit code is as for several jobs, see eachJob.
func (a *app) eachNamed(ctx context.Context, what string, names []string, check, do func(name string) error) error {
	var once []string
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	for _, name := range once {
		if err := check(name); err != nil {
			return err
		}
	}
	failures := map[int]int{}
	for _, name := range once {
		err := do(name)
		if err == nil {
			continue
		}
		code := a.codeOf(ctx, err)
		if len(once) == 1 || ctx.Err() != nil || !aboutOneJob(code) {
			return err
		}
		failures[code]++
		if err := a.writeProblem(map[string]any{what: name}, err, code); err != nil {
			return err
		}
	}
	return eachCode(failures, len(once))
}

// eachCode is the error of several that were done or refused one by one; what there was to say is written. It has the code of their
// errors if all have failed alike, and else says that it was done in part.
func eachCode(failures map[int]int, all int) error {
	if len(failures) == 0 {
		return nil
	}
	for code, n := range failures {
		if n == all {
			return &exitError{code: code}
		}
	}
	return &exitError{code: exitPartial}
}

// writeProblem says on standard error why one of several was refused; as JSON it is a line like that of an error that ends a command, and
// names what it is about.
func (a *app) writeProblem(about map[string]any, err error, code int) error {
	if !a.flags.json {
		a.notef("%s", block(a.secrets.hide(err.Error())))
		return nil
	}
	about["error"], about["code"], about["exit_code"] = a.secrets.hide(err.Error()), exitName(code), code
	return writeLine(a.err, about)
}

// queueName checks the name of a queue as the library does, without the database.
func queueName(s *session, queue string) error {
	_, err := s.client.Resolve(pgqueue.NewJob{Args: pgqueue.Raw{Name: "kind"}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue(queue)}})
	return err
}

// writeDone says what was done: a line of JSON, or a sentence.
func (a *app) writeDone(value any, format string, args ...any) error {
	sentence := fmt.Sprintf(format, args...)
	if a.flags.json {
		return answered(a.writeJSON(value), strings.TrimSuffix(sentence, "\n"))
	}
	return answered(a.printf("%s", sentence), strings.TrimSuffix(sentence, "\n"))
}

// answered is the error of an answer that could not be written, as to a full disk: it says that it was done all the same, so that nobody
// does it again.
func answered(err error, done string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s, but writing the answer failed: %w", done, err)
}
