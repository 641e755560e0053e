package pgqueue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Below the bound counts are exact, whatever the filter, and a dry run agrees.
func TestCountsCountWhatMatches(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	n := 600
	zoo(t, db.Pool, n)
	all := animals(t, db.Pool)
	inspector := newInspector(t, db.Pool)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for range 150 {
		filter := randomFilter(r, n)
		want := map[pgqueue.JobState]int{}
		total, ended := 0, 0
		for i := range all {
			if matches(&filter, &all[i]) {
				want[all[i].State]++
				total++
				if !all[i].State.Live() {
					ended++
				}
			}
		}
		counts, err := inspector.Counts(testContext(t), filter)
		if err != nil {
			t.Fatal(err)
		}
		if counts.Total != (pgqueue.Count{N: total}) {
			t.Fatalf("seed %d: %+v: %+v, want %d", seed, filter, counts.Total, total)
		}
		for state, count := range counts.ByState {
			if count != (pgqueue.Count{N: want[state]}) {
				t.Fatalf("seed %d: %+v: %s is %+v, want %d", seed, filter, state, count, want[state])
			}
		}
		if states := len(filter.States); states > 0 && len(counts.ByState) != states || states == 0 && len(counts.ByState) != 6 {
			t.Fatalf("%d states for %v", len(counts.ByState), filter.States)
		}
		if len(filter.States) == 0 {
			dry, err := inspector.Purge(testContext(t), filter, pgqueue.BulkOptions{DryRun: true})
			if err != nil || dry.Matched != ended {
				t.Fatalf("seed %d: dry run of %+v: %+v, %v, want %d", seed, filter, dry, err, ended)
			}
		}
	}
}

