package doctor

import (
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func TestWhatIsOpenToEverybody(t *testing.T) {
	t.Parallel()
	runAll(t, []provocation{
		{check: "open-to-all", name: "jobs", subject: "table jobs", do: []string{`GRANT ALL ON {s}.jobs TO PUBLIC`}},
		{check: "open-to-all", name: "history to read", subject: "table history", severity: Warning, do: []string{`GRANT SELECT ON {s}.history TO PUBLIC`}},
		{check: "open-to-all", name: "a partition", subject: "table history_attention", severity: Warning, do: []string{`GRANT SELECT ON {s}.history_attention TO PUBLIC`}},
		{check: "open-to-all", name: "a view", subject: "view attempts", severity: Warning, do: []string{`GRANT SELECT ON {s}.attempts TO PUBLIC`}},
		{check: "open-to-all", name: "a column", subject: "column jobs.payload", do: []string{`GRANT SELECT, UPDATE (payload) ON {s}.jobs TO PUBLIC`, `REVOKE SELECT ON {s}.jobs FROM PUBLIC`}},
		{check: "open-to-all", name: "the numbers", subject: "sequence jobs_id_seq", severity: Warning, do: []string{`GRANT ALL ON SEQUENCE {s}.jobs_id_seq TO PUBLIC`}},
		{check: "open-to-all", name: "the door", subject: "schema", severity: Info, do: []string{`GRANT USAGE ON SCHEMA {s} TO PUBLIC`}},
		{check: "open-to-all", name: "the schema", subject: "schema", severity: Warning, do: []string{`GRANT ALL ON SCHEMA {s} TO PUBLIC`}},
	})
}

// What the migrations make in the schema public is as open as Postgres makes that schema, and that is no finding.
func TestTheSchemaPublicIsOpenByDefault(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithSchema("public"))
	for _, f := range examine(t, db, Options{Only: []string{"open-to-all"}}).Findings {
		if !contains(f.Summary, "CREATE") { // everybody has it before version 15, and may put a function beside ours
			t.Errorf("%+v", f)
		}
	}
}

func TestTunedColumns(t *testing.T) {
	t.Parallel()
	runAll(t, []provocation{
		{check: "column-tuning", name: "no statistics", subject: "jobs.queue", do: []string{`ALTER TABLE {s}.jobs ALTER COLUMN queue SET STATISTICS 0`}},
		{check: "column-tuning", name: "more statistics", subject: "jobs.queue", severity: Info, do: []string{`ALTER TABLE {s}.jobs ALTER COLUMN queue SET STATISTICS 500`}},
		{check: "column-tuning", name: "no compression", subject: "jobs.payload", do: []string{`ALTER TABLE {s}.jobs ALTER COLUMN payload SET STORAGE EXTERNAL`}},
		{check: "column-tuning", name: "no compression in history", subject: "history.payload", do: []string{`ALTER TABLE {s}.history ALTER COLUMN payload SET STORAGE EXTERNAL`}},
		{check: "column-tuning", name: "in a partition", subject: "history_attention.payload", do: []string{
			`ALTER TABLE {s}.history_attention ALTER COLUMN payload SET STORAGE EXTERNAL`}},
		{check: "column-tuning", name: "no statistics in history", subject: "history.kind", do: []string{`ALTER TABLE {s}.history ALTER COLUMN kind SET STATISTICS 0`}},
		{check: "column-tuning", name: "an option", subject: "jobs.kind", severity: Info, do: []string{`ALTER TABLE {s}.jobs ALTER COLUMN kind SET (n_distinct = 5)`}},
	})
}
