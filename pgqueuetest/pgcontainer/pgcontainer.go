package pgcontainer

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// EnvImage is the environment variable that names the image which [New] runs. Default: [DefaultImage].
const EnvImage = "PGQUEUE_TEST_IMAGE"

const startTimeout = 10 * time.Minute // pulling the image included

// shared is the one value of this package that belongs to the process and not to a test: a container must outlive the test
// that started it, and a process needs only one. Testcontainers' reaper removes it when the process has ended.
//
//nolint:gochecknoglobals // see above
var shared = sync.OnceValues(func() (*pgqueuetest.Existing, error) {
	// Not a test's context: the other tests want the server too.
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	container, err := Start(ctx, Options{Image: os.Getenv(EnvImage)})
	if err != nil {
		return nil, err
	}
	return pgqueuetest.Use(ctx, container.URL())
})

// New gives the test a migrated database of its own in a container, and drops it when the test ends. The first call of a process
// starts the container. It must be called from the test's own goroutine, since it ends the test when there is no engine
// or no image; parallel tests may call it. The options are those of pgqueuetest.New.
//
// Without testcontainers' reaper (TESTCONTAINERS_RYUK_DISABLED) nothing removes the container at the end: use [Start] and
// [Container.Terminate] in TestMain, and pgqueuetest.Use, instead.
func New(t testing.TB, opts ...pgqueuetest.Option) *pgqueuetest.DB {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return server.DB(t, opts...)
}
