package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

const (
	runningJob = `INSERT INTO {s}.jobs (queue, kind, state, attempt, claimed_generation, claimed_at, lease_expires_at, claimed_by) VALUES `
	aLongAgo   = `now() - interval '1 hour'`
)

func TestWhatOthersPutOnOurTables(t *testing.T) {
	t.Parallel()
	runAll(t, []provocation{
		{check: "publication", name: "named tables", subject: "pub", do: []string{`CREATE PUBLICATION pub FOR TABLE {s}.jobs, {s}.queues`}},
		{check: "publication", name: "a partition", subject: "pub", do: []string{`CREATE PUBLICATION pub FOR TABLE {s}.history_attention`}},
		{check: "publication", name: "everything", subject: "pub", do: []string{`CREATE TABLE orders (id int PRIMARY KEY)`, `CREATE PUBLICATION pub FOR ALL TABLES`}},
		{check: "publication", name: "everything, where there is nothing else", subject: "pub", do: []string{`CREATE PUBLICATION pub FOR ALL TABLES WITH (publish = 'insert')`}},
		{check: "foreign-key", name: "on jobs", subject: "orders", do: []string{
			`CREATE TABLE orders (id int, job bigint REFERENCES {s}.jobs)`, runningJob + `('q', 'k', 'running', 1, 1, now(), now() + interval '1 hour', 'w')`,
			`INSERT INTO orders SELECT 1, id FROM {s}.jobs`}},
		{check: "foreign-key", name: "on a queue", subject: "orders", do: []string{`CREATE TABLE orders (queue text REFERENCES {s}.queues (name))`}},
		{check: "inheritance", name: "a child of jobs", subject: "jobs", do: []string{`CREATE TABLE more (note text) INHERITS ({s}.jobs)`}},
		{check: "inheritance", name: "a parent of queues", subject: "queues", severity: Warning, do: []string{
			`CREATE TABLE "all names" (name text NOT NULL)`, `ALTER TABLE {s}.queues INHERIT "all names"`}},
		{check: "trigger", name: "on jobs", subject: "jobs", do: []string{
			`CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`,
			`CREATE TRIGGER audit BEFORE INSERT OR UPDATE ON {s}.jobs FOR EACH ROW EXECUTE FUNCTION audit()`}},
		{check: "trigger", name: "on history with its partitions", subject: "history", do: []string{
			`CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`,
			`CREATE TRIGGER audit AFTER INSERT ON {s}.history FOR EACH ROW EXECUTE FUNCTION audit()`}},
		{check: "trigger", name: "a rule", subject: "queues", do: []string{`CREATE RULE nothing AS ON DELETE TO {s}.queues DO INSTEAD NOTHING`}},
	})
}

func TestAPublicationOfTheWholeSchema(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithSchema(odd))
	if value[int](t, db.Pool, `SELECT current_setting('server_version_num')::int`) < 150000 {
		return // 14 has no such publications
	}
	provocation{check: "publication", subject: "pub", do: []string{`CREATE PUBLICATION pub FOR TABLES IN SCHEMA {s}`}}.run(t, db)
}

