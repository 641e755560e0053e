package jobstore_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// Upkeep that cannot delete unique keys, because the function is not there or may not be called, says so once and has not failed.
func TestUpkeepWithoutUniqueKeysIsToldOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	var log bytes.Buffer
	queue := f.newQueue(func(_ *pgxpool.Config, config *jobstore.QueueConfig) {
		config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	f.exec(`ALTER FUNCTION %s.expire_unique_keys(int) RENAME TO elsewhere`)
	for range 3 {
		if err := queue.Maintain(f.ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "expired unique keys are not deleted"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
}
