package runner

import (
	"context"
	"log/slog"
	"runtime/debug"
)

// What an application's error or panic says may hold a password or a name. It is logged where it is stored too, which
// [Config].StoreErrorText decides; otherwise for debugging only, in a record of its own.

// logFailure tells an operator about an attempt that failed, with the code and the message that are stored.
func (s *session[P, R]) logFailure(e *entry[P, R]) {
	f := e.verdict.Failure
	if f == nil {
		return
	}
	attrs := []any{"task", e.task.Token.String(), "kind", e.task.Kind, "attempt", e.task.Attempt, "code", f.Code, "message", f.Message}
	switch e.verdict.Decision {
	case Cancel:
		s.cfg.Logger.Info("runner: task cancelled by its handler", attrs...)
	case Fail:
		s.cfg.Logger.Warn("runner: attempt failed", append(attrs, "retry", "never")...)
	default:
		s.cfg.Logger.Warn("runner: attempt failed", append(attrs, "retry_in", e.verdict.Delay)...)
	}
	if e.err != nil && !s.cfg.StoreErrorText && s.cfg.Logger.Enabled(context.Background(), slog.LevelDebug) {
		s.cfg.Logger.Debug("runner: text of an error", "task", e.task.Token.String(), "attempt", e.task.Attempt, "error", textOf(e.err))
	}
}

// logPanic tells an operator where a handler panicked. tasks is how many it was given.
func (s *session[P, R]) logPanic(e *entry[P, R], c *crash, tasks int) {
	attrs := []any{"task", e.task.Token.String(), "tasks", tasks, "kind", e.task.Kind, "attempt", e.task.Attempt,
		"type", c.kind, "at", c.site, "stack", string(debug.Stack())}
	if s.cfg.StoreErrorText {
		attrs = append(attrs, "panic", c.text)
	}
	s.cfg.Logger.Error("runner: handler panicked", attrs...)
	if !s.cfg.StoreErrorText {
		s.cfg.Logger.Debug("runner: text of a panic", "task", e.task.Token.String(), "attempt", e.task.Attempt, "panic", c.text)
	}
}

// logGoexit tells an operator of a handler that ended its goroutine, as the methods of testing.T do that end a test.
func (s *session[P, R]) logGoexit(e *entry[P, R], tasks int) {
	s.cfg.Logger.Error("runner: handler called runtime.Goexit", "task", e.task.Token.String(), "tasks", tasks, "kind", e.task.Kind,
		"attempt", e.task.Attempt)
}
