package listener_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pgqueue/pgqueue/listener"
)

func TestMain(m *testing.M) {
	// The server that pgqueuetest starts where none is named lives as long as the test binary.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/pgqueue/pgqueue/internal/pgserver.(*Server).supervise"))
}

// patience is how long a test waits for what must happen. It is reached only by a test that fails.
const patience = 30 * time.Second

const channel = "pgqueue"

// station is a listener under test whose every event can be waited for.
type station struct {
	*listener.Listener
	t        *testing.T
	hints    chan string   // calls of OnHint
	looks    chan struct{} // calls of OnConnect
	events   chan string   // "connected", "disconnected", "deaf"
	logs     *logBook      // what was logged
	coalesce chan string   // ListenerCoalesced
	ended    chan error    // the result of Run
	cancel   context.CancelFunc
	once     sync.Once
}

// newStation makes a listener, with changes to its configuration, and does not start it.
func newStation(t *testing.T, db *database, change func(config *listener.Config)) *station {
	t.Helper()
	s := &station{
		t:        t,
		hints:    make(chan string, 10000),
		looks:    make(chan struct{}, 10000),
		events:   make(chan string, 10000),
		coalesce: make(chan string, 10000),
		logs:     newLogBook(),
		ended:    make(chan error, 1),
	}
	config := listener.Config{
		Connect:      db.connect,
		Channel:      channel,
		Send:         db.send,
		OnHint:       func(queue string) { s.hints <- queue },
		OnConnect:    func() { s.looks <- struct{}{} },
		ReconnectMin: 10 * time.Millisecond,
		ReconnectMax: 100 * time.Millisecond,
		EchoTimeout:  patience, // a busy machine is not a deaf one
		Logger:       slog.New(s.logs),
		Observer:     s,
	}
	if change != nil {
		change(&config)
	}
	var err error
	if s.Listener, err = listener.New(config); err != nil {
		t.Fatal(err)
	}
	return s
}

// start runs the listener until stop or the end of the test.
func (s *station) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() { s.ended <- s.Run(ctx) }()
	s.t.Cleanup(s.stop)
}

// stop ends Run and requires that it ends well.
func (s *station) stop() {
	s.t.Helper()
	s.once.Do(func() {
		s.cancel()
		if err := receive(s.t, s.ended, "the end of Run"); err != nil {
			s.t.Errorf("Run: %v", err)
		}
	})
}

func (s *station) ListenerConnected()            { s.events <- "connected" }
func (s *station) ListenerDisconnected(error)    { s.events <- "disconnected" }
func (s *station) ListenerDeaf(time.Duration)    { s.events <- "deaf" }
func (s *station) ListenerCoalesced(name string) { s.coalesce <- name }

// expect waits for events in this order.
func (s *station) expect(events ...string) {
	s.t.Helper()
	for _, want := range events {
		if got := receive(s.t, s.events, want); got != want {
			s.t.Fatalf("event %q, want %q (last error: %s)", got, want, s.Status().LastError)
		}
	}
}

// receive waits for a value with patience.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case value := <-from:
		return value
	case <-timer.C:
		t.Fatalf("not within %s: %s", patience, what)
		panic("unreachable")
	}
}

// logBook is a slog.Handler that keeps what was logged and lets a test wait for a message.
type logBook struct {
	mu      sync.Mutex
	records []slog.Record
	more    chan struct{} // closed and replaced at each record
}

func newLogBook() *logBook { return &logBook{more: make(chan struct{})} }

func (b *logBook) Enabled(context.Context, slog.Level) bool { return true }
func (b *logBook) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b *logBook) WithGroup(string) slog.Handler            { return b }
func (b *logBook) Handle(_ context.Context, record slog.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records = append(b.records, record)
	close(b.more)
	b.more = make(chan struct{})
	return nil
}

// lines are the messages logged at level or above.
func (b *logBook) lines(level slog.Level) (messages []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, record := range b.records {
		if record.Level >= level {
			messages = append(messages, record.Message)
		}
	}
	return messages
}

// await waits until a message was logged count times.
func (b *logBook) await(t *testing.T, message string, count int) {
	t.Helper()
	for {
		b.mu.Lock()
		found, more := 0, b.more
		for _, record := range b.records {
			if record.Message == message {
				found++
			}
		}
		b.mu.Unlock()
		if found >= count {
			return
		}
		receive(t, more, "log line "+message)
	}
}
