package runner

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// notebook is a slog.Handler that keeps what was logged.
type notebook struct {
	level slog.Level
	mu    sync.Mutex
	lines []slog.Record
	attrs []slog.Attr // of With; one set, which is enough here
}

func (n *notebook) Enabled(_ context.Context, level slog.Level) bool { return level >= n.level }
func (n *notebook) WithGroup(string) slog.Handler                    { return n }
func (n *notebook) WithAttrs(attrs []slog.Attr) slog.Handler {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.attrs = append(n.attrs, attrs...)
	return n
}

func (n *notebook) Handle(_ context.Context, record slog.Record) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, record)
	return nil
}

// count counts the records of a message at a level.
func (n *notebook) count(level slog.Level, message string) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, record := range n.lines {
		if record.Level == level && record.Message == message {
			count++
		}
	}
	return count
}

// attr returns an attribute of the latest record of a message.
func (n *notebook) attr(message, name string) (value string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, record := range n.lines {
		if record.Message == message {
			value = ""
			record.Attrs(func(attr slog.Attr) bool {
				if attr.Key == name {
					value = attr.Value.String()
				}
				return true
			})
		}
	}
	return value
}

func TestAStormIsLoggedWithinABound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := &notebook{level: slog.LevelDebug}
		log := boundedLogger(slog.New(book)).With("queue", "mail")
		for range 1000 {
			log.Warn("storm")
			log.Debug("detail")
		}
		log.Info("calm")
		if n := book.count(slog.LevelWarn, "storm"); n != logBurst {
			t.Errorf("%d warnings, want %d", n, logBurst)
		}
		if n := book.count(slog.LevelDebug, "detail"); n != 1000 {
			t.Errorf("%d debug records, want all", n)
		}
		if n := book.count(slog.LevelInfo, "calm"); n != 1 {
			t.Error("another message was dropped too")
		}
		time.Sleep(logEvery)
		log.Warn("storm")
		log.Warn("storm")
		if n := book.count(slog.LevelWarn, "storm"); n != logBurst+1 {
			t.Errorf("%d warnings a second later, want one more", n)
		}
		if dropped := book.attr("storm", "suppressed"); dropped != "940" {
			t.Errorf("suppressed %q, want 940", dropped)
		}
		time.Sleep(time.Hour)
		for range 1000 {
			log.Warn("storm")
		}
		if n := book.count(slog.LevelWarn, "storm"); n != 2*logBurst+1 {
			t.Errorf("%d warnings an hour later, want %d", n, 2*logBurst+1)
		}
	})
}

// The store is down for ten minutes: the log says so once a minute, and when it is over.
func TestAnOutageIsNoFloodOfWarnings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := &notebook{level: slog.LevelDebug}
		f := newFake(0)
		var up atomic.Bool
		f.beforeClaim = func(ClaimRequest) error {
			if !up.Load() {
				return errors.New("no route to host")
			}
			return nil
		}
		start(t, renewing{f}, handle(noop), Config{Name: "mail", Logger: slog.New(book)})
		time.Sleep(10 * time.Minute)
		up.Store(true)
		time.Sleep(time.Minute)
		warnings, details := book.count(slog.LevelWarn, "runner: claim failed"), book.count(slog.LevelDebug, "runner: claim failed")
		if warnings < 8 || warnings > 11 || details < warnings {
			t.Errorf("%d warnings and %d details of an outage of ten minutes, want one a minute and many", warnings, details)
		}
		if n := book.count(slog.LevelInfo, "runner: claims work again"); n != 1 {
			t.Errorf("%d times told that it is over, want once", n)
		}
		if len(book.attrs) == 0 || book.attrs[0].String() != "queue=mail" {
			t.Errorf("attributes %v, want the queue", book.attrs)
		}
	})
}

func TestTextsOfErrorsAreForDebugging(t *testing.T) {
	t.Parallel()
	const text = "the password is swordfish"
	for _, store := range []bool{false, true} {
		book := &notebook{level: slog.LevelDebug}
		synctest.Test(t, func(t *testing.T) {
			start(t, renewing{newFake(2)}, handle(func(_ context.Context, task *Task[int]) error {
				if task.Payload == 1 {
					panic(text)
				}
				return Permanent(Coded("bad", errors.New(text)))
			}), Config{Logger: slog.New(book), StoreErrorText: store, Backoff: Exponential{Base: time.Hour, Max: time.Hour}})
			time.Sleep(time.Second)
		})
		loud, quiet := 0, 0
		for _, record := range book.lines {
			said := record.Message
			record.Attrs(func(attr slog.Attr) bool { said += " " + attr.String(); return true })
			if !strings.Contains(said, text) {
				continue
			}
			if record.Level > slog.LevelDebug {
				loud++
			} else {
				quiet++
			}
		}
		if store && (loud != 2 || quiet != 0) || !store && (loud != 0 || quiet != 2) {
			t.Errorf("StoreErrorText %t: the text is in %d records that are loud and %d for debugging", store, loud, quiet)
		}
		if code := book.attr("runner: attempt failed", "code"); code != "bad" {
			t.Errorf("code %q, want bad", code)
		}
	}
}
