package integration

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is where a child process turns off: it has the variable of startChild in its environment and runs the worker
// program instead of tests.
func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(programVariable); ok {
		os.Exit(runProgram(text))
	}
	// The server that pgqueuetest starts where none is named lives as long as the test binary.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/pgqueue/pgqueue/internal/pgserver.(*Server).supervise"))
}

// full says that the sizes of the failure cases are wanted, not those of everyday.
func full() bool { return os.Getenv("PGQUEUE_TEST_FULL") != "" }
