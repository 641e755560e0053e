package schedule

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// logGate keeps what fails again and again from flooding the log: of each subject the first record is a warning, and then one a minute;
// of all together at most gateBurst a minute. What is between is at debug level, with the same attributes.
type logGate struct {
	mutex      sync.Mutex
	last       map[string]time.Time
	since      time.Time
	count      int
	suppressed int
}

const gateBurst = 60

func (g *logGate) log(ctx context.Context, logger *slog.Logger, subject, message string, attributes ...any) {
	level, suppressed := g.level(subject, time.Now())
	if suppressed > 0 {
		attributes = append(attributes, "suppressed", suppressed)
	}
	logger.Log(ctx, level, message, attributes...)
}

func (g *logGate) level(subject string, now time.Time) (level slog.Level, suppressed int) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.last == nil {
		g.last = map[string]time.Time{}
	}
	if now.Sub(g.since) >= time.Minute {
		g.since, g.count = now, 0
	}
	if last, ok := g.last[subject]; ok && now.Sub(last) < time.Minute {
		return slog.LevelDebug, 0
	}
	if g.count >= gateBurst {
		g.suppressed++
		return slog.LevelDebug, 0
	}
	g.count++
	g.last[subject] = now
	suppressed, g.suppressed = g.suppressed, 0
	return slog.LevelWarn, suppressed
}

// clear makes the next record of a subject a warning again.
func (g *logGate) clear(subject string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	delete(g.last, subject)
}

// complain logs a schedule that failed.
func (s *Scheduler) complain(ctx context.Context, name string, err error, retryIn time.Duration) {
	s.gate.log(ctx, s.config.Logger, "schedule "+name, "schedule: a tick could not be enqueued", "schedule", name, "error", safeText(err), "retry_in", retryIn)
	s.config.Logger.DebugContext(ctx, "schedule: text of an error", "schedule", name, "error", err)
}
