package pgqueue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// letPass waits for what a rate is measured over.
func letPass(t testing.TB, d time.Duration) {
	t.Helper()
	until := time.Now().Add(d)
	eventually(t, fmt.Sprintf("%s have passed", d), func() bool { return !time.Now().Before(until) })
}

// herd is workers of several clients, each with a pool of its own whose statements are recorded.
type herd struct {
	db      *pgqueuetest.DB
	sent    []*statements
	workers []*running
	ran     atomic.Int64
}

// newHerd starts n workers on a server of their own.
func newHerd(t *testing.T, n int, config pgqueue.WorkerConfig, report time.Duration) *herd {
	t.Helper()
	server := pgqueuetest.NewServer(t, pgqueuetest.WithSetting("max_connections", "200"))
	h := &herd{db: server.DB(t)}
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error {
		h.ran.Add(1)
		return nil
	})
	for range n {
		sent := &statements{}
		pool := poolLike(t, h.db.Pool, func(config *pgxpool.Config) {
			config.ConnConfig.Tracer = sent
			config.MaxConns = 3
		})
		worker, err := quietClient(t, pool).NewWorker(mux, config)
		if err != nil {
			t.Fatal(err)
		}
		if report > 0 {
			worker.ReportEvery(report)
		}
		h.sent = append(h.sent, sent)
		h.workers = append(h.workers, run(t, worker))
	}
	return h
}

func (h *herd) count(text string) (n int) {
	for _, sent := range h.sent {
		n += sent.with(text)
	}
	return n
}

// Twenty idle workers, a job at a time: few of them claim, because they look at different times, and first with a read.
func TestC72_OneInsertWakesNoHerd(t *testing.T) {
	const n = 20
	jobs := size(10, 30)
	h := newHerd(t, n, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"q": {Poll: time.Hour}}}, 200*time.Millisecond)
	eventually(t, "all have reported themselves", func() bool {
		return one[int](t, h.db.Pool, `SELECT count(*) FROM pgqueue.live_workers`) == n
	})
	reports := h.count("heartbeat(")
	eventually(t, "all know of each other, and are idle", func() bool {
		for _, worker := range h.workers {
			if status := worker.Status(); !status.Listener.Connected || status.Queues["q"].LastClaim.IsZero() {
				return false
			}
		}
		return h.count("heartbeat(") >= reports+2*n+n/2
	})
	client := quietClient(t, h.db.Pool)
	claims, looks := h.count(claimText), h.count(probeText)
	for i := range jobs {
		enqueue(t, client, h.db.Pool, task{N: i}, pgqueue.OnQueue("q"))
		eventually(t, "the job has run", func() bool { return h.ran.Load() == int64(i+1) })
		letPass(t, size(300*time.Millisecond, time.Second)) // the next hint must open a window of its own
	}
	claims, looks = h.count(claimText)-claims, h.count(probeText)-looks
	t.Logf("%d jobs: %.1f claims and %.1f looks each", jobs, float64(claims)/float64(jobs), float64(looks)/float64(jobs))
	// In the mean about three claim, one of them, and at most a few more that looked before its claim had committed. Twenty would
	// without the wait. On a busy machine more of them look before the first has committed.
	if most := n / 2 * jobs; claims > most {
		t.Errorf("%d claims for %d jobs, want at most %d", claims, jobs, most)
	}
	if looks < jobs*n/2 {
		t.Errorf("%d looks for %d jobs: most of the workers were not woken", looks, jobs)
	}
}