func TestJobsThatNoWorkerLeavesLikeThis(t *testing.T) {
	t.Parallel()
	runAll(t, []provocation{
		{check: "lease-expired", name: "an hour ago", subject: "jobs", do: []string{
			runningJob + `('q', 'k', 'running', 1, 1, ` + aLongAgo + `, now() - interval '59 minutes', 'w')`}},
		{check: "lease-far", name: "until next week", subject: "jobs", do: []string{
			runningJob + `('q', 'k', 'running', 1, 1, now(), now() + interval '7 days', 'w'), ('q', 'k', 'running', 1, 1, now(), 'infinity', 'w')`}},
		{check: "job-unclaimed", name: "nobody's", subject: "jobs", do: []string{
			runningJob + `('q', 'k', 'running', 1, 1, now(), now() + interval '1 minute', NULL)`}},
		{check: "job-numbers", name: "attempt 0", subject: "jobs", do: []string{
			runningJob + `('q', 'k', 'running', 0, 1, now(), now() + interval '1 minute', 'w')`}},
		{check: "job-numbers", name: "a generation of the future", subject: "jobs", do: []string{
			runningJob + `('q', 'k', 'running', 1, 7, now(), now() + interval '1 minute', 'w')`}},
		{check: "job-numbers", name: "more failures than attempts", subject: "jobs", do: []string{
			runningJob + `('q', 'k', 'running', 1, 1, now(), now() + interval '1 minute', 'w')`, `UPDATE {s}.jobs SET failures = 2`}},
		{check: "job-endless", name: "infinity", subject: `"it's"`, do: []string{
			`INSERT INTO {s}.jobs (queue, kind, priority, run_at) VALUES ('it''s', 'k', 4, 'infinity'), ('q', 'k', 1, '3000-01-01')`}},
		{check: "job-endless", name: "minus infinity", subject: `"q"`, do: []string{`INSERT INTO {s}.jobs (queue, kind, run_at) VALUES ('q', 'k', '-infinity')`}},
		{check: "queue-paused", name: "last week", subject: `"it's"`, do: []string{
			`INSERT INTO {s}.queues (name, paused_at, paused_reason, paused_until) VALUES ('it''s', now() - interval '7 days', 'because', NULL), ('q', now(), NULL, NULL),
				('it ends', now() - interval '7 days', NULL, now() + interval '7 days'), ('it has ended', now() - interval '7 days', NULL, now() - interval '1 day')`}},
		{check: "queue-paused", name: "a kind in all queues", subject: `kind "o'clock" in all queues`, do: []string{
			`INSERT INTO {s}.paused_kinds (kind, paused_at, reason) VALUES ('o''clock', now() - interval '7 days', 'because'), ('k', now(), NULL)`}},
		{check: "queue-paused", name: "a kind in a queue", subject: `kind "k" in queue "it's"`, do: []string{
			`INSERT INTO {s}.paused_kinds (kind, queue, paused_at, paused_until) VALUES ('k', 'it''s', now() - interval '7 days', 'infinity'),
				('k', 'q', now() - interval '7 days', now() + interval '1 day')`}},

		{check: "schedule-failing", name: "twice", subject: `"it's"`, do: []string{
			`INSERT INTO {s}.schedules (name, spec, kind, next_run_at, failures, last_error) VALUES ('it''s', 'never', 'k', now() - interval '1 hour', 2, 'no such spec')`,
			`INSERT INTO {s}.schedules (name, spec, kind, enabled, last_error) VALUES ('off', 'never', 'k', false, 'no such spec')`}},
		{check: "unique-key-expired", name: "two days ago", subject: "unique_keys", do: []string{
			`INSERT INTO {s}.unique_keys (job_id, created_at, expires_at, queue, kind, key)
				SELECT g, now() - interval '3 days', now() - interval '2 days', 'q', 'k', 'key:' || g FROM generate_series(1, 100) g`}},

		{check: "sequence-behind", name: "restored", subject: "jobs_id_seq", do: []string{
			`INSERT INTO {s}.jobs (id, queue, kind, run_at) VALUES (1000, 'q', 'k', now() + interval '1 day')`}},
		{check: "sequence-behind", name: "of history", subject: "jobs_id_seq", do: []string{
			`INSERT INTO {s}.jobs (id, queue, kind) VALUES (7, 'q', 'k')`, `SELECT {s}.cancel(7)`}},
		{check: "sequence-limit", name: "far", subject: "jobs_id_seq", do: []string{`SELECT setval('{s}.jobs_id_seq', 9e18::bigint)`}},
		{check: "sequence-limit", name: "beyond what a browser counts", subject: "jobs_id_seq", severity: Warning,
			do: []string{`SELECT setval('{s}.jobs_id_seq', (2::numeric ^ 53)::bigint)`}},
	})
}

const dropDays = `DO $$ DECLARE d date := (now() AT TIME ZONE 'UTC')::date; BEGIN
	FOR i IN %d .. 14 LOOP EXECUTE format('DROP TABLE %%I.%%I', 'My "jobs"; --', 'history_' || to_char(d + i, 'YYYYMMDD')); END LOOP; END $$`

// day runs a statement with the name of the partition of a day from today: %1$I is the schema, %2$I the partition, %3$L and %4$L its bounds.
func day(from string, statement string) string {
	return `DO $$ DECLARE d date := (now() AT TIME ZONE 'UTC')::date + ` + from + `; BEGIN
		EXECUTE format($x$` + statement + `$x$, 'My "jobs"; --', 'history_' || to_char(d, 'YYYYMMDD'), d, d + 1); END $$`
}

