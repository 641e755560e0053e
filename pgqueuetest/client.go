package pgqueuetest

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// Client makes a client over the database's pool and schema, which logs to the test's output and is closed when the test
// ends. The options come last and may say otherwise. A mistake in them ends the test.
func (db *DB) Client(t testing.TB, opts ...pgqueue.ClientOption) *pgqueue.Client {
	t.Helper()
	output := &testOutput{t: t}
	t.Cleanup(output.end) // runs after the clean-up below: what closing the client logs is still seen
	// At debug level, where the texts of handlers' errors are: nothing of a test is a secret.
	logger := slog.New(slog.NewTextHandler(output, &slog.HandlerOptions{Level: slog.LevelDebug}))
	all := append([]pgqueue.ClientOption{pgqueue.WithSchema(db.Schema), pgqueue.WithLogger(logger)}, opts...)
	client, err := pgqueue.NewClient(db.Pool, all...)
	if err != nil {
		t.Fatalf("pgqueuetest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if err := client.Close(ctx); err != nil {
			t.Logf("pgqueuetest: %v", err)
		}
	})
	return client
}

// testOutput writes to the output of a test until that ends. What comes later, from a worker that the test forgot, is
// dropped: the testing package would panic.
type testOutput struct {
	mutex sync.Mutex
	t     testing.TB // nil when the test has ended
}

func (o *testOutput) Write(text []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.t == nil {
		return len(text), nil
	}
	return o.t.Output().Write(text)
}

func (o *testOutput) end() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.t = nil
}
