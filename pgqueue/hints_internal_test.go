package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// fakeTx is a transaction that can only be recognised.
type fakeTx struct {
	pgx.Tx
	_ int
}

// manualClock stands until it is moved.
type manualClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newTestHinter(t *testing.T, window time.Duration, send func(context.Context, []string) error) (*hinter, *manualClock) {
	t.Helper()
	clock := &manualClock{now: time.Unix(1_000_000, 0)}
	h := newHinter(window, slog.Default(), send)
	h.now = clock.Now
	return h, clock
}

func TestHintBucket(t *testing.T) {
	t.Parallel()
	h, clock := newTestHinter(t, time.Second, nil)
	allowed := func(n int) (yes int) {
		for range n {
			if h.allow("q", &fakeTx{}) {
				yes++
			}
		}
		return yes
	}
	if got := allowed(50); got != hintBurst {
		t.Fatalf("%d of 50 at once, want %d", got, hintBurst)
	}
	clock.Advance(time.Second)
	if got := allowed(50); got != 1 {
		t.Fatalf("%d after one window, want 1", got)
	}
	if !h.allow("other", &fakeTx{}) {
		t.Fatal("queues share a bucket")
	}
	clock.Advance(time.Hour)
	if got := allowed(50); got != hintBurst {
		t.Fatalf("%d after an hour, want %d", got, hintBurst)
	}
}

// Within one transaction nothing is held back; a transaction of a savepoint is another one.
func TestHintsOfOneTransaction(t *testing.T) {
	t.Parallel()
	h, _ := newTestHinter(t, time.Second, nil)
	tx, sub := &fakeTx{}, &fakeTx{}
	for i := range 1000 {
		if !h.allow("q", tx) {
			t.Fatalf("hint %d of one transaction was held back", i)
		}
	}
	for range hintBurst - 1 {
		if !h.allow("q", &fakeTx{}) {
			t.Fatal("one transaction used up the burst")
		}
	}
	if h.allow("q", sub) {
		t.Fatal("the bucket gave more than the burst")
	}
}

// receive fails the test where a hint does not come.
func receive(t *testing.T, sent <-chan []string) []string {
	t.Helper()
	select {
	case queues := <-sent:
		return queues
	case <-time.After(time.Minute):
		t.Fatal("no trailing hint came")
		return nil
	}
}

// What is held back is announced at the end of the window and once more.
func TestTrailingHints(t *testing.T) {
	t.Parallel()
	sent := make(chan []string)
	h, clock := newTestHinter(t, 20*time.Millisecond, func(_ context.Context, queues []string) error {
		sent <- queues
		return nil
	})
	h.hold("q")
	h.hold("q")
	if queues, wait := h.take(); len(queues) != 0 || wait != 20*time.Millisecond {
		t.Fatalf("%q due at once, the next in %s", queues, wait)
	}
	for range 2 {
		clock.Advance(20 * time.Millisecond)
		if queues := receive(t, sent); len(queues) != 1 || queues[0] != "q" {
			t.Fatalf("hints of %q", queues)
		}
	}
	<-h.done // nothing is pending: the goroutine ends, and there is no third
	h.hold("r")
	clock.Advance(time.Second)
	receive(t, sent)
	h.hold("r") // is followed by two again
	for range 2 {
		clock.Advance(time.Second)
		receive(t, sent)
	}
	if err := h.close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// close sends at once what is pending, ends the goroutine and may be called again.
func TestHinterClose(t *testing.T) {
	t.Parallel()
	var sent []string
	h, _ := newTestHinter(t, time.Minute, func(_ context.Context, queues []string) error {
		sent = append(sent, queues...)
		return errors.New("the database is away") // which is nobody's problem
	})
	if err := h.close(context.Background()); err != nil {
		t.Fatal(err)
	}
	h, _ = newTestHinter(t, time.Minute, h.send)
	h.hold("a")
	for range 2 {
		if err := h.close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Join(sent, ",") != "a" {
		t.Fatalf("sent %q, want one hint of a", sent)
	}
	h.hold("a")
	if h.running {
		t.Fatal("a closed hinter started again")
	}

	release := make(chan struct{})
	h, _ = newTestHinter(t, time.Minute, func(context.Context, []string) error { <-release; return nil })
	h.hold("a")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := h.close(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want the context's", err)
	}
	close(release)
	<-h.done
}

// Names made up at run time do not pile up.
func TestHinterForgets(t *testing.T) {
	t.Parallel()
	h, clock := newTestHinter(t, time.Second, nil)
	for i := range 10 * maxIdleQueues {
		h.allow(fmt.Sprint(i), &fakeTx{})
		clock.Advance(time.Second)
	}
	if n := len(h.queues); n > maxIdleQueues {
		t.Fatalf("%d queues are remembered", n)
	}
}
