//go:build citus

package citus

import (
	"context"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// timeAndControl is what schema version 4 brought, from SQL and in workers.
func timeAndControl(c *cluster) {
	asked := func(want, sql string, args ...any) {
		c.Helper()
		if got := query[string](c, "SELECT ("+sql+")::text", args...); got != want {
			c.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
	// Jobs by their numbers.
	id := query[int64](c, "SELECT %s.enqueue('step', '{\"n\": 1}', queue => 'time')")
	asked("rescheduled", "SELECT %s.reschedule($1, now() + interval '1 h')", id)
	asked("rescheduled", "SELECT %s.reschedule($1)", id)
	asked("pending", "SELECT %s.set_priority($1, 3)", id)
	asked("edited", "SELECT %s.edit_payload($1, '{\"n\": 2}', 1)", id)
	asked("changed", "SELECT %s.edit_payload($1, '{\"n\": 3}', 1)", id)

	// Pauses, which workers keep.
	runs := 0
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[step]) error {
		runs++
		return nil
	})
	client := c.newClient(c.pool, pgqueue.WithCitus())
	drain := func(want int) {
		c.Helper()
		must(client.Drain(c.ctx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"time": {}}}))(c)
		if runs != want {
			c.Errorf("%d runs, want %d", runs, want)
		}
	}
	asked("true", "SELECT isfinite(%s.pause_until('time', now() + interval '1 h', 'a test'))")
	asked("infinity", "SELECT %s.pause_kind('step', 'time', reason => 'a bad release')")
	if why := query[string](c, "SELECT %s.why_not_running($1)", id); !strings.Contains(why, "a test; that ends by itself") || !strings.Contains(why, `kind "step" is paused in this queue`) {
		c.Error(why)
	}
	asked("2", "SELECT count(*) FROM %s.paused WHERE queue = 'time'")
	drain(0)
	asked("true", "SELECT %s.resume('time')")
	drain(0)
	asked("true", "SELECT %s.resume_kind('step', 'time')")
	drain(1)
	c.exec("SELECT %s.pause_until('time', now() + interval '1 h'), %s.pause_kind('step', until => now() + interval '1 h')")
	c.exec("UPDATE %s.queues SET paused_until = now() - interval '1 s' WHERE name = 'time'")
	c.exec("UPDATE %s.paused_kinds SET paused_until = now() - interval '1 s' WHERE kind = 'step'")
	asked("2", "SELECT %s.end_pauses()")

	// Unique keys, of which each is on the node of its queue.
	unique := func(want, rule string) {
		c.Helper()
		asked(want, "SELECT concat_ws(' ', outcome, state) FROM %s.enqueue_unique('step', '{}', queue => 'time', "+rule+")")
	}
	for _, want := range []string{"inserted", "duplicate pending"} {
		unique(want, "idempotency_key => 'x', keep => '1 h'")
		unique(want, "unique_by => 'args'")
		unique(want, "throttle => '1 h'")
	}
	unique("inserted", "key => 'd', debounce => '1 s', debounce_max => '1 min'")
	unique("replaced", "key => 'd', debounce => '1 s', debounce_max => '1 min'")
	asked("true", "SELECT %s.release_key('time', 'step', 'x') IS NOT NULL")
	c.exec("UPDATE %s.unique_keys SET expires_at = now() - interval '1 h' WHERE queue = 'time'")
	asked("1", "SELECT %s.expire_unique_keys()")

	// Progress, which is on the coordinator.
	live := query[int64](c, "SELECT max(id) FROM %s.jobs WHERE queue = 'time'")
	c.exec("INSERT INTO %s.job_progress (job_id, attempt, updated_at, progress) VALUES ($1, 0, now() - interval '1 h', '1'), (0, 0, now() - interval '1 h', '1'), (1, 0, now() - interval '1 h', '1')", live)
	asked("1", "SELECT gone FROM %s.expire_progress()") // the numbers begin at 1, and that one has ended
	query[int](c, "SELECT count(progress) FROM %s.active_jobs WHERE queue = 'time'")
	asked("cancelled", "SELECT %s.cancel($1)", live)
	asked("0", "SELECT count(*) FROM %s.job_progress WHERE job_id = $1", live)
}

// A schema that was distributed with version 3 is brought to version 4, and then the rest of it is distributed.
func TestCitus_AnUpgradeOfADistributedSchema(t *testing.T) {
	c := connect(t)
	if err := migrations.Down(c.ctx, c.pool, c.schema, migrations.DiscardJobs(), migrations.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		t.Fatal(err)
	}
	files, err := migrations.FS(c.schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0001_core.up.sql", "0002_control.up.sql", "0003_seeing.up.sql"} {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.pool.Exec(c.ctx, string(text)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	c.exec("CREATE TABLE %s.pgqueue_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)")
	c.exec("INSERT INTO %s.pgqueue_migrations VALUES (3, false)")
	// What citus.sql of version 3 did with the tables.
	c.exec("ALTER TABLE %s.jobs DROP CONSTRAINT jobs_pkey, ADD CONSTRAINT jobs_pkey PRIMARY KEY (queue, id)")
	c.exec("ALTER TABLE %s.history DROP CONSTRAINT history_pkey, ADD CONSTRAINT history_pkey PRIMARY KEY (queue, id, day)")
	query[string](c, "SELECT create_distributed_table('%s.jobs', 'queue', colocate_with => 'none')::text")
	query[string](c, "SELECT create_distributed_table('%s.history', 'queue', colocate_with => '%s.jobs')::text")
	query[string](c, "SELECT create_reference_table('%s.queues')::text")
	if err := migrations.Up(c.ctx, c.pool, c.schema, migrations.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		t.Fatal(err)
	}
	c.distribute()
	if n := query[int](c, "SELECT count(*) FROM run_command_on_all_nodes($$SELECT paused_until FROM "+pgx.Identifier{c.schema}.Sanitize()+".queues$$) WHERE success"); n < 2 {
		t.Errorf("%d nodes have the new column", n)
	}
	c.exec("SELECT %s.pause_until('up', now() + interval '1 h')")
	c.exec("SELECT * FROM %s.enqueue_unique('step', '{}', queue => 'up', throttle => '1 h')")
	if n := query[int](c, "SELECT count(*) FROM %s.unique_keys WHERE queue = 'up'"); n != 1 {
		t.Errorf("%d keys", n)
	}
}
