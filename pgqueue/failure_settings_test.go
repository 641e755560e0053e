package pgqueue_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// setting is one line of docs/settings.md.
type setting struct{ name, value string }

func (s setting) String() string { return s.name + "=" + s.value }

// documentedSettings reads the three tables of the page: what works, what is refused, and what is refused where times are text.
func documentedSettings(t *testing.T) (works, refused, refusedAsText []setting) {
	t.Helper()
	text, err := os.ReadFile("../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := []*[]setting{&works, &refused, &refusedAsText}
	for _, block := range strings.Split(string(text), "\n| setting | value |")[1:] {
		if len(tables) == 0 {
			t.Fatal("docs/settings.md has more than three tables")
		}
		for line := range strings.Lines(block) {
			parts := strings.Split(line, "|")
			if len(parts) >= 5 && strings.HasPrefix(parts[1], " `") {
				*tables[0] = append(*tables[0], setting{strings.Trim(parts[1], " `"), strings.Trim(parts[2], " `")})
			}
		}
		tables = tables[1:]
	}
	if len(works) < 25 || len(refused) < 3 || len(refusedAsText) < 2 {
		t.Fatalf("docs/settings.md has %d, %d and %d lines", len(works), len(refused), len(refusedAsText))
	}
	return works, refused, refusedAsText
}

// settingServer makes databases and roles with settings.
type settingServer struct {
	*pgqueuetest.Server
	n atomic.Int64
}

// role makes a database, migrated by an owner with the setting, and a worker's role with it; and gives a pool of the worker, and an
// administrator's.
func (s *settingServer) role(t *testing.T, set setting, change func(*pgxpool.Config)) (worker, admin *pgxpool.Pool) {
	t.Helper()
	n := s.n.Add(1)
	owner, app := fmt.Sprintf("owner_%d", n), fmt.Sprintf("app_%d", n)
	db := s.DB(t, pgqueuetest.WithoutMigrations())
	exec(t, db.Pool, fmt.Sprintf(`CREATE ROLE %s LOGIN; CREATE ROLE %s LOGIN; CREATE SCHEMA pgqueue; GRANT CREATE, USAGE ON SCHEMA pgqueue TO %[1]s`, owner, app))
	value := "'" + set.value + "'"
	if set.name == "search_path" {
		value = set.value // a list
	}
	for _, role := range []string{owner, app} {
		exec(t, db.Pool, fmt.Sprintf(`ALTER ROLE %s SET %s = %s`, role, set.name, value))
	}
	as := func(role string) *pgxpool.Pool {
		return poolLike(t, db.Pool, func(config *pgxpool.Config) {
			config.ConnConfig.User, config.MaxConns = role, 8
			change(config)
		})
	}
	byOwner := as(owner)
	quiet := migrations.WithLogger(slog.New(slog.DiscardHandler))
	for _, migrate := range []func(context.Context, migrations.Database, string, ...migrations.Option) error{migrations.Up, migrations.Down, migrations.Up} {
		if err := migrate(testContext(t), byOwner, "", quiet); err != nil {
			t.Fatalf("migrate: %v", err)
		}
	}
	byOwner.Close()
	exec(t, db.Pool, grantsFor(t, "pgqueue_worker", app)+grantsFor(t, "pgqueue_producer", app))
	return as(app), db.Pool
}

// grantsFor are the GRANTs of docs/roles.md for one of its roles, given to another.
func grantsFor(t *testing.T, from, to string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/roles.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```sql\n")
	block, _, _ = strings.Cut(block, "```")
	var grants strings.Builder
	for statement := range strings.SplitSeq(block, ";\n") {
		if i := strings.Index(statement, "GRANT"); i >= 0 && strings.Contains(statement, from) {
			what, _, _ := strings.Cut(statement[i:], " TO ")
			fmt.Fprintf(&grants, "%s TO %s;\n", strings.TrimRight(what, " \n"), to)
		}
	}
	if grants.Len() == 0 {
		t.Fatalf("docs/roles.md has no GRANT for %s", from)
	}
	return grants.String()
}

// Every setting that a DBA gives to a role either changes nothing, or is named at the start.
func TestC80_RoleSettings(t *testing.T) {
	t.Parallel()
	works, refused, refusedAsText := documentedSettings(t)
	for _, must := range []setting{ // the text of C80
		{"default_transaction_isolation", "repeatable read"}, {"default_transaction_isolation", "serializable"}, {"statement_timeout", "200ms"},
		{"lock_timeout", "50ms"}, {"idle_in_transaction_session_timeout", "500ms"}, {"TimeZone", "Asia/Kathmandu"}, {"DateStyle", "German, DMY"},
		{"IntervalStyle", "sql_standard"}, {"bytea_output", "escape"}, {"default_transaction_read_only", "off"},
	} {
		if !slices.Contains(works, must) {
			t.Errorf("docs/settings.md does not say that %s works", must)
		}
	}
	for _, set := range []setting{{"DateStyle", "German, DMY"}, {"array_nulls", "off"}} {
		if !slices.Contains(refusedAsText, set) {
			t.Errorf("docs/settings.md does not say that %s is refused where values are text", set)
		}
	}
	server := &settingServer{Server: pgqueuetest.NewServer(t)}
	known := server.DB(t).Pool
	isKnown := func(set setting) bool { // transaction_timeout came with Postgres 17
		return one[bool](t, known, `SELECT EXISTS (SELECT FROM pg_settings WHERE lower(name) = lower($1))`, set.name)
	}
	for _, set := range works {
		if !isKnown(set) {
			t.Run(set.String(), func(t *testing.T) { // nobody can have set it there
				if _, err := known.Exec(t.Context(), `SELECT set_config($1, $2, false)`, set.name, set.value); err == nil {
					t.Error("the server takes a setting that it does not list")
				}
			})
			continue
		}
		t.Run(set.String(), func(t *testing.T) {
			t.Parallel()
			worker, admin := server.role(t, set, func(*pgxpool.Config) {})
			workUnder(t, set, worker, admin)
		})
	}
	for _, c := range []struct {
		settings []setting
		mode     pgx.QueryExecMode
	}{{refused, pgx.QueryExecModeCacheStatement}, {refusedAsText, pgx.QueryExecModeExec}, {refusedAsText, pgx.QueryExecModeSimpleProtocol}} {
		for _, set := range c.settings {
			t.Run(fmt.Sprintf("refused %s, %s", set, c.mode), func(t *testing.T) {
				t.Parallel()
				worker, admin := server.role(t, set, func(config *pgxpool.Config) { config.ConnConfig.DefaultQueryExecMode = c.mode })
				reason := pgqueue.StartSetting
				if set.name == "default_transaction_read_only" {
					reason = pgqueue.StartReadOnly
				}
				for _, err := range starts(t, worker) {
					if refused := requireRefused(t, err, reason); refused != nil && (!strings.Contains(err.Error(), set.name) || !strings.Contains(err.Error(), refused.Role)) {
						t.Errorf("the error does not name %s and the role: %v", set.name, err)
					}
				}
				if set.name == "array_nulls" {
					produceWithoutArrayNulls(t, worker, admin)
				}
			})
		}
	}
}

// produceWithoutArrayNulls enqueues where the text of a NULL in an array is the word: what needs no array works, and the rest fails as a
// whole. No job is stored with the word in it.
func produceWithoutArrayNulls(t *testing.T, pool, admin *pgxpool.Pool) {
	t.Helper()
	client := quietClient(t, pool)
	for _, options := range [][]pgqueue.EnqueueOption{nil, {pgqueue.WithRunAt(time.Now())}, {pgqueue.WithDelay(time.Hour)}, {pgqueue.WithKey("K")}} {
		many := []pgqueue.NewJob{{Args: task{N: 1}, Options: options}, {Args: task{N: 2}}}
		if _, err := client.EnqueueMany(testContext(t), pool, many); !isCode(err, "22007") && !isCode(err, "22P02") {
			t.Errorf("two jobs at once: %v", err)
		}
	}
	for _, option := range []pgqueue.EnqueueOption{pgqueue.WithKey("K"), pgqueue.WithIdempotencyKey("once", time.Hour)} {
		if _, err := client.Enqueue(testContext(t), pool, task{}, option); !isCode(err, "22007") && !isCode(err, "22P02") {
			t.Errorf("with a key: %v", err)
		}
	}
	if n := one[int](t, admin, `SELECT count(*) FROM pgqueue.jobs`) + one[int](t, admin, `SELECT count(*) FROM pgqueue.unique_keys`); n != 0 {
		t.Errorf("%d rows were written by what failed", n)
	}
	id := enqueue(t, client, pool, task{N: 3}).ID
	job(t, admin, id).requireState(t, "pending", 0, 0)
}

// workUnder has eight workers do jobs: each runs once and succeeds, whatever the reaper, the partitions' upkeep, the listener and a retry
// need works too, and errors do not come in an endless row.
func workUnder(t *testing.T, set setting, pool, admin *pgxpool.Pool) {
	jobs := size(80, 8*2000)
	client := quietClient(t, pool)
	// Upkeep has something to do: a partition that is missing, and set that has expired.
	exec(t, admin, `DO $$ BEGIN EXECUTE format('DROP TABLE pgqueue.history_%s', to_char((now() AT TIME ZONE 'UTC')::date + 3, 'YYYYMMDD'));
		EXECUTE 'CREATE TABLE pgqueue.history_20200111 PARTITION OF pgqueue.history FOR VALUES FROM (''2020-01-11'') TO (''2020-01-12'')';
		EXECUTE 'ALTER TABLE pgqueue.history_20200111 OWNER TO ' || (SELECT relowner::regrole FROM pg_class WHERE oid = 'pgqueue.history'::regclass);
		END $$`)
	var mutex sync.Mutex
	runs := map[int]int{}
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		mutex.Lock()
		runs[job.Args.N]++
		mutex.Unlock()
		if job.Args.Do == "retried" && job.Attempt == 1 {
			return pgqueue.RetryAfter(time.Millisecond, context.DeadlineExceeded)
		}
		return nil
	})
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[other]) error {
		mutex.Lock()
		runs[job.Args.N]++
		mutex.Unlock()
		_, err := tx.Exec(ctx, `SELECT 1`)
		return err
	})
	var failures atomic.Int64
	events := &hooks{claim: func(e runner.ClaimEvent) {
		if e.Err != nil {
			failures.Add(1)
			t.Logf("claim: %v", e.Err)
		}
	}, failed: func(_, operation string, err error) {
		failures.Add(1)
		t.Logf("%s: %v", operation, err)
	}}
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 8}}, ReapInterval: 200 * time.Millisecond, Observer: events})
	eventually(t, "the listener is there", func() bool { return worker.Status().Listener.Connected })
	// The worker does it once an hour, and gives way where a table is locked, by autovacuum for one: it is asked for until it is done.
	eventually(t, "partitions came and went", func() bool {
		_, ensured := pool.Exec(testContext(t), `SELECT pgqueue.ensure_history()`)
		_, dropped := pool.Exec(testContext(t), `SELECT pgqueue.drop_history('7 days')`)
		return ensured == nil && dropped == nil && one[bool](t, admin, `SELECT to_regclass('pgqueue.history_20200111') IS NULL
			AND to_regclass('pgqueue.history_' || to_char((now() AT TIME ZONE 'UTC')::date + 3, 'YYYYMMDD')) IS NOT NULL`)
	})
	retried := enqueueUntil(t, client, pool, task{N: -1, Do: "retried"})
	var many []pgqueue.NewJob
	for i := range jobs {
		args := pgqueue.Args(task{N: i})
		if i%8 == 0 {
			args = other{N: i}
		}
		many = append(many, pgqueue.NewJob{Args: args, Options: []pgqueue.EnqueueOption{pgqueue.WithTags("é", "NULL")}})
		if len(many) == 40 {
			_, err := client.EnqueueMany(testContext(t), pool, many)
			for isCode(err, "40001") || isCode(err, "57014") { // nothing was written; the application tries again
				_, err = client.EnqueueMany(testContext(t), pool, many)
			}
			if err != nil {
				t.Fatal(err)
			}
			many = nil
		}
	}
	eventually(t, "all jobs are done", func() bool {
		return one[int](t, admin, `SELECT count(*) FROM pgqueue.history WHERE state = 'succeeded'`) == jobs+1
	})
	job(t, admin, retried).requireState(t, "succeeded", 2, 1)
	eventually(t, "the listener hears", func() bool { return worker.Status().Listener.Hints > 0 })
	if strings.Contains(set.name, "idle") { // nothing is to be done, and the timeout passes
		reconnects, passes := worker.Status().Listener.Reconnects, worker.Status().Reaper.Targets[0].Passes
		eventually(t, "the reaper has made seven more passes", func() bool { return worker.Status().Reaper.Targets[0].Passes >= passes+7 })
		if got := worker.Status().Listener; got.Reconnects != reconnects || !got.Connected {
			t.Errorf("the listener lost its connection while it was idle: %+v", got)
		}
	}
	if _, err := client.Stats(testContext(t)); err != nil {
		t.Errorf("stats: %v", err)
	}
	if err := worker.end(t); err != nil {
		t.Error(err)
	}
	mutex.Lock()
	defer mutex.Unlock()
	for n, times := range runs {
		if want := 1; n >= 0 && times != want {
			t.Errorf("job %d ran %d times", n, times)
		}
	}
	if len(runs) != jobs+1 {
		t.Errorf("%d different jobs ran, want %d", len(runs), jobs+1)
	}
	// A busy machine may exceed a statement_timeout here and there, and an idle session may just have been cut.
	if n := failures.Load(); n > 20 {
		t.Errorf("%d claims and upkeeps failed under %s", n, set)
	}
}

// enqueueUntil enqueues, again where the session was just cut.
func enqueueUntil(t *testing.T, client *pgqueue.Client, pool *pgxpool.Pool, args pgqueue.Args) (id int64) {
	t.Helper()
	eventually(t, "an enqueue", func() bool {
		enqueued, err := client.Enqueue(testContext(t), pool, args)
		id = enqueued.ID
		return err == nil
	})
	return id
}
