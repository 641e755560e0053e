package pgqueue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func TestEnqueueCopyWritesWhatEnqueueManyWrites(t *testing.T) {
	t.Parallel()
	for _, mode := range everyMode(t) {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			copyEqualsMany(t, mode)
		})
	}
}

func copyEqualsMany(t *testing.T, mode pgx.QueryExecMode) {
	ctx := testContext(t)
	db := pgqueuetest.New(t, pgqueuetest.WithPoolConfig(func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
	client := newClient(t, db.Pool)
	due := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	jobs := []pgqueue.NewJob{
		{Args: greet{Name: "plain"}},
		{Args: greet{Name: "all"}, Options: []pgqueue.EnqueueOption{
			pgqueue.OnQueue("mail"), pgqueue.WithPriority(pgqueue.PriorityCatchUp), pgqueue.WithTags("a", "b,\"c"),
			pgqueue.WithMetadata(map[string]any{"n": 1}), pgqueue.WithMaxAttempts(9), pgqueue.WithRunAt(due),
		}},
		{Args: pgqueue.Raw{Name: "raw", Payload: json.RawMessage(`{"id":9007199254740993}`)}},
	}
	const rows = `SELECT queue, kind, payload::text, metadata::text, tags::text, priority::int, max_attempts::int, key,
		state, attempt, CASE WHEN run_at > now() + interval '1 minute' THEN run_at END FROM pgqueue.jobs ORDER BY queue, id`
	read := func() []string {
		found, err := db.Pool.Query(ctx, rows)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (string, error) {
			values, err := row.Values()
			return fmt.Sprint(values...), err
		})
		if err != nil {
			t.Fatal(err)
		}
		exec(t, db.Pool, "DELETE FROM pgqueue.jobs")
		return lines
	}
	if _, err := client.EnqueueMany(ctx, db.Pool, jobs); err != nil {
		t.Fatal(err)
	}
	want := read()
	written, err := client.EnqueueCopy(ctx, db.Pool, jobs)
	if err != nil || written != 3 {
		t.Fatalf("EnqueueCopy wrote %d: %v", written, err)
	}
	if got := read(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("by copy:\n%q\nby EnqueueMany:\n%q", got, want)
	}
}

func TestEnqueueCopyIsPartOfTheTransaction(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	jobs := make([]pgqueue.NewJob, 5000)
	for i := range jobs {
		jobs[i] = pgqueue.NewJob{Args: greet{Name: fmt.Sprint(i)}, Options: []pgqueue.EnqueueOption{pgqueue.WithDelay(time.Minute)}}
	}
	tx := begin(t, db.Pool, pgx.TxOptions{})
	if _, err := client.EnqueueCopy(ctx, tx, jobs); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	tx = begin(t, db.Pool, pgx.TxOptions{})
	if _, err := client.EnqueueCopy(ctx, tx, jobs); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	var count int
	var inOrder bool
	if err := db.Pool.QueryRow(ctx, `SELECT count(*), bool_and((payload->>'name')::bigint = id - first)
		FROM (SELECT *, min(id) OVER () AS first FROM pgqueue.jobs WHERE run_at > now() + interval '30 seconds'
			AND run_at < now() + interval '2 minutes') j`).Scan(&count, &inOrder); err != nil {
		t.Fatal(err)
	}
	if count != len(jobs) || !inOrder {
		t.Errorf("%d jobs are due in a minute (want %d), in the order of the slice: %t", count, len(jobs), inOrder)
	}
}

func TestEnqueueCopyRefusesBeforeAnySQL(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	tx := begin(t, db.Pool, pgx.TxOptions{})
	for name, job := range map[string]pgqueue.NewJob{
		"jobs[1].key":          {Args: greet{}, Options: []pgqueue.EnqueueOption{pgqueue.WithKey("k")}},
		"jobs[1].payload.name": {Args: greet{Name: "\x00"}},
	} {
		_, err := client.EnqueueCopy(ctx, tx, []pgqueue.NewJob{{Args: greet{}}, job})
		var refused *pgqueue.ValidationError
		if !errors.As(err, &refused) || refused.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if written, err := client.EnqueueCopy(ctx, tx, nil); written != 0 || err != nil {
		t.Errorf("no jobs: %d, %v", written, err)
	}
	var count int
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM pgqueue.jobs").Scan(&count); err != nil || count != 0 {
		t.Errorf("%d jobs, %v: the transaction should be as before", count, err)
	}
}
