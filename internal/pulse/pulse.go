// Package pulse lets a loop say that it lives, so that somebody else can tell whether it makes progress, waits for what does
// not answer, hangs, or has ended. The loops of runner and pgqueue use it; package health shows it.
package pulse

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// patience is how much longer than its limit a step of a loop may take before the loop counts as hung. It is generous: a
// process that gets no processor for a while must not be killed for it.
const patience = time.Minute

// Pulse is written by one loop, and by the calls that it makes beside, and read by anybody. The zero value is a loop that
// has not begun. Its lock is held for nothing but a few assignments.
type Pulse struct {
	mu     sync.Mutex
	limit  time.Duration // of one step
	began  bool
	ended  bool
	last   time.Time // progress
	trying time.Time // since when calls have brought no answer; zero: they do
	reason string    // of the latest failed call, while trying
	awake  time.Time // since when it is at one step; zero: it sleeps
	until  time.Time // it sleeps, at most; zero: until it is woken
	calls  int       // under way
	called time.Time // when the oldest of them began, or a later one of them
}

// Begin says that the loop begins. No step of it, a call included, should take longer than limit.
func (p *Pulse) Begin(limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.limit, p.began, p.ended = limit, true, false
	p.last, p.trying, p.reason = now, time.Time{}, ""
	p.awake, p.until, p.calls = now, time.Time{}, 0
}

// Beat says that the loop goes round once more. That is progress, unless calls bring no answer.
func (p *Pulse) Beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awake, p.until = time.Now(), time.Time{}
	if p.trying.IsZero() {
		p.last = p.awake
	}
}

// Rest says that the loop goes to sleep, until a time, or with zero until it is woken.
func (p *Pulse) Rest(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awake, p.until = time.Time{}, until
}

// Call says that a call begins which must be answered for the loop to make progress. Each needs a Done.
func (p *Pulse) Call() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.calls == 0 {
		p.called = now
	}
	p.calls++
	if p.trying.IsZero() {
		p.trying = now
	}
}

// Done says how a call ended.
func (p *Pulse) Done(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.calls--
	p.called = now // of those that are left nothing is known, but that they began before
	if err != nil {
		p.reason = Reason(err)
		return
	}
	p.last, p.trying, p.reason = now, time.Time{}, ""
}

// Answered says that a call ended well which is no progress by itself, such as a look whether the store can be reached: what
// could not be done is still not done.
func (p *Pulse) Answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls--
	p.called = time.Now()
}

// Excuse says that there is nothing left to try, although the last call failed.
func (p *Pulse) Excuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == 0 {
		p.trying, p.reason = time.Time{}, ""
	}
}

// End says that the loop has ended. It belongs into a defer, so that it is also said of a loop that ends as it should not.
func (p *Pulse) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// State is a loop at one moment.
type State struct {
	Began  bool      // it was begun
	Ended  bool      // and has ended
	Hung   bool      // it has been at one step far longer than any may take
	Last   time.Time // when it last made progress
	Trying time.Time // since when its calls have brought no answer; zero: they do, or there are none
	Reason string    // of the latest failed call, while that lasts; safe to show
}

// State tells how the loop is.
func (p *Pulse) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	late := func(since time.Time, limit time.Duration) bool {
		return !since.IsZero() && now.Sub(since) > limit+patience
	}
	return State{
		Began: p.began, Ended: p.ended,
		Hung: p.began && !p.ended && (late(p.awake, p.limit) || late(p.until, 0) || p.calls > 0 && late(p.called, p.limit)),
		Last: p.last, Trying: p.trying, Reason: p.reason,
	}
}

// Reason says why a call failed in words that hold no data and no address: the SQLSTATE of an error that the database
// sent, or what kind of error it is.
func Reason(err error) string {
	var fromServer interface{ SQLState() string }
	switch {
	case err == nil:
		return ""
	case errors.As(err, &fromServer):
		return "SQLSTATE " + fromServer.SQLState()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return fmt.Sprintf("failed with %T", err)
		}
		if t := fmt.Sprintf("%T", err); t != "*fmt.wrapError" && t != "*fmt.wrapErrors" {
			return "failed with " + t
		}
		err = inner
	}
}
