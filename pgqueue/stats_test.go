package pgqueue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func TestStats(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	if stats, err := client.Stats(testContext(t)); err != nil || len(stats) != 0 {
		t.Errorf("of an empty database: %+v, %v", stats, err)
	}
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, priority, run_at, failures, state, claimed_at, lease_expires_at)
		SELECT queue, 'k', priority, now() + due * interval '1 minute', failures, state, now() - interval '1 h', now() + lease * interval '1 minute'
		FROM (VALUES ('mail', 1, -5, 0, 'pending', NULL, 3), ('mail', 2, -60, 2, 'pending', NULL, 1), ('mail', 4, -1, 0, 'pending', NULL, 2),
		             ('mail', 1, 5, 0, 'pending', NULL, 4), ('mail', 3, 5, 1, 'pending', NULL, 5),
		             ('mail', 1, -9, 0, 'running', 5, 6), ('mail', 1, -9, 0, 'running', -5, 7),
		             ('only running', 1, 0, 0, 'running', 5, 1)) v (queue, priority, due, failures, state, lease, n)
		     CROSS JOIN LATERAL generate_series(1, n)`)
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, run_at) VALUES ('endless', 'k', '-infinity'), ('endless', 'k', 'infinity')`)
	exec(t, db.Pool, `INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
			max_attempts, queue, kind, state, payload, metadata, tags)
		SELECT 1000 + g, now(), now(), now(), 'infinity', 1, 1, 1, 1, 1, 1, CASE WHEN g <= 5 THEN 'mail' ELSE 'only dead' END, 'k',
			CASE WHEN g IN (1, 2) THEN 'failed' ELSE 'dead' END, '{}', '{}', '{}' FROM generate_series(1, 6) g`)
	exec(t, db.Pool, `SELECT pgqueue.pause('paused', 'why')`)
	if err := client.SetHistory(testContext(t), db.Pool, "mail", pgqueue.HistorySlim); err != nil {
		t.Fatal(err)
	}

	stats, err := client.Stats(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range stats {
		names = append(names, s.Queue)
	}
	if fmt.Sprint(names) != "[endless mail only dead only running paused]" {
		t.Fatalf("queues %q", names)
	}
	mail := stats[1]
	if lag := mail.OldestReady; lag < time.Hour || lag > time.Hour+patience {
		t.Errorf("the oldest ready job waits %s, want an hour", lag)
	}
	mail.OldestReady = 0
	want := pgqueue.QueueStats{
		Queue: "mail", Ready: [4]pgqueue.Count{{N: 3}, {N: 1}, {N: 0}, {N: 2}}, Scheduled: pgqueue.Count{N: 4}, Retrying: pgqueue.Count{N: 5},
		Running: pgqueue.Count{N: 13}, Expired: pgqueue.Count{N: 7}, Failed: pgqueue.Count{N: 2}, Dead: pgqueue.Count{N: 3}, History: pgqueue.HistorySlim,
	}
	if mail != want {
		t.Errorf("mail:\n%+v, want\n%+v", mail, want)
	}
	if s := stats[0]; s.Ready[0].N != 1 || s.Scheduled.N != 1 || s.OldestReady != 0 {
		t.Errorf("with infinite times: %+v", s)
	}
	if s := stats[4]; s.PausedReason != "why" || time.Since(s.PausedAt) > patience || s.History != pgqueue.HistoryFull {
		t.Errorf("paused: %+v", s)
	}
	// By name, in that order, and unknown ones too.
	if stats, err = client.Stats(testContext(t), "unknown", "only dead"); err != nil || len(stats) != 2 || stats[0].Queue != "unknown" ||
		stats[0].Running.N != 0 || stats[1].Dead.N != 1 {
		t.Errorf("by name: %+v, %v", stats, err)
	}
}

// Nothing is counted beyond the bound, and what was cut off is said to be.
func TestStatsAreBounded(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, priority, run_at, failures, state, claimed_at, lease_expires_at)
		SELECT 'q', 'k', 1 + g % 2, now() + CASE WHEN g % 3 = 0 THEN 1 ELSE -1 END * interval '1 h', g / 3 % 2,
			CASE WHEN g % 3 = 2 THEN 'running' ELSE 'pending' END, now() - interval '1 h', now() + interval '1 h' FROM generate_series(1, 62000) g`)
	sent := &statements{}
	client := quietClient(t, poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent }))
	stats, err := client.Stats(testContext(t), "q")
	if err != nil {
		t.Fatal(err)
	}
	if len(sent.sent) != 2 || !strings.Contains(sent.sent[0], "'enable_sort', 'off', true") {
		t.Errorf("sent %q: the bound rests on the plan", sent.sent)
	}
	most := pgqueue.Count{N: pgqueue.MaxStatsCount, More: true}
	s := stats[0]
	if s.Ready[0] != most || s.Ready[1] != most || s.Ready[2] != (pgqueue.Count{}) || s.Running != most {
		t.Errorf("beyond the bound: %+v", s)
	}
	if !s.Scheduled.More || !s.Retrying.More || s.Scheduled.N+s.Retrying.N < pgqueue.MaxStatsCount || s.Expired != (pgqueue.Count{More: true}) {
		t.Errorf("told apart within the bound: %+v", s)
	}
}
