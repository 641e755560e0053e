package jobstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

const (
	queueName  = "mail's"
	schemaName = `Jobs "x"` // needs quoting
)

// fixture is one migrated database with one queue over it.
type fixture struct {
	testing.TB
	ctx    context.Context
	pool   *pgxpool.Pool
	store  *jobstore.Store
	schema string
	direct string // the database's URL past a pooler
	queue  *jobstore.Queue
}

// option changes the pool or the queue of a fixture.
type option func(*pgxpool.Config, *jobstore.QueueConfig)

func mode(mode pgx.QueryExecMode) option {
	return func(pool *pgxpool.Config, _ *jobstore.QueueConfig) { pool.ConnConfig.DefaultQueryExecMode = mode }
}

func setting(name, value string) option {
	return func(pool *pgxpool.Config, _ *jobstore.QueueConfig) { pool.ConnConfig.RuntimeParams[name] = value }
}

func traced(tracer pgx.QueryTracer) option {
	return func(pool *pgxpool.Config, _ *jobstore.QueueConfig) { pool.ConnConfig.Tracer = tracer }
}

func kinds(kinds ...string) option {
	return func(_ *pgxpool.Config, queue *jobstore.QueueConfig) { queue.Kinds = kinds }
}

// open makes a fixture.
func open(tb testing.TB, options ...option) *fixture {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	tb.Cleanup(cancel)
	db := pgqueuetest.New(tb, pgqueuetest.WithSchema(schemaName))
	f := &fixture{TB: tb, ctx: ctx, schema: pgx.Identifier{schemaName}.Sanitize(), direct: db.DirectURL}
	f.store = must(jobstore.New(schemaName, migrations.Channel(schemaName)))(tb)
	config := must(pgxpool.ParseConfig(db.URL))(f)
	config.MaxConns = 12
	for _, option := range options {
		option(config, &jobstore.QueueConfig{})
	}
	settingsDirectly(f, db, config)
	f.pool = must(pgxpool.NewWithConfig(ctx, config))(f)
	tb.Cleanup(f.pool.Close)
	f.queue = f.newQueue(options...)
	return f
}

// newQueue makes another consumer of the same queue, as another process would.
func (f *fixture) newQueue(options ...option) *jobstore.Queue {
	f.Helper()
	config := jobstore.QueueConfig{Name: queueName, WorkerID: "w1"}
	for _, option := range options {
		option(f.pool.Config(), &config)
	}
	return must(f.store.Queue(f.pool, config))(f)
}

// must is for calls with one value and an error.
func must[T any](value T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return value
	}
}

// sql puts the schema into a statement; % must not occur otherwise.
func (f *fixture) sql(text string) string { return fmt.Sprintf(text, f.schema) }

func (f *fixture) exec(text string, args ...any) pgconn.CommandTag {
	f.Helper()
	return must(f.pool.Exec(f.ctx, f.sql(text), args...))(f)
}

// query1 reads one value.
func query1[T any](f *fixture, text string, args ...any) T {
	f.Helper()
	var value T
	if err := f.pool.QueryRow(f.ctx, f.sql(text), args...).Scan(&value); err != nil {
		f.Fatal(err)
	}
	return value
}

// insert writes n pending jobs of kind "k" and returns their ids in order.
func (f *fixture) insert(n int) []int64 {
	f.Helper()
	rows := must(f.pool.Query(f.ctx, f.sql(`INSERT INTO %s.jobs (queue, kind, payload)
		SELECT $1, 'k', jsonb_build_object('n', n) FROM generate_series(1, $2::int) n RETURNING id`), queueName, n))(f)
	return must(pgx.CollectRows(rows, pgx.RowTo[int64]))(f)
}

func (f *fixture) claim(limit int) []runner.Task[*jobstore.Row] {
	f.Helper()
	return must(f.queue.Claim(f.ctx, runner.ClaimRequest{Limit: limit, Lease: time.Minute}))(f)
}

// claim1 inserts and claims one job.
func (f *fixture) claim1() *jobstore.Row {
	f.Helper()
	f.insert(1)
	tasks := f.claim(1)
	if len(tasks) != 1 {
		f.Fatalf("claimed %d jobs, want 1", len(tasks))
	}
	return tasks[0].Payload
}

type verdict = runner.Verdict[json.RawMessage]

func succeed(row *jobstore.Row) verdict { return verdict{Token: row, Decision: runner.Succeed} }

func succeedWith(row *jobstore.Row, result string) verdict {
	raw := json.RawMessage(result)
	return verdict{Token: row, Decision: runner.Succeed, Result: &raw}
}

func fail(row *jobstore.Row, decision runner.Decision) verdict {
	return verdict{Token: row, Decision: decision, Failure: &runner.Failure{Code: "broken", Message: "it broke"}}
}

// report expects these outcomes.
func (f *fixture) report(verdicts []verdict, want ...runner.Outcome) {
	f.Helper()
	got := must(f.queue.Report(f.ctx, verdicts))(f)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.Fatalf("outcomes %v, want %v", got, want)
	}
}

// replace gives a live job new input, as an enqueue with its key would.
func (f *fixture) replace(id int64) {
	f.Helper()
	f.exec(`UPDATE %s.jobs SET generation = generation + 1, failures = 0, cancel_requested_at = NULL, payload = '{"new": true}' WHERE id = $1`, id)
}

// expire lets the lease of every running job end.
func (f *fixture) expire() {
	f.Helper()
	f.exec(`UPDATE %s.jobs SET lease_expires_at = now() - interval '1 second' WHERE state = 'running'`)
}

// lock holds the row of a job in a transaction of its own until the returned function is called.
func (f *fixture) lock(id int64) (unlock func()) {
	f.Helper()
	tx := must(f.pool.Begin(f.ctx))(f)
	must(tx.Exec(f.ctx, f.sql(`SELECT FROM %s.jobs WHERE id = $1 FOR UPDATE`), id))(f)
	return func() { _ = tx.Rollback(f.ctx) }
}

func (f *fixture) state(id int64) string {
	f.Helper()
	return query1[string](f, `SELECT coalesce((SELECT state FROM %[1]s.jobs WHERE id = $1), (SELECT state FROM %[1]s.history WHERE id = $1), 'absent')`, id)
}

// today is the suffix of today's partition.
func (f *fixture) today() string {
	f.Helper()
	return query1[string](f, `SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD') -- %s`)
}
