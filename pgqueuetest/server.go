package pgqueuetest

import (
	"context"
	"testing"

	"github.com/pgqueue/pgqueue/internal/pgserver"
)

// ServerOption changes the server that NewServer starts.
type ServerOption func(*pgserver.Options)

// WithDurability makes the server flush what it commits, as in production. Without it, commits are much faster and survive
// everything but a crash of the machine.
func WithDurability() ServerOption {
	return func(o *pgserver.Options) { o.Fsync = true }
}

// WithSetting sets a server setting, as in postgresql.conf.
func WithSetting(name, value string) ServerOption {
	return func(o *pgserver.Options) {
		if o.Settings == nil {
			o.Settings = map[string]string{}
		}
		o.Settings[name] = value
	}
}

// WithPostgresVersion asks for a major version, such as 14. The default is any, or the one that PGQUEUE_POSTGRES_VERSION names.
func WithPostgresVersion(major int) ServerOption {
	return func(o *pgserver.Options) { o.Version = major }
}

// Server is a server that belongs to one test, which may break it. Its methods may be called from several goroutines.
type Server struct {
	server *pgserver.Server
	source *source
}

// NewServer starts a server for this test alone, and ends it with the test. It always runs here, from binaries of this machine
// or of npm, also when PGQUEUE_TEST_DATABASE_URL names a server: that one is not the test's to break. Like New it must be called
// from the test's own goroutine.
func NewServer(t testing.TB, opts ...ServerOption) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	var o pgserver.Options
	for _, opt := range opts {
		opt(&o)
	}
	server, err := pgserver.Start(ctx, o)
	if err != nil {
		t.Fatalf("pgqueuetest: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", tail(server.Log(), 8<<10))
		}
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Errorf("pgqueuetest: %v", err)
		}
	})
	from, err := newSource(ctx, server.URL("postgres"))
	if err != nil {
		t.Fatalf("pgqueuetest: %v", err)
	}
	from.passing = true
	return &Server{server: server, source: from}
}

// tail returns the last n bytes of text.
func tail(text string, n int) string { return text[max(0, len(text)-n):] }

// DB makes a database on this server, as New does on the shared one. The server must be up. At the end of the test the pool is
// closed; the database goes with the server.
func (s *Server) DB(t testing.TB, opts ...Option) *DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	return newDB(ctx, t, s.source, newOptions(opts))
}

// URL returns the connection string of the database "postgres" as the superuser. It stays the same across Restart.
func (s *Server) URL() string { return s.server.URL("postgres") }

// Restart ends the server and starts it on the same port and with the same data; it returns when the server takes connections.
// With immediate it ends as in a crash, and recovers.
func (s *Server) Restart(ctx context.Context, immediate bool) error {
	return s.server.Restart(ctx, immediate)
}

// Halt ends the server and leaves it down until Resume. With immediate it ends as in a crash.
func (s *Server) Halt(ctx context.Context, immediate bool) error {
	return s.server.Halt(ctx, immediate)
}

// Resume starts a server that was halted or killed, on the same port.
func (s *Server) Resume(ctx context.Context) error { return s.server.Resume(ctx) }

// PID is the process id of the server's first process.
func (s *Server) PID() int { return s.server.PID() }

// Log returns what the server has written to its log.
func (s *Server) Log() string { return s.server.Log() }