// Beyond the bound they say so, each index for itself.
func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	const n = 5*pgqueue.MaxStatsCount/2 + 5
	insertDead(t, db.Pool, 0, n)
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (id, queue, kind) SELECT 100000 + g, 'q' || g % 3, 'k' FROM generate_series(1, $1::int) g`, n)
	record := &sent{}
	inspector := newInspector(t, poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = record }))
	for name, c := range map[string]struct {
		filter pgqueue.Filter
		state  pgqueue.JobState
		want   pgqueue.Count
	}{
		"dead":             {none, "dead", pgqueue.Count{N: pgqueue.MaxStatsCount, More: true}},
		"none looks dead":  {pgqueue.Filter{Kind: "nope"}, "dead", pgqueue.Count{More: true}},
		"pending":          {none, "pending", pgqueue.Count{N: pgqueue.MaxStatsCount, More: true}},
		"pending, a queue": {pgqueue.Filter{Queue: "q0"}, "pending", pgqueue.Count{N: n / 3}},
		"succeeded":        {none, "succeeded", pgqueue.Count{}},
		"by number":        {pgqueue.Filter{MinID: 5}, "running", pgqueue.Count{More: true}},
		"few by number":    {pgqueue.Filter{MinID: 11, MaxID: 20}, "dead", pgqueue.Count{N: 10}},
	} {
		requireIndexed(t, db.Pool, record, name, 2*(pgqueue.MaxStatsCount+30), func() {
			counts, err := inspector.Counts(testContext(t), c.filter)
			if err != nil || counts.ByState[c.state] != c.want {
				t.Errorf("%s: %+v, %v, want %+v", name, counts.ByState[c.state], err, c.want)
			}
		})
	}
	var report *pgqueue.AttentionReport
	var err error
	requireIndexed(t, db.Pool, record, "attention", pgqueue.MaxStatsCount+30, func() { report, err = inspector.Attention(testContext(t), none) })
	if err != nil || !report.More || len(report.Groups) != 1 || report.Groups[0].N != pgqueue.MaxStatsCount+1 {
		t.Errorf("attention: %+v, %v", report, err)
	}
}

// What failed in the same way is one group, which can be listed and acted on.
func TestAttentionGroups(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	insertDead(t, db.Pool, 0, 12)
	exec(t, db.Pool, `UPDATE pgqueue.history SET error_count = 2, queue = CASE WHEN id > 10 THEN 'other' ELSE queue END,
		state = CASE WHEN id = 10 THEN 'failed' ELSE state END,
		errors = jsonb_build_array(jsonb_build_object('code', 'old'), jsonb_build_object('code', CASE WHEN id <= 5 THEN 'timeout' ELSE 'broken' END))`)
	inspector := newInspector(t, db.Pool)
	report, err := inspector.Attention(testContext(t), none)
	if err != nil || report.More {
		t.Fatal(report, err)
	}
	var got string
	for _, g := range report.Groups {
		got += fmt.Sprintf("%s %s %s %s %d, last %d after %s; ", g.State, g.Code, g.Kind, g.Queue, g.N, g.LastID, g.Last.Sub(g.First))
	}
	const want = "dead timeout task default 5, last 5 after 4s; dead broken task default 4, last 9 after 3s; " +
		"dead broken task other 2, last 12 after 1s; failed broken task default 1, last 10 after 0s; "
	if got != want {
		t.Errorf("groups\n%s, want\n%s", got, want)
	}
	if page := list(t, inspector, report.Groups[1].Filter(), pgqueue.ListOptions{}); !equal(ids(page.Jobs), []int64{9, 8, 7, 6}) {
		t.Errorf("the jobs of a group: %v", ids(page.Jobs))
	}
	if report, err = inspector.Attention(testContext(t), pgqueue.Filter{Queue: "other"}); err != nil || len(report.Groups) != 1 || report.Groups[0].N != 2 {
		t.Errorf("of a queue: %+v, %v", report, err)
	}
	if result, err := inspector.RetryMany(testContext(t), report.Groups[0].Filter(), pgqueue.BulkOptions{}); err != nil || result.Done != 2 {
		t.Errorf("retry of a group: %+v, %v", result, err)
	}
}

func TestInspectorWorkersAndReasons(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := newInspector(t, db.Pool)
	ctx := testContext(t)
	if workers, err := inspector.Workers(ctx); err != nil || len(workers) != 0 {
		t.Errorf("of an empty table: %v, %v", workers, err)
	}
	exec(t, db.Pool, `SELECT pgqueue.heartbeat('w1', 'host', 7, 'v2', now() - interval '1 h', interval '10 s', false,
		'{"mail": {"workers": 10, "in_flight": 3, "buffered": 2, "stuck": 1, "paused_until": "2030-01-02T03:04:05Z"}, "odd": 5}',
		'{"send": {"workers": 5, "in_flight": {"mail": 2}}, "old_send": {"alias_of": "send"}}')`)
	exec(t, db.Pool, `SELECT pgqueue.heartbeat('w2', 'host', 8, '', now(), interval '10 s', true, '{}', '{}');
		UPDATE pgqueue.workers SET seen_at = now() - interval '50 minutes' WHERE id = 'w2'`)
	workers, err := inspector.Workers(ctx)
	if err != nil || len(workers) != 2 {
		t.Fatal(workers, err)
	}
	w := workers[0]
	if w.ID != "w1" || w.Host != "host" || w.PID != 7 || w.Version != "v2" || !w.Alive || w.Stopping || w.Every != 10*time.Second ||
		w.SeenAt.Sub(w.StartedAt) < time.Hour || len(w.Queues) != 1 || w.Queues["mail"].PausedUntil.Year() != 2030 || w.Kinds["old_send"].AliasOf != "send" ||
		w.Queues["mail"].Workers != 10 || w.Queues["mail"].Stuck != 1 || w.Kinds["send"].InFlight["mail"] != 2 {
		t.Errorf("worker %+v", w)
	}
	if workers[1].Alive || !workers[1].Stopping {
		t.Errorf("a dead worker: %+v", workers[1])
	}

	id := place(t, db, pgqueue.JobPending)
	if err := inspector.PauseQueue(ctx, "default", "the provider is down"); err != nil {
		t.Fatal(err)
	}
	if reason, err := inspector.WhyNotRunning(ctx, id); err != nil || reason == "" {
		t.Errorf("why: %q, %v", reason, err)
	}
	if stats, err := inspector.Queues(ctx); err != nil || len(stats) != 1 || stats[0].PausedReason != "the provider is down" || stats[0].Ready[0].N != 1 {
		t.Errorf("queues: %+v, %v", stats, err)
	}
	_, err = inspector.Queues(ctx, "default", "\xff")
	requireInvalid(t, err, "queues[1]")
}

// The inspector works through a pooler's modes, in which nothing is prepared.
func TestInspectorInEveryMode(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	zoo(t, db.Pool, 300)
	for _, mode := range everyMode(t) {
		inspector := newInspector(t, poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.DefaultQueryExecMode = mode }))
		ctx := testContext(t)
		filter := pgqueue.Filter{
			States: []pgqueue.JobState{"failed", "dead"}, Queue: "a", Tags: []string{}, Payload: json.RawMessage(`{"user": {}}`), MinID: 1,
			Finished: pgqueue.TimeRange{From: time.Now().Add(-100 * time.Hour)},
		}
		seen, _ := walk(t, inspector, filter, pgqueue.ListOptions{Limit: 7, Order: pgqueue.OrderLatestEnded})
		counts, err := inspector.Counts(ctx, filter)
		if err != nil || len(seen) == 0 || counts.Total.N != len(seen) {
			t.Errorf("%s: saw %d, counted %+v, %v", mode, len(seen), counts, err)
		}
		if _, err := inspector.Attention(ctx, filter); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if result, err := inspector.RetryMany(ctx, pgqueue.Filter{IDs: seen[:2]}, pgqueue.BulkOptions{Spread: time.Hour}); err != nil || result.Matched != 2 {
			t.Errorf("%s, retry: %+v, %v", mode, result, err)
		}
		if result, err := inspector.Purge(ctx, pgqueue.Filter{IDs: seen[2:4]}, pgqueue.BulkOptions{}); err != nil || result.Done != 2 {
			t.Errorf("%s, purge: %+v, %v", mode, result, err)
		}
		pending := list(t, inspector, pgqueue.Filter{States: []pgqueue.JobState{"pending"}, Queue: "a"}, pgqueue.ListOptions{Order: pgqueue.OrderNextDue}).Jobs
		if len(pending) == 0 {
			continue
		}
		if result, err := inspector.CancelMany(ctx, pgqueue.Filter{IDs: []int64{pending[0].ID}}, pgqueue.BulkOptions{}); err != nil || result.Done != 1 {
			t.Errorf("%s, cancel: %+v, %v", mode, result, err)
		}
		if err := inspector.Delete(ctx, pending[0].ID, pgqueue.IfVersion(pending[0].Version())); err != nil {
			t.Errorf("%s, delete: %v", mode, err)
		}
	}
}

func TestInspectorWithoutASchema(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
	inspector := newInspector(t, db.Pool)
	if _, err := inspector.List(testContext(t), none, pgqueue.ListOptions{}); !errors.Is(err, pgqueue.ErrSchema) {
		t.Errorf("list: %v", err)
	}
	if _, err := inspector.Purge(testContext(t), none, pgqueue.BulkOptions{}); !errors.Is(err, pgqueue.ErrSchema) {
		t.Errorf("purge: %v", err)
	}
	if err := inspector.Retry(testContext(t), 1); !errors.Is(err, pgqueue.ErrSchema) {
		t.Errorf("retry: %v", err)
	}
}