func TestPartitionsOfHistory(t *testing.T) {
	t.Parallel()
	const make = `CREATE TABLE %1$I.%2$I PARTITION OF %1$I.history FOR VALUES FROM (%3$L) TO (%4$L)`
	runAll(t, []provocation{
		{check: "history-ahead", name: "today", subject: "history", do: []string{sprintf(dropDays, 0)}},
		{check: "history-ahead", name: "tomorrow", subject: "history", severity: Warning, do: []string{sprintf(dropDays, 1)}},
		{check: "history-old", name: "two of them", subject: "history", do: []string{day("-20", make), day("-10", make)}},
		{check: "history-detached", name: "of today", subject: "history_2", do: []string{day("0", `ALTER TABLE %1$I.history DETACH PARTITION %1$I.%2$I`)}},
		{check: "history-detached", name: "old", subject: "history_2", severity: Warning, do: []string{
			day("-30", make), day("-30", `ALTER TABLE %1$I.history DETACH PARTITION %1$I.%2$I`)}},
		{check: "history-foreign", name: "for all others", subject: "rest", do: []string{`CREATE TABLE {s}.rest PARTITION OF {s}.history DEFAULT`}},
		{check: "history-foreign", name: "a whole year", subject: "history_20200101", do: []string{
			`CREATE TABLE {s}.history_20200101 PARTITION OF {s}.history FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')`}},
		{check: "history-foreign", name: "of no day", subject: "history_20200231", do: []string{
			`CREATE TABLE {s}.history_20200231 PARTITION OF {s}.history FOR VALUES FROM ('2020-02-28') TO ('2020-02-29')`}},
	})
}

// A DETACH PARTITION CONCURRENTLY that was interrupted while it waited for a reader.
func TestAnInterruptedDetach(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	reader, detacher := connect(t, db.URL), connect(t, db.URL)
	in(t, reader, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
	in(t, reader, `SELECT count(*) FROM pgqueue.history`)
	name := value[string](t, db.Pool, `SELECT 'history_' || to_char((now() AT TIME ZONE 'UTC')::date + 5, 'YYYYMMDD')`)
	ended := make(chan error, 1)
	pid := detacher.PgConn().PID()
	go func() {
		_, err := detacher.Exec(t.Context(), `ALTER TABLE pgqueue.history DETACH PARTITION pgqueue.`+name+` CONCURRENTLY`)
		ended <- err
	}()
	eventually(t, "the detach is half done", func() bool {
		return value[bool](t, db.Pool, `SELECT EXISTS (SELECT FROM pg_inherits WHERE inhdetachpending)`)
	})
	execute(t, db.Pool, `SELECT pg_cancel_backend($1)`, pid)
	if err := <-ended; err == nil {
		t.Fatal("the detach was not interrupted")
	}
	in(t, reader, `ROLLBACK`)
	f := await(t, db, Options{}, "history-detached", name)
	apply(t, db, f) // detached; now it is a table of a day to come, and belongs back
	f = await(t, db, Options{}, "history-detached", name)
	apply(t, db, f)
	mend(t, db, Options{})
}

func TestBrokenIndexes(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithSchema(odd))
	execute(t, db.Pool, `UPDATE pg_index SET indisvalid = false WHERE indexrelid = '"My ""jobs""; --".jobs_ready'::regclass`)
	apply(t, db, await(t, db, Options{}, "index-invalid", "jobs_ready"))
	awaitNone(t, db, Options{}, "index-invalid")
	mend(t, db, Options{})
}

// C123: what an interrupted REINDEX CONCURRENTLY leaves behind is found and dropped.
func TestC123_DebrisOfAReindex(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	writer, builder := connect(t, db.URL), connect(t, db.URL)
	in(t, writer, `BEGIN`)
	in(t, writer, `LOCK TABLE pgqueue.jobs IN ROW EXCLUSIVE MODE`)
	pid := builder.PgConn().PID()
	ended := make(chan error, 1)
	go func() {
		_, err := builder.Exec(t.Context(), `REINDEX INDEX CONCURRENTLY pgqueue.jobs_ready`)
		ended <- err
	}()
	eventually(t, "the new index is begun", func() bool {
		return value[bool](t, db.Pool, `SELECT EXISTS (SELECT FROM pg_class WHERE relname = 'jobs_ready_ccnew')`)
	})
	if found := examine(t, db, Options{Only: []string{"index-debris", "index-invalid", "drift-index"}}).Findings; len(found) != 0 {
		t.Errorf("an index that is being built counts as debris: %+v", found)
	}
	execute(t, db.Pool, `SELECT pg_cancel_backend($1)`, pid)
	if err := <-ended; err == nil {
		t.Fatal("the reindex was not interrupted")
	}
	in(t, writer, `ROLLBACK`)
	apply(t, db, await(t, db, Options{}, "index-debris", "jobs_ready_ccnew"))
	awaitNone(t, db, Options{}, "index-debris")
	mend(t, db, Options{})
}

