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

// pace is the level of the next record about a subject.
func (g *logGate) pace(subject string) slog.Level {
	level, _ := g.level(subject, time.Now())
	return level
}

// level is pace, and how many warnings were held back since the last one.
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
	level, suppressed := s.gate.level("schedule "+name, time.Now())
	s.config.Logger.Log(ctx, level, "schedule: a tick could not be enqueued",
		"schedule", name, "error", safeText(err), "retry_in", retryIn, "suppressed", suppressed)
	s.config.Logger.DebugContext(ctx, "schedule: text of an error", "schedule", name, "error", err)
}
