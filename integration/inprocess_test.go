package integration

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// noteJob is the job of workers inside the test's process: they tell its number.
type noteJob struct {
	N int
}

func (noteJob) Kind() string { return "note" }

// noted is a noteJob that has run.
type noted struct {
	N       int
	Queue   string
	Attempt int
}

// newNotes makes handlers that send what they run to the returned channel.
func newNotes() (*pgqueue.Mux, <-chan noted) {
	mux, ran := pgqueue.NewMux(), make(chan noted, 10_000)
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[noteJob]) error {
		ran <- noted{job.Args.N, job.Queue, job.Attempt}
		return nil
	})
	return mux, ran
}

// serving is a worker inside the test's process.
type serving struct {
	*pgqueue.Worker
	stop func() // and requires that Run returned nil; at the end of the test at the latest
}

// serve runs a worker.
func serve(t *testing.T, client *pgqueue.Client, mux *pgqueue.Mux, config pgqueue.WorkerConfig) *serving {
	t.Helper()
	worker, err := client.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- worker.Run(ctx) }()
	s := &serving{Worker: worker, stop: sync.OnceFunc(func() {
		t.Helper()
		cancel()
		if err := receive(t, result, "the end of Run"); err != nil {
			t.Errorf("Run: %v", err)
		}
	})}
	t.Cleanup(s.stop)
	return s
}

// listenerEvents is an observer of the listener, and of the claims of all queues.
type listenerEvents struct {
	connected    chan struct{}
	disconnected chan error
	claims       chan struct{}
}

func newListenerEvents() *listenerEvents {
	return &listenerEvents{make(chan struct{}, 10_000), make(chan error, 10_000), make(chan struct{}, 100_000)}
}

// ClaimDone implements runner.ClaimObserver.
func (l *listenerEvents) ClaimDone(runner.ClaimEvent) { l.claims <- struct{}{} }

func (l *listenerEvents) ListenerConnected()               { l.connected <- struct{}{} }
func (l *listenerEvents) ListenerDisconnected(cause error) { l.disconnected <- cause }

// logBook is a slog.Handler that keeps what is logged at Warn and above.
type logBook struct {
	mu       sync.Mutex
	messages []string
	more     chan struct{} // closed and replaced at each message
}

func newLogBook() *logBook { return &logBook{more: make(chan struct{})} }

func (b *logBook) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (b *logBook) WithAttrs([]slog.Attr) slog.Handler               { return b }
func (b *logBook) WithGroup(string) slog.Handler                    { return b }
func (b *logBook) Handle(_ context.Context, record slog.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = append(b.messages, record.Message)
	close(b.more)
	b.more = make(chan struct{})
	return nil
}

// all returns the messages so far.
func (b *logBook) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.messages...)
}

// await waits for a message.
func (b *logBook) await(t *testing.T, message string) {
	t.Helper()
	for {
		b.mu.Lock()
		more, found := b.more, false
		for _, m := range b.messages {
			found = found || m == message
		}
		b.mu.Unlock()
		if found {
			return
		}
		receive(t, more, "the log says: "+message)
	}
}

// directly connects a worker's listener past the pooler that the databases are behind in make test-poolers. Without one it is nil: the
// worker connects as it does by default.
func (s *service) directly() func(context.Context) (*pgx.Conn, error) {
	if s.db.DirectURL == s.db.URL {
		return nil
	}
	return func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, s.db.DirectURL) }
}

// listeners returns the backends of the database that listen to hints.
func (s *service) listeners() []int32 {
	s.t.Helper()
	return column[int32](s.t, s.pool, `SELECT pid FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND query ILIKE 'LISTEN %'`)
}

// awaitListener waits until exactly one backend listens, and it is another one than the given.
func (s *service) awaitListener(other int32) int32 {
	s.t.Helper()
	return until(s.t, "one new listener", s.listeners, func(pids []int32) bool {
		return len(pids) == 1 && pids[0] != other
	})[0]
}

// terminate ends a backend.
func (s *service) terminate(pid int32) {
	s.t.Helper()
	if !one[bool](s.t, s.pool, "SELECT pg_terminate_backend($1)", pid) {
		s.t.Fatalf("backend %d was gone already", pid)
	}
}

// note enqueues a noteJob with a client that is not the worker's, in a transaction of its own.
func note(t *testing.T, client *pgqueue.Client, q interface {
	Begin(context.Context) (pgx.Tx, error)
}, n int, options ...pgqueue.EnqueueOption) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := pgx.BeginFunc(ctx, q, func(tx pgx.Tx) error {
		_, err := client.Enqueue(ctx, tx, noteJob{n}, options...)
		return err
	})
	if err != nil {
		t.Fatalf("enqueue: %v", err)
	}
}
