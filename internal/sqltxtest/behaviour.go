package sqltxtest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/sqltx"
)

// readBack reads jobs inside the transaction that made them, and what became of others.
func readBack(f *fixture) {
	at := time.Date(2031, 2, 3, 4, 5, 6, 789000, time.FixedZone("", -3*3600))
	tx := f.begin(0)
	on := sqltx.On(tx)
	live := must(f.client.Enqueue(f.ctx, on, greet{tricky}, pgqueue.WithTags(tricky, "NULL"), pgqueue.WithRunAt(at), pgqueue.WithKey(tricky)))(f)
	got := must(f.client.Get(f.ctx, on, live.ID))(f)
	var args greet
	if err := json.Unmarshal(got.Payload, &args); err != nil {
		f.Fatal(err)
	}
	if got.State != pgqueue.JobPending || args.Name != tricky || got.Key != tricky || !got.RunAt.Equal(at) || !got.FinishedAt.IsZero() ||
		!slices.Equal(got.Tags, []string{tricky, "NULL"}) || got.CreatedAt.IsZero() {
		f.Errorf("%+v", got)
	}
	if _, err := f.client.Get(f.ctx, on, 1<<40); !errors.Is(err, pgqueue.ErrNotFound) {
		f.Error(err)
	}
	f.exec(tx, "UPDATE pgqueue.jobs SET run_at = 'infinity', tags = '{}'") // which only SQL by hand can make
	if got := must(f.client.Get(f.ctx, on, live.ID))(f); got.State != pgqueue.JobPending || len(got.Tags) != 0 {
		f.Errorf("%+v", got)
	}
	_ = tx.Rollback()

	failed := must(f.client.Enqueue(f.ctx, f.database.Pool, greet{"b"}))(f)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[greet]) error { return pgqueue.Permanent(errors.New("no")) })
	pgqueuetest.Drain(f, f.client, mux)
	if got := must(f.client.Get(f.ctx, sqltx.On(f.db), failed.ID))(f); got.State != pgqueue.JobFailed || len(got.Failed) != 1 || got.FinishedAt.IsZero() {
		f.Errorf("%+v", got)
	}
}

func people(f *fixture) {
	tx := f.begin(0)
	on := sqltx.On(tx)
	job := must(f.client.Enqueue(f.ctx, on, greet{"a"}))(f)
	err := errors.Join(f.client.PauseQueue(f.ctx, on, tricky, tricky), f.client.SetHistory(f.ctx, on, tricky, pgqueue.HistorySlim),
		f.client.ResumeQueue(f.ctx, on, tricky))
	if err != nil {
		f.Error(err)
	}
	if state := must(f.client.SetMaxAttempts(f.ctx, on, job.ID, 9))(f); state != pgqueue.JobPending {
		f.Error(state)
	}
	if state := must(f.client.Cancel(f.ctx, on, job.ID))(f); state != pgqueue.JobCancelled {
		f.Error(state)
	}
	if err := f.client.Retry(f.ctx, on, job.ID); !errors.Is(err, pgqueue.ErrNotFound) {
		f.Error(err)
	}
	f.commit(tx)
	if got := f.get(job.ID); got.State != pgqueue.JobCancelled || got.MaxAttempts != 9 {
		f.Errorf("%+v", got)
	}
}

func hintHeard(f *fixture) {
	conn := must(pgx.ConnectConfig(f.ctx, f.database.Pool.Config().ConnConfig))(f)
	f.Cleanup(func() { _ = conn.Close(context.Background()) })
	must(conn.Exec(f.ctx, "LISTEN "+pgx.Identifier{f.database.Schema}.Sanitize()))(f)
	tx := f.begin(0)
	must(f.client.Enqueue(f.ctx, sqltx.On(tx), greet{"a"}, pgqueue.OnQueue(tricky)))(f)
	f.commit(tx)
	ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
	defer cancel()
	if hint := must(conn.WaitForNotification(ctx))(f); hint.Payload != tricky {
		f.Error(hint.Payload)
	}
}

// held counts the hints that were held back.
type held struct{ n atomic.Int32 }

func (h *held) HintHeld(string) { h.n.Add(1) }

// hintsTogether sends more hints than a burst: in one transaction Postgres folds them.
func hintsTogether(f *fixture) {
	for _, together := range []bool{true, false} {
		watch := &held{}
		client := f.database.Client(f, pgqueue.WithObserver(watch), pgqueue.WithHintWindow(time.Minute))
		tx := f.begin(0)
		for range 50 {
			on := sqltx.On(tx) // a new one each time, as callers make them
			if !together {
				on = sqltx.On(f.db)
			}
			must(client.Enqueue(f.ctx, on, greet{"a"}))(f)
		}
		f.commit(tx)
		if n := watch.n.Load(); together != (n == 0) {
			f.Errorf("one transaction %v: %d were held back", together, n)
		}
	}
}

// serialization is C15 through database/sql: the error of a conflict reaches the caller's retry loop as the driver made it.
func serialization(f *fixture) {
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		key := pgqueue.WithKey(level.String())
		tx := f.begin(level)
		f.exec(tx, "SELECT 1")
		must(f.client.Enqueue(f.ctx, f.database.Pool, greet{"a"}, key))(f)
		if _, err := f.client.Enqueue(f.ctx, sqltx.On(tx), greet{"b"}, key); sqlState(err) != "40001" {
			f.Errorf("%s: %v", level, err)
		}
		_ = tx.Rollback()
		again := f.begin(level)
		if enqueued := must(f.client.Enqueue(f.ctx, sqltx.On(again), greet{"b"}, key))(f); enqueued.Outcome != pgqueue.Replaced {
			f.Errorf("%s: %+v", level, enqueued)
		}
		f.commit(again)
	}
}

