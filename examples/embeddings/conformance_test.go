package main

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/queuetest"
)

// fixture is a database with the example's tables.
type fixture struct {
	testing.TB
	pool  *pgxpool.Pool
	url   string
	queue *queue
}

func open(t testing.TB) *fixture {
	t.Helper()
	db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations()) // the example needs no table of pgqueue's
	f := &fixture{TB: t, pool: db.Pool, url: db.URL}
	f.exec(schemaSQL)
	f.queue = &queue{pool: db.Pool, maxAttempts: 3, freshness: &freshness{}}
	return f
}

func (f *fixture) exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.pool.Exec(context.Background(), sql, args...); err != nil {
		f.Fatalf("%s: %v", sql, err)
	}
}

// TestConformance: this is all it takes to know that a queue written by hand does what the runner relies on.
func TestConformance(t *testing.T) {
	shared := open(t)
	queuetest.Run(t, func(tb testing.TB) queuetest.Harness[Document, Vector] {
		f := &fixture{TB: tb, pool: shared.pool, queue: shared.queue}
		f.exec(`TRUNCATE search.documents, search.embeddings`)
		return f.harness()
	})
}

func (f *fixture) harness() queuetest.Harness[Document, Vector] {
	ids, names := map[string]int64{}, map[int64]string{}
	id := func(name string) int64 {
		if ids[name] == 0 {
			ids[name] = int64(len(ids) + 1)
			names[ids[name]] = name
		}
		return ids[name]
	}
	return queuetest.Harness[Document, Vector]{
		Queue:  f.queue,
		Budget: f.queue.maxAttempts,
		// There is one kind of work and no precedence, every payload can be read, and nobody cancels a claim from outside: a
		// document is withdrawn or deleted instead. A claim that was recovered is closed for good.
		Without: []queuetest.Capability{queuetest.Kinds, queuetest.Classes, queuetest.Undecodable, queuetest.CancelRequests,
			queuetest.LateSuccess},
		Add: func(item queuetest.NewItem) {
			f.save(id(item.Name), item.Revision)
			f.exec(`UPDATE search.embeddings SET due_at = statement_timestamp() + $2::bigint * interval '1 microsecond' WHERE document_id = $1`,
				id(item.Name), item.Due.Microseconds())
		},
		Delete: func(name string) {
			if err := deleteDocument(context.Background(), f.pool, id(name)); err != nil {
				f.Fatal(err)
			}
		},
		Look: func(name string) queuetest.Item { return f.look(id(name)) },
		Name: func(task runner.Task[Document]) string { return names[task.Payload.ID] },
		MakeDue: func(name string) {
			f.exec(`UPDATE search.embeddings SET due_at = statement_timestamp() WHERE document_id = $1`, id(name))
		},
		ExpireLeases: func() {
			f.exec(`UPDATE search.embeddings SET lease_expires_at = statement_timestamp() - interval '1 second' WHERE state = 'claimed'`)
		},
		Recover: func(ctx context.Context, limit int) (int, error) {
			recovered, err := f.queue.Recover(ctx, limit)
			return recovered.Total(), err
		},
		Replace:        func(name, revision string) { f.save(id(name), revision) },
		Revision:       func(document Document) string { return bodyOf[document.Hash] },
		Result:         vectorOf,
		BadResult:      func() Vector { return Vector{float32(math.NaN())} },
		MakeIneligible: func(name string) { f.exec(`UPDATE search.documents SET withdrawn = true WHERE id = $1`, id(name)) },
		Lock:           func(name string) func() { return f.lock(id(name)) },
	}
}

// bodyOf tells the body of a hash. The suite's revisions are the bodies, and few.
var bodyOf = func() map[string]string {
	bodies := map[string]string{}
	for _, body := range []string{"r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"} {
		bodies[hashOf(body)] = body
	}
	return bodies
}()

func (f *fixture) save(id int64, body string) {
	f.Helper()
	if err := saveDocument(context.Background(), f.pool, id, body); err != nil {
		f.Fatal(err)
	}
}

// vectorOf writes a text into a vector.
func vectorOf(text string) Vector {
	v := make(Vector, dimensions)
	v[0] = float32(len(text))
	for i, b := range []byte(text) {
		v[i+1] = float32(b)
	}
	return v
}

func textOf(v Vector) string {
	text := make([]byte, int(v[0]))
	for i := range text {
		text[i] = byte(v[i+1])
	}
	return string(text)
}

func (f *fixture) look(id int64) queuetest.Item {
	f.Helper()
	states := map[string]queuetest.State{
		"waiting": queuetest.Waiting, "claimed": queuetest.Claimed, "stored": queuetest.Succeeded,
		"failed": queuetest.Failed, "dead": queuetest.Dead, "cancelled": queuetest.Cancelled,
	}
	var item queuetest.Item
	var state, hash string
	var vector Vector
	var due int64
	err := f.pool.QueryRow(context.Background(), `
		SELECT state, attempts, failures, hash, vector, (extract(epoch FROM due_at - clock_timestamp()) * 1e6)::bigint
		FROM search.embeddings
		WHERE document_id = $1`, id).Scan(&state, &item.Attempts, &item.Failures, &hash, &vector, &due)
	if err == pgx.ErrNoRows {
		return queuetest.Item{}
	}
	if err != nil {
		f.Fatal(err)
	}
	item.State, item.Revision, item.DueIn = states[state], bodyOf[hash], time.Duration(due)*time.Microsecond
	if vector != nil {
		item.HasResult, item.Result = true, textOf(vector)
	}
	return item
}

// lock holds the queue's row as another session of the application does.
func (f *fixture) lock(id int64) (unlock func()) {
	f.Helper()
	tx, err := f.pool.Begin(context.Background())
	if err != nil {
		f.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), `SELECT FROM search.embeddings WHERE document_id = $1 FOR UPDATE`, id); err != nil {
		f.Fatal(err)
	}
	return sync.OnceFunc(func() { _ = tx.Rollback(context.Background()) })
}
