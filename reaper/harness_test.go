package reaper_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgqueue/pgqueue/reaper"
)

// store is a target whose answers a test writes, and which remembers when it was asked. Times are those of the bubble.
type store struct {
	mu        sync.Mutex
	recovers  []time.Time
	pings     []time.Time
	maintains []time.Time
	limits    []int

	recover  func(ctx context.Context, limit int) (reaper.Recovered, error)
	ping     func(ctx context.Context) error
	maintain func(ctx context.Context) error
}

func (s *store) Recover(ctx context.Context, limit int) (reaper.Recovered, error) {
	s.mu.Lock()
	s.recovers = append(s.recovers, time.Now())
	s.limits = append(s.limits, limit)
	answer := s.recover
	s.mu.Unlock()
	if answer == nil {
		return reaper.Recovered{}, nil
	}
	return answer(ctx, limit)
}

func (s *store) Maintain(ctx context.Context) error {
	s.mu.Lock()
	s.maintains = append(s.maintains, time.Now())
	answer := s.maintain
	s.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(ctx)
}

// times returns copies, so that a test can look while the reaper runs.
func (s *store) times() (recovers, pings, maintains []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.recovers...), append([]time.Time(nil), s.pings...),
		append([]time.Time(nil), s.maintains...)
}

// pinged is a store that can also be pinged.
type pinged struct{ *store }

func (s pinged) Ping(ctx context.Context) error {
	s.mu.Lock()
	s.pings = append(s.pings, time.Now())
	answer := s.ping
	s.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(ctx)
}

// bubble runs a test in virtual time; at its end no goroutine may be left.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// newReaper makes a reaper that logs into the returned text.
func newReaper(t *testing.T, config reaper.Config, targets ...reaper.Target) (*reaper.Reaper, *logText) {
	t.Helper()
	text := &logText{}
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(text, nil))
	}
	r, err := reaper.New(targets, config)
	if err != nil {
		t.Fatal(err)
	}
	return r, text
}

// runFor runs a reaper for a stretch of virtual time and requires that it ends well.
func runFor(t *testing.T, r *reaper.Reaper, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := r.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// logText collects a log.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

var _ io.Writer = (*logText)(nil)

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}
