package jobstore_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/queuetest"
)

// Every mode in which pgx can send our statements must give the same queue, with the three settings of history, and in
// sessions that begin in another isolation level.
func TestConformance(t *testing.T) {
	forms := map[string][]option{
		"repeatable_read": {setting("default_transaction_isolation", "repeatable read")},
		"serializable":    {setting("default_transaction_isolation", "serializable")},
	}
	for _, m := range everyMode(t) {
		forms[m.String()] = []option{mode(m)}
	}
	for name, options := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conform(t, "full", options...)
		})
	}
	for _, history := range []string{"slim", "off"} {
		t.Run(history, func(t *testing.T) {
			t.Parallel()
			conform(t, history)
		})
	}
}

// conform runs the suite on one database that is emptied for each case.
func conform(t *testing.T, history string, options ...option) {
	options = append(options, kinds(queuetest.KindA, queuetest.KindB))
	shared := open(t, options...)
	queuetest.Run(t, func(tb testing.TB) queuetest.Harness[*jobstore.Row, json.RawMessage] {
		f := &fixture{TB: tb, ctx: shared.ctx, pool: shared.pool, store: shared.store, schema: shared.schema}
		f.exec(`TRUNCATE %[1]s.jobs, %[1]s.history, %[1]s.queues`)
		f.queue = f.newQueue(options...)
		f.queue.AlwaysFull() // the suite releases locks and looks at once
		return harness(tb, f, history)
	})
}

// harness gives the suite a queue that keeps this history.
func harness(tb testing.TB, f *fixture, history string) queuetest.Harness[*jobstore.Row, json.RawMessage] {
	if history != "full" {
		if err := f.store.SetHistory(f.ctx, f.pool, queueName, history); err != nil {
			tb.Fatal(err)
		}
	}
	// A name is the job's key. A job that is added again under its key has a number of its own, as from the sequence.
	ids, names := map[string]int64{}, map[int64]string{}
	id := func(name string) int64 { return ids[name] }
	draw := func(name string) int64 {
		ids[name] = int64(len(names) + 1)
		names[ids[name]] = name
		return ids[name]
	}
	h := queuetest.Harness[*jobstore.Row, json.RawMessage]{
		Queue:   f.queue,
		Budget:  3,
		Without: []queuetest.Capability{queuetest.Eligibility},
		Add: func(item queuetest.NewItem) {
			f.exec(`INSERT INTO %s.jobs (id, queue, kind, priority, key, revision, run_at, max_attempts)
				VALUES ($1, $2, $3, $4, $5, $6, now() + $7::bigint * interval '1 microsecond', 3)`,
				draw(item.Name), queueName, item.Kind, int16(item.Class), item.Name, item.Revision, item.Due.Microseconds())
		},
		Delete: func(name string) { f.exec(`DELETE FROM %s.jobs WHERE id = $1`, id(name)) },
		Look: func(name string) queuetest.Item {
			item := f.item(id(name))
			if history == "off" && item.State >= queuetest.Succeeded {
				if item.State == queuetest.Succeeded {
					tb.Errorf("a success of %q is kept", name)
				}
				return queuetest.Item{} // what failed is kept all the same, which the suite does not expect
			}
			return item
		},
		Name: func(task runner.Task[*jobstore.Row]) string { return names[task.Payload.ID] },
		MakeDue: func(name string) {
			f.exec(`UPDATE %s.jobs SET run_at = now() - interval '1 second' WHERE id = $1`, id(name))
		},
		ExpireLeases: f.expire,
		Recover: func(ctx context.Context, limit int) (int, error) {
			recovered, err := f.queue.Recover(ctx, limit)
			return recovered.Total(), err
		},
		Replace: func(name, revision string) {
			f.exec(`UPDATE %s.jobs SET generation = generation + 1, failures = 0, cancel_requested_at = NULL, revision = $2 WHERE id = $1`,
				id(name), revision)
		},
		Revision:  func(row *jobstore.Row) string { return *row.Revision },
		Result:    func(text string) json.RawMessage { return must(json.Marshal(text))(tb) },
		BadResult: func() json.RawMessage { return json.RawMessage(`{"n": 1e999999}`) },
		Lock:      func(name string) func() { return f.lock(id(name)) },
		AddUndecodable: func(name string) {
			f.exec(`INSERT INTO %s.jobs (id, queue, kind, tags) VALUES ($1, $2, $3, '{NULL}')`, draw(name), queueName, queuetest.KindA)
		},
		RequestCancel: func(name string) {
			if got := must(f.store.Cancel(f.ctx, f.pool, id(name)))(tb); got != jobstore.CancelRequested {
				tb.Fatalf("Cancel said %q", got)
			}
		},
	}
	if history == "off" {
		h.Without = append(h.Without, queuetest.History, queuetest.Results, queuetest.BadResults)
		h.Result, h.BadResult = nil, nil
	}
	return h
}

// item reads how a job stands, live or finished.
func (f *fixture) item(id int64) queuetest.Item {
	f.Helper()
	var item queuetest.Item
	var state string
	var revision, result *string
	var due int64
	err := f.pool.QueryRow(f.ctx, f.sql(`
		SELECT state, attempt, failures, revision, NULL, (extract(epoch FROM run_at - clock_timestamp()) * 1e6)::bigint FROM %[1]s.jobs WHERE id = $1
		UNION ALL
		SELECT state, attempt, failures, revision, result #>> '{}', 0 FROM %[1]s.history WHERE id = $1 LIMIT 1`), id).
		Scan(&state, &item.Attempts, &item.Failures, &revision, &result, &due)
	if err == pgx.ErrNoRows {
		return item
	}
	if err != nil {
		f.Fatal(err)
	}
	states := map[string]queuetest.State{
		"pending": queuetest.Waiting, "running": queuetest.Claimed, "succeeded": queuetest.Succeeded,
		"failed": queuetest.Failed, "dead": queuetest.Dead, "cancelled": queuetest.Cancelled,
	}
	item.State = states[state]
	item.DueIn = time.Duration(due) * time.Microsecond
	if revision != nil {
		item.Revision = *revision
	}
	if result != nil {
		item.HasResult, item.Result = true, *result
	}
	return item
}