// A worker's table that says what it serves is enough to tell what nobody does.
func TestUnservedQueuesAndKinds(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithSchema(odd))
	options := Options{Only: []string{"queue-unserved", "kind-unserved"}}
	s := ident(odd)
	execute(t, db.Pool, `INSERT INTO `+s+`.jobs (queue, kind, priority, run_at) VALUES ('mail', 'send', 1, now() - interval '1 hour'),
		('mail', 'count', 4, now() - interval '1 hour'), ('soon', 'send', 1, now()), ('paused', 'send', 1, now() - interval '1 hour'),
		('other', 'rests', 1, now() - interval '1 hour'), ('third', 'rests there', 1, now() - interval '1 hour')`)
	execute(t, db.Pool, `INSERT INTO `+s+`.queues (name, paused_at, paused_until) VALUES ('paused', now(), NULL), ('mail', now() - interval '1 hour', now() - interval '1 min')`)
	execute(t, db.Pool, `INSERT INTO `+s+`.paused_kinds (kind, queue) VALUES ('rests', ''), ('rests there', 'third'), ('send', 'other')`)
	f := await(t, db, options, "queue-unserved", "mail")
	requireComplete(t, f)
	if all := examine(t, db, options).Findings; len(all) != 1 {
		t.Errorf("findings %+v, want one for the queue mail", all)
	}

	report := func(queues, kinds string) {
		execute(t, db.Pool, `SELECT `+s+`.heartbeat('w', 'host', 1, '', now(), interval '10 s', false, $1::jsonb, $2::jsonb)`, queues, kinds)
	}
	report(`{"mail": {}}`, `{"send": {}}`)
	requireComplete(t, await(t, db, options, "kind-unserved", `"count"`))
	if all := examine(t, db, options).Findings; len(all) != 1 {
		t.Errorf("findings %+v, want one for the kind count", all)
	}
	report(`{"mail": {}}`, `{"send": {}, "count": {}}`)
	awaitNone(t, db, options, "queue-unserved")
	awaitNone(t, db, options, "kind-unserved")

	// Without a heartbeat, a running job of the queue tells that somebody is there.
	execute(t, db.Pool, `SELECT `+s+`.goodbye('w')`)
	await(t, db, options, "queue-unserved", "mail")
	execute(t, db.Pool, `UPDATE `+s+`.jobs SET state = 'running', attempt = 1, claimed_generation = 1, claimed_at = now(), claimed_by = 'w',
		lease_expires_at = now() + interval '1 min' WHERE kind = 'count'`)
	awaitNone(t, db, options, "queue-unserved")
}

// A pause with an end is nobody's to remember, and one that has ended is none.
func TestPausesThatEndByThemselves(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	execute(t, db.Pool, `INSERT INTO pgqueue.queues (name, paused_at, paused_until) VALUES ('ends', now() - interval '7 days', now() + interval '7 days'),
		('ended', now() - interval '7 days', now() - interval '1 day')`)
	execute(t, db.Pool, `INSERT INTO pgqueue.paused_kinds (kind, paused_at, paused_until) VALUES ('k', now() - interval '7 days', now() + interval '1 day')`)
	if found := examine(t, db, Options{Only: []string{"queue-paused"}}).Findings; len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

// What is overdue is told until a scheduler comes, or the schedule rests; what fails is told as such, and what is tried every time by nobody
// but its own program too.
func TestSchedulesThatAreOverdue(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithSchema(odd))
	options := Options{Only: []string{"schedule-overdue"}}
	s := ident(odd)
	execute(t, db.Pool, `INSERT INTO `+s+`.schedules (name, spec, kind, next_run_at, updated_at, enabled, retired_at, last_error) VALUES
		('soon', '@hourly', 'k', now() - interval '10 s', now(), true, NULL, NULL), ('off', '@hourly', 'k', now() - interval '1 h', now(), false, NULL, NULL),
		('retired', '@hourly', 'k', now() - interval '1 h', now(), true, now(), NULL), ('never', '@hourly', 'k', 'infinity', now(), true, NULL, NULL),
		('fails', '@hourly', 'k', now() - interval '1 h', now(), true, NULL, 'oh'), ('new', '@hourly', 'k', NULL, now(), true, NULL, NULL)`)
	awaitNone(t, db, options, "schedule-overdue")
	execute(t, db.Pool, `INSERT INTO `+s+`.schedules (name, spec, kind, next_run_at, updated_at) VALUES
		('late', '@hourly', 'k', now() - interval '1 h', now()), ('never seen', '@hourly', 'k', NULL, now() - interval '2 h')`)
	f := await(t, db, options, "schedule-overdue", "schedules")
	requireComplete(t, f)
	if f.Severity != Warning || !strings.Contains(f.Summary, `overdue: 2, the longest of them "never seen", for 2h`) {
		t.Errorf("%+v", f)
	}
	execute(t, db.Pool, `UPDATE `+s+`.schedules SET next_run_at = now() + interval '1 h' WHERE name IN ('late', 'never seen')`)
	awaitNone(t, db, options, "schedule-overdue")
}

