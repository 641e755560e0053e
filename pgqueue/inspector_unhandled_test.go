package pgqueue_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func TestUnhandledKinds(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	ctx, inspector := testContext(t), newInspector(t, db.Pool)
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, run_at) VALUES ('a', 'known', now()), ('a', 'renamed', now()), ('b', 'held', now()), ('c', 'later', now() + interval '1 h')`)
	exec(t, db.Pool, `INSERT INTO pgqueue.workers (id, host, pid, version, started_at, seen_at, heartbeat_every, stopping, queues, kinds)
		VALUES ('w', 'h', 1, 'v', now(), now(), interval '10 s', false, '{"a": {"workers": 1}, "b": {"workers": 1}}', '{"known": {}}')`)
	if err := inspector.PauseKind(ctx, pgqueue.KindPause{Kind: "held"}); err != nil {
		t.Fatal(err)
	}
	found, err := inspector.UnhandledKinds(ctx, "a", "b", "c")
	if err != nil || !maps.Equal(found, map[string]string{"a": "renamed"}) {
		t.Errorf("%v, %v", found, err)
	}
	if found, err = inspector.UnhandledKinds(ctx); err != nil || len(found) != 0 {
		t.Errorf("of no queue: %v, %v", found, err)
	}
	var invalid *pgqueue.ValidationError
	if _, err = inspector.UnhandledKinds(ctx, "a", ""); !errors.As(err, &invalid) || invalid.Field != "queues[1]" {
		t.Errorf("of a queue without a name: %v", err)
	}
}