// C121, the second half: what idle clients cost.
func TestC121_AnIdleSystemIsIdle(t *testing.T) {
	n, length := 10, size(12*time.Second, time.Minute)
	h := newHerd(t, n, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"q": {}, "r": {}}}, 0)
	eventually(t, "all are idle", func() bool { return h.count("heartbeat(") >= n && h.count(probeText) >= 3*n })
	rows := func() (n int) {
		return one[int](t, h.db.Pool, `SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE schemaname = 'pgqueue'`)
	}
	wal := func() float64 {
		return one[float64](t, h.db.Pool, `SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn`)
	}
	settled := 0
	eventually(t, "the statistics have settled", func() bool {
		before := settled
		settled = rows()
		return before == settled && before > 0
	})
	for _, sent := range h.sent {
		sent.forget()
	}
	began, wrote, logged := time.Now(), rows(), wal()
	letPass(t, length)
	seconds := time.Since(began).Seconds()
	most := 0
	for _, sent := range h.sent {
		most = max(most, sent.with(""))
	}
	// Every session writes its statistics within a second, when it is idle.
	letPass(t, 2*time.Second)
	changed, grown := rows()-wrote, wal()-logged
	t.Logf("%d idle clients, %.0f s: %.2f rows written a second, %.2f statements a second and client at most, %.0f bytes of WAL a minute",
		n, seconds, float64(changed)/seconds, float64(most)/seconds, grown/(seconds+2)*60)
	if float64(changed) > 10*(seconds+2) {
		t.Errorf("%d rows written in %.0f s", changed, seconds)
	}
	if changed == 0 {
		t.Error("nothing was written: heartbeats are not counted")
	}
	if float64(most) > 5*seconds {
		t.Errorf("%d statements of one client in %.0f s", most, seconds)
	}
	if grown > 1<<20 {
		t.Errorf("%.0f bytes of WAL in %.0f s", grown, seconds)
	}
}

// C121, the first half: renewals touch no index, and come in one statement a tick, whatever the number of jobs.
func TestC121_RenewalsAreHOT(t *testing.T) {
	t.Parallel()
	jobs, length := size(60, 200), size(4*time.Second, time.Minute)
	const every = 500 * time.Millisecond
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	gate := make(chan struct{})
	var started atomic.Int64
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error {
		started.Add(1)
		<-gate
		return nil
	})
	sent := &statements{}
	traced := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent })
	var failed atomic.Int64
	startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"q": {Workers: jobs, Batch: jobs}}, RenewEvery: every, Lease: 20 * every, Pool: traced, DisableListener: true,
		Observer: &hooks{renew: func(e runner.RenewEvent) {
			if e.Err != nil || e.Refused+e.Locked > 0 {
				failed.Add(1)
			}
		}},
	})
	t.Cleanup(func() { close(gate) })
	many := make([]pgqueue.NewJob, jobs)
	for i := range many {
		many[i] = pgqueue.NewJob{Args: task{N: i}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("q")}}
	}
	if _, err := client.EnqueueMany(testContext(t), db.Pool, many); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all run", func() bool { return started.Load() == int64(jobs) })
	const renewText = "state <> 'pending'"
	updates := func() (all, hot int) {
		t.Helper()
		err := db.Pool.QueryRow(testContext(t), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'pgqueue.jobs'::regclass`).Scan(&all, &hot)
		if err != nil {
			t.Fatal(err)
		}
		return all, hot
	}
	var all, hot int
	eventually(t, "the claims are counted", func() bool {
		all, hot = updates()
		return all >= 2*jobs
	})
	ticks, began := sent.with(renewText), time.Now()
	letPass(t, length)
	ticks = sent.with(renewText) - ticks
	took := time.Since(began)
	var allNow, hotNow int
	eventually(t, "the renewals are counted", func() bool {
		allNow, hotNow = updates()
		return allNow-all >= jobs*(ticks-2)
	})
	share := float64(hotNow-hot) / float64(allNow-all)
	t.Logf("%d jobs, %s: %d statements, %d rows renewed, %.3f of them HOT", jobs, took.Round(time.Second), ticks, allNow-all, share)
	// The first renewals of a full page find no room beside the rows that were just claimed; later ones use what those left. With the
	// lease in an index none would be HOT.
	if least := size(0.5, 0.9); share < least {
		t.Errorf("%.3f of the renewals are HOT, want %.1f", share, least)
	}
	if most := int(took/(every*9/10)) + 2; ticks > most || ticks < 2 {
		t.Errorf("%d statements in %s of one every %s", ticks, took, every)
	}
	if failed.Load() > 0 {
		t.Errorf("%d renewals went wrong", failed.Load())
	}
}