func failedTransaction(f *fixture) {
	for _, queues := range [][]string{{"a"}, {"a", "b"}} { // one statement, and a batch
		tx := f.begin(0)
		_, _ = tx.ExecContext(f.ctx, "SELECT 1/0") // aborts it
		var jobs []pgqueue.NewJob
		for _, queue := range queues {
			jobs = append(jobs, pgqueue.NewJob{Args: greet{"a"}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue(queue)}})
		}
		if _, err := f.client.EnqueueMany(f.ctx, sqltx.On(tx), jobs); sqlState(err) != "25P02" {
			f.Errorf("%q: %v", queues, err)
		}
		_ = tx.Rollback()
		if _, err := f.client.EnqueueMany(f.ctx, sqltx.On(tx), jobs); !errors.Is(err, sql.ErrTxDone) {
			f.Errorf("%q, ended: %v", queues, err)
		}
	}
	for _, on := range []pgqueue.Querier{sqltx.On(nil), sqltx.On((*sql.Tx)(nil))} {
		if _, err := f.client.Enqueue(f.ctx, on, greet{"a"}); err == nil {
			f.Error("a nil transaction was taken")
		}
	}
}

// explained has errors of the database recognized whatever type the driver gives them.
func explained(f *fixture) {
	tx := f.begin(0)
	f.exec(tx, "SET TRANSACTION READ ONLY")
	if _, err := f.client.Enqueue(f.ctx, sqltx.On(tx), greet{"a"}); !errors.Is(err, pgqueue.ErrReadOnly) || sqlState(err) != "25006" {
		f.Errorf("in a read-only transaction: %v", err)
	}
	elsewhere := must(pgqueue.NewClient(f.database.Pool, pgqueue.WithSchema("elsewhere")))(f)
	if _, err := elsewhere.Enqueue(f.ctx, sqltx.On(f.db), greet{"a"}); !errors.Is(err, pgqueue.ErrSchema) {
		f.Errorf("without a schema: %v", err)
	}
}

func savepoint(f *fixture) {
	tx := f.begin(0)
	kept := must(f.client.Enqueue(f.ctx, sqltx.On(tx), greet{"kept"}))(f)
	f.exec(tx, "SAVEPOINT s")
	must(f.client.Enqueue(f.ctx, sqltx.On(tx), greet{"gone"}))(f)
	f.exec(tx, "ROLLBACK TO s")
	f.commit(tx)
	if job := pgqueuetest.RequireEnqueued[greet](f, f.database.Pool); job.ID != kept.ID {
		f.Errorf("%+v", job)
	}
}

// sessionSettings are those by which times and strings are read otherwise.
func sessionSettings(f *fixture) {
	at := time.Date(2031, 2, 3, 4, 5, 6, 0, time.FixedZone("", 9*3600))
	tx := f.begin(0)
	f.exec(tx, "SET LOCAL DateStyle = 'SQL, DMY'")
	f.exec(tx, "SET LOCAL TimeZone = 'Asia/Kathmandu'")
	f.exec(tx, "SET LOCAL search_path = pg_catalog")
	one := must(f.client.Enqueue(f.ctx, sqltx.On(tx), greet{tricky}, pgqueue.WithRunAt(at), pgqueue.WithTags(tricky)))(f)
	many := must(f.client.EnqueueMany(f.ctx, sqltx.On(tx), []pgqueue.NewJob{
		{Args: greet{tricky}, Options: []pgqueue.EnqueueOption{pgqueue.WithRunAt(at), pgqueue.WithTags(tricky)}},
		{Args: greet{"b"}},
	}))(f)
	f.commit(tx)
	for _, id := range []int64{one.ID, many[0].ID} {
		if got := f.get(id); !got.RunAt.Equal(at) || !slices.Equal(got.Tags, []string{tricky}) {
			f.Errorf("%+v", got)
		}
	}
}

func closedBatch(f *fixture) {
	tx := f.begin(0)
	batch := &pgx.Batch{}
	batch.Queue("CREATE TEMPORARY TABLE sent ON COMMIT DROP AS SELECT 7 AS n")
	var n int
	batch.Queue("SELECT n FROM sent").QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	if err := sqltx.On(tx).SendBatch(f.ctx, batch).Close(); err != nil || n != 7 {
		f.Errorf("%d: %v", n, err)
	}
	raw, missing, name := json.RawMessage(`{"a":1}`), (*string)(nil), greet{}.Kind()
	batch = &pgx.Batch{}
	var same bool
	batch.Queue("SELECT $1::jsonb = '{\"a\":1}' AND $2::text IS NULL AND $3::text = 'greet' AND $4::text[] IS NULL AND $5::int[] = '{1,NULL}' AND $6::float8 = 0.5 AND $7::bool",
		raw, missing, &name, []string(nil), []*int{&n, nil}[:2], float32(0.5), true).QueryRow(func(row pgx.Row) error { return row.Scan(&same) })
	n = 1
	if err := sqltx.On(tx).SendBatch(f.ctx, batch).Close(); err != nil || !same {
		f.Errorf("the arguments did not arrive: %v", err)
	}
	if _, err := sqltx.On(tx).Query(f.ctx, "SELECT $1", time.Second); err == nil {
		f.Error("a duration was sent")
	}
	batch = &pgx.Batch{}
	batch.Queue("SELECT 1/0")
	batch.Queue("SELECT 1")
	if err := sqltx.On(tx).SendBatch(f.ctx, batch).Close(); sqlState(err) != "22012" {
		f.Error(err)
	}
}