// Statistics decide, so the table is made to look the part; autovacuum stays out of it.
func TestDeadRowsBloatAndAge(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	execute(t, db.Pool, `ALTER TABLE pgqueue.jobs SET (autovacuum_enabled = off)`)
	execute(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind) SELECT 'q', 'k' FROM generate_series(1, 12000)`)
	execute(t, db.Pool, `DELETE FROM pgqueue.jobs`)
	options := Options{Thresholds: Thresholds{BloatBytes: 1 << 20}}
	apply(t, db, await(t, db, options, "autovacuum-off", "jobs"))
	awaitNone(t, db, options, "autovacuum-off")
	execute(t, db.Pool, `ALTER TABLE pgqueue.jobs SET (autovacuum_enabled = off)`)

	apply(t, db, await(t, db, options, "dead-rows", "jobs"))
	awaitNone(t, db, options, "dead-rows")
	apply(t, db, await(t, db, options, "bloat", "table jobs"))
	awaitNone(t, db, options, "bloat")

	// An index alone: full of entries of rows that are gone.
	options.Thresholds.BloatBytes = 100 << 10
	execute(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind) SELECT 'q', 'k' FROM generate_series(1, 12000)`)
	execute(t, db.Pool, `DELETE FROM pgqueue.jobs`)
	execute(t, db.Pool, `VACUUM (ANALYZE) pgqueue.jobs`)
	apply(t, db, await(t, db, options, "bloat", "index jobs_ready"))
	for _, f := range examine(t, db, Options{Only: []string{"bloat"}, Thresholds: options.Thresholds}).Findings {
		if f.Subject == "index jobs_ready" {
			t.Errorf("reindexed, and still: %+v", f)
		}
	}

	// Each block with an exception of its own takes a number.
	execute(t, db.Pool, `CREATE TABLE numbers (n int)`)
	execute(t, db.Pool, `DO $$ BEGIN FOR i IN 1 .. 3000 LOOP BEGIN INSERT INTO numbers VALUES (i); EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$`)
	options.Thresholds.XIDAge = 2000
	await(t, db, options, "wraparound", "table")
	options.Only = []string{"wraparound"}
	eventually(t, "all tables are frozen", func() bool { // ten at a time are told
		all := examine(t, db, options).Findings
		for _, f := range all {
			apply(t, db, f)
		}
		return len(all) == 0
	})
}

func TestThresholdsDecide(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithSchema(odd))
	s := ident(odd)
	execute(t, db.Pool, `INSERT INTO `+s+`.queues (name, paused_at) VALUES ('q', now() - interval '2 days')`)
	execute(t, db.Pool, `INSERT INTO `+s+`.jobs (queue, kind, state, attempt, claimed_generation, claimed_at, lease_expires_at, claimed_by)
		VALUES ('q', 'k', 'running', 1, 1, now(), now() + interval '2 days', 'w')`)
	execute(t, db.Pool, sprintf(dropDays, 10))
	count := func(thresholds Thresholds) int {
		return len(quiet(examine(t, db, Options{Thresholds: thresholds}).Findings))
	}
	if n := count(Thresholds{}); n != 2 {
		t.Errorf("%d findings, want 2", n)
	}
	if n := count(Thresholds{Paused: 72 * time.Hour, LeaseAhead: 72 * time.Hour}); n != 0 {
		t.Errorf("%d findings with wide thresholds", n)
	}
	if n := count(Thresholds{HistoryAhead: 12}); n != 3 {
		t.Errorf("%d findings when history must reach further, want 3", n)
	}
}
