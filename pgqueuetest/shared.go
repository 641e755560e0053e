package pgqueuetest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/pgqueue/pgqueue/internal/pgserver"
)

// sharedSource returns the source that all tests of this process share. It is the one value of this package that
// belongs to the process and not to a test: a server must outlive the test that started it, and a process needs only one.
// A server started here is not stopped by anybody; it ends with the process.
//
//nolint:gochecknoglobals // see above
var sharedSource = sync.OnceValues(func() (*source, error) {
	// Not a test's context: the other tests want the server too.
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	if named := os.Getenv(EnvDatabaseURL); named != "" {
		from, err := newPooledSource(ctx, named, cmp.Or(os.Getenv(EnvDirectURL), named))
		if err != nil {
			return nil, fmt.Errorf("the server that %s names: %w", EnvDatabaseURL, err)
		}
		// A server of somebody's own stays, so that what dead processes left on it has to go.
		if err := from.claim(ctx); err != nil {
			return nil, fmt.Errorf("the server that %s names: %w", EnvDatabaseURL, err)
		}
		return from, nil
	}
	server, err := pgserver.Start(ctx, pgserver.Options{})
	if err != nil {
		return nil, fmt.Errorf("%w; or set %s to the URL of a server", err, EnvDatabaseURL)
	}
	return newSource(ctx, server.URL("postgres"))
})
