package jobstore_test

import (
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// A result that Postgres refuses costs that attempt, and not the transaction; and all of it goes with a rollback.
func TestQueueTxSurvivesWhatPostgresRefuses(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.insert(1)[0]
	tx := must(f.pool.Begin(f.ctx))(t)
	defer func() { _ = tx.Rollback(f.ctx) }()
	queue := must(f.store.QueueTx(tx, jobstore.QueueConfig{Name: queueName, WorkerID: "in tx"}))(t)
	must(tx.Exec(f.ctx, f.sql(`INSERT INTO %s.jobs (queue, kind) VALUES ($1, 'later')`), queueName))(t)

	request := runner.ClaimRequest{Limit: 10, Lease: time.Minute}
	tasks := must(queue.Claim(f.ctx, request))(t)
	if len(tasks) != 2 || tasks[0].Payload.ID != id {
		t.Fatalf("claimed %v", tasks)
	}
	outcomes := must(queue.Report(f.ctx, []verdict{succeedWith(tasks[0].Payload, `1e999999`), succeedWith(tasks[1].Payload, `1`)}))(t)
	if outcomes[0] != runner.Retrying || outcomes[1] != runner.Succeeded {
		t.Fatalf("outcomes %v", outcomes)
	}
	var code, setting string
	if err := tx.QueryRow(f.ctx, f.sql(`SELECT errors->-1->>'code', current_setting('plan_cache_mode') FROM %s.jobs WHERE id = $1`), id).
		Scan(&code, &setting); err != nil {
		t.Fatal(err)
	}
	if code != jobstore.CodeResultRejected || setting != "auto" {
		t.Errorf("code %q, and a setting was left in the transaction: %q", code, setting)
	}
	if f.state(id) != "pending" || query1[int](f, `SELECT count(*) FROM %s.jobs`) != 1 {
		t.Error("others see what is not committed")
	}
	if err := tx.Rollback(f.ctx); err != nil {
		t.Fatal(err)
	}
	if got := f.claim(10); len(got) != 1 || got[0].Attempt != 1 {
		t.Errorf("after the rollback: %v", got)
	}
}

func TestQueueTxNeedsATransaction(t *testing.T) {
	t.Parallel()
	f := open(t)
	if _, err := f.store.QueueTx(nil, jobstore.QueueConfig{Name: "q", WorkerID: "w"}); err == nil {
		t.Error("none was taken")
	}
}
