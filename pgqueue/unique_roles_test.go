package pgqueue_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// The roles of docs/roles.md: a producer enqueues by rules, an operator frees keys, a worker deletes expired ones. None may do more.
func TestRolesOfUniqueKeys(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	shop, onCall, app := as("shop"), as("on_call"), as("app")
	client := newClient(t, shop)
	first := enqueue(t, client, shop, greet{}, pgqueue.WithIdempotencyKey("k", day))
	requireDuplicate(t, enqueue(t, client, shop, greet{}, pgqueue.WithIdempotencyKey("k", day)), first.ID, pgqueue.JobPending)
	exec(t, db.Pool, "UPDATE pgqueue.unique_keys SET expires_at = statement_timestamp()")
	requireOutcome(t, enqueue(t, client, shop, greet{}, pgqueue.WithIdempotencyKey("k", day)), pgqueue.Inserted)
	enqueue(t, client, shop, greet{}, pgqueue.WithKey("k"), pgqueue.WithDebounce(time.Second, time.Minute))
	if got := enqueueSQL(t, shop, "'greet', unique_by => 'args'"); got.Outcome != pgqueue.Inserted {
		t.Error(got)
	}
	requireForbidden(t, shop, "DELETE FROM pgqueue.unique_keys")
	requireForbidden(t, shop, "SELECT pgqueue.release_key('default', 'greet', 'k')")
	requireForbidden(t, shop, "SELECT pgqueue.expire_unique_keys()")
	requireForbidden(t, onCall, "DELETE FROM pgqueue.unique_keys")
	inspector, err := pgqueue.NewInspector(onCall, pgqueue.InspectorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := inspector.ReleaseKey(testContext(t), "default", "greet", "k"); id == 0 || err != nil {
		t.Error(id, err)
	}
	enqueue(t, client, shop, greet{}, pgqueue.WithIdempotencyKey("k", day))
	exec(t, db.Pool, "UPDATE pgqueue.unique_keys SET expires_at = expires_at - interval '2 days'")
	if n := one[int](t, app, "SELECT pgqueue.expire_unique_keys()"); n != 1 {
		t.Errorf("%d deleted", n)
	}
}

// A worker without the right of version 4 says so once and does the rest of its upkeep and its work.
func TestAWorkerThatMayNotDeleteKeysWorksOn(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	exec(t, db.Pool, "REVOKE EXECUTE ON FUNCTION pgqueue.expire_unique_keys(int) FROM pgqueue_worker")
	exec(t, db.Pool, `INSERT INTO pgqueue.unique_keys VALUES (1, now(), now() - interval '1 day', 'default', 'greet', 'key:old')`)
	log := &safeBuffer{}
	client := newClient(t, as("app"), pgqueue.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[greet]) error { return nil })
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
	const said = "expired unique keys are not deleted"
	eventually(t, "the worker says so", func() bool { return strings.Contains(log.String(), said) })
	awaitState(t, db.Pool, enqueue(t, client, as("app"), greet{}).ID, "succeeded")
	if err := worker.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), said); n != 1 {
		t.Errorf("it was said %d times", n)
	}
	if strings.Contains(log.String(), "maintain") {
		t.Errorf("upkeep failed:\n%s", log.String())
	}
}
