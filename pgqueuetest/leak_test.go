package pgqueuetest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// As the package comment says. Not parallel: other tests have goroutines too.
func TestLeakDetectorWithTheDocumentedException(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreAnyFunction("github.com/pgqueue/pgqueue/internal/pgserver.(*Server).supervise"))
	t.Run("x", func(t *testing.T) { pgqueuetest.New(t) })
}
