package metrics_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// The SQL of the page can be pasted as it stands.
func TestTheSQLOfTheTracingPageRuns(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	blocks := strings.Split(readFile(t, "../docs/tracing.md"), "```sql\n")[1:]
	if len(blocks) < 4 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for _, block := range blocks {
		sql, _, _ := strings.Cut(block, "```")
		exec(t, db.Pool, sql)
	}
	exec(t, db.Pool, `CREATE TABLE documents (id int); CREATE TRIGGER later AFTER INSERT ON documents FOR EACH ROW EXECUTE FUNCTION reindex_later()`)
	exec(t, db.Pool, `SELECT set_config('myapp.traceparent', 'x', true); INSERT INTO documents VALUES (7)`)
	var kept string
	if err := db.Pool.QueryRow(t.Context(), `SELECT metadata ->> 'traceparent' FROM pgqueue.jobs WHERE kind = 'reindex' AND payload = '{"id": 7}'`).Scan(&kept); err != nil || kept != "x" {
		t.Errorf("%q, %v", kept, err)
	}
}

// The Go of the page gives the metrics themselves as an observer: they have no method for it.
func TestTheGoOfTheTracingPageNamesWhatExists(t *testing.T) {
	t.Parallel()
	text := readFile(t, "../docs/tracing.md")
	observers := regexp.MustCompile(`pgqueue\.Observers\(([^)\n]*)\)`).FindStringSubmatch(text)
	if observers == nil || observers[1] != "tracing, prometheus" {
		t.Errorf("the page has %q", observers)
	}
	var tracing *metrics.Tracing
	var prometheus *metrics.Prometheus
	_ = pgqueue.WorkerConfig{Observer: pgqueue.Observers(tracing, prometheus)}
}
