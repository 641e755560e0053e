package runner

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// What a runner logs is bounded, because a dependency that is down makes every task fail, and a database that is down every
// lease end: of one message logBurst at once, and then one each logEvery. The next one that is logged says how many were
// not. Debug messages are not bounded: who asked for them wants them.
const (
	logBurst = 60
	logEvery = time.Second
)

// boundedLogger returns a logger that bounds what goes to the given one.
func boundedLogger(log *slog.Logger) *slog.Logger {
	return slog.New(&boundedHandler{next: log.Handler(), bounds: &logBounds{of: map[string]*logBound{}}})
}

// boundedHandler drops records that come too thick. Messages are constants, so there are few of them.
type boundedHandler struct {
	next   slog.Handler
	bounds *logBounds
}

// logBounds is shared by a handler and what is derived from it.
type logBounds struct {
	mu sync.Mutex
	of map[string]*logBound // by message
}

// logBound is a token bucket.
type logBound struct {
	left    int
	filled  time.Time
	dropped int // since the last that was let through
}

// Enabled implements [slog.Handler].
func (h *boundedHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (h *boundedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &boundedHandler{h.next.WithAttrs(attrs), h.bounds}
}

// WithGroup implements [slog.Handler].
func (h *boundedHandler) WithGroup(name string) slog.Handler {
	return &boundedHandler{h.next.WithGroup(name), h.bounds}
}

// Handle implements [slog.Handler].
func (h *boundedHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelInfo {
		ok, dropped := h.bounds.take(record.Message, time.Now())
		if !ok {
			return nil
		}
		if dropped > 0 {
			record = record.Clone()
			record.AddAttrs(slog.Int("suppressed", dropped))
		}
	}
	return h.next.Handle(ctx, record)
}

// take says whether a message may be logged now, and how many of it were not.
func (b *logBounds) take(message string, now time.Time) (ok bool, dropped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bound := b.of[message]
	if bound == nil {
		bound = &logBound{left: logBurst, filled: now}
		b.of[message] = bound
	}
	if refill := int(now.Sub(bound.filled) / logEvery); refill > 0 {
		bound.left = min(bound.left+refill, logBurst)
		bound.filled = now
	}
	if bound.left == 0 {
		bound.dropped++
		return false, 0
	}
	bound.left--
	dropped, bound.dropped = bound.dropped, 0
	return true, dropped
}

// outageRepeat is how often an outage that goes on is logged again.
const outageRepeat = time.Minute

// outageLog decides how loud the failures of one kind of call are. The first of a row is a warning, and then one a minute;
// those between are for debugging. The first success afterwards is worth a line.
type outageLog struct {
	mu       sync.Mutex
	failures int
	warned   time.Time
}

// level is that of a failure which has just happened.
func (o *outageLog) level() slog.Level {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	o.failures++
	if o.failures > 1 && now.Sub(o.warned) < outageRepeat {
		return slog.LevelDebug
	}
	o.warned = now
	return slog.LevelWarn
}

// over notes a success, and answers with the number of failures before it.
func (o *outageLog) over() (failures int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	failures, o.failures = o.failures, 0
	return failures
}

// outageLogs are those of a session.
type outageLogs struct {
	claim, renew, report, due outageLog
}
