package metrics_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/listener"
	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/reaper"
)

// statusFunc is a status made up by a test, for states that are hard to bring about.
type statusFunc func() pgqueue.WorkerStatus

func (f statusFunc) Status() pgqueue.WorkerStatus { return f() }

// hourly is a backoff that no test lives to see the end of.
type hourly struct{}

func (hourly) Delay(int) time.Duration { return time.Hour }

// scene is a worker on the queue "mail" with metrics, and a queue "cold" that nobody serves.
type scene struct {
	*testing.T
	db       *pgqueuetest.DB
	registry *prometheus.Registry
	metrics  *metrics.Prometheus
	client   *pgqueue.Client
	entered  chan string   // by handlers that wait
	leave    chan struct{} // each value lets one of them go on

	seen map[string]map[float64]bool // what the scrapes so far showed, by metric
}

// brief is a job with a short deadline.
type brief struct {
	Do string `json:"do"`
}

func (brief) Kind() string { return "brief" }

// handle does what the job says.
func (s *scene) handle(ctx context.Context, do string) error {
	switch do {
	case "error":
		return errors.New("some text of a thousand")
	case "permanent":
		return pgqueue.Permanent(errors.New("pointless"))
	case "panic":
		panic("on purpose")
	case "timeout":
		<-ctx.Done()
		return ctx.Err()
	case "snooze":
		return pgqueue.Snooze(time.Hour)
	case "cancel":
		return pgqueue.Cancel(nil)
	case "wait": // until told, or until the context ends
		s.entered <- do
		select {
		case <-s.leave:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	case "stuck": // whatever happens to the context
		s.entered <- do
		<-s.leave
		return nil
	}
	return nil
}

func newScene(t *testing.T) *scene {
	s := &scene{T: t, db: pgqueuetest.New(t), registry: prometheus.NewRegistry(), entered: make(chan string, 10), leave: make(chan struct{}),
		seen: map[string]map[float64]bool{}}
	s.metrics = newMetrics(t, metrics.PrometheusConfig{
		Registerer: s.registry, Pool: s.db.Pool, Interval: time.Second, Queues: []string{"mail", "cold"},
	})
	s.client = newClient(t, s.db.Pool, pgqueue.WithObserver(s.metrics))
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, j *pgqueue.Job[job]) error { return s.handle(ctx, j.Args.Do) })
	pgqueue.Handle(mux, func(ctx context.Context, j *pgqueue.Job[brief]) error { return s.handle(ctx, j.Args.Do) },
		pgqueue.KindDeadline(100*time.Millisecond))
	worker, err := s.client.NewWorker(mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"mail": {
			Workers: 4, Poll: 200 * time.Millisecond, CleanUp: 100 * time.Millisecond,
			Backoff: hourly{},
		}},
		Lease: 9 * time.Second, RenewEvery: time.Second, StorageTimeout: time.Second, ReapInterval: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.metrics.Watch(worker))
	s.note(scrape(t, s.registry)) // before anything runs
	background(t, s.metrics.Run)
	background(t, worker.Run)
	s.at(1, "pgqueue_listener_connected")
	s.at(1, "pgqueue_stats_reads_total")
	return s
}

// at waits for a value.
func (s *scene) at(least float64, name string, labels ...string) {
	s.Helper()
	s.note(eventuallyAt(s, s.registry, least, name, labels...))
}

// note remembers what a scrape showed.
func (s *scene) note(got scraped) {
	for _, d := range metrics.Definitions() {
		if s.seen[d.Name] == nil {
			s.seen[d.Name] = map[float64]bool{}
		}
		s.seen[d.Name][got.sum(d.Name)+got.sum(d.Name+"_count")] = true
	}
}

func (s *scene) enqueue(do string, options ...pgqueue.EnqueueOption) int64 {
	return enqueue(s, s.client, s.db.Pool, job{Do: do}, append([]pgqueue.EnqueueOption{pgqueue.OnQueue("mail")}, options...)...)
}

// outcomes makes attempts of every outcome that needs no help.
func (s *scene) outcomes() {
	attempts := func(outcome string) {
		s.at(1, "pgqueue_attempts_total", "queue", "mail", "kind", "job", "outcome", outcome)
	}
	verdicts := func(outcome string) {
		s.at(1, "pgqueue_verdicts_total", "queue", "mail", "kind", "job", "outcome", outcome)
	}
	for do, outcomes := range map[string][2]string{
		"": {"succeeded", "succeeded"}, "permanent": {"permanent", "failed"}, "panic": {"panic", "retrying"},
		"snooze": {"snoozed", "snoozed"}, "cancel": {"cancelled", "cancelled"}, "error": {"error", "retrying"},
	} {
		s.enqueue(do)
		attempts(outcomes[0])
		verdicts(outcomes[1])
	}
	s.enqueue("error", pgqueue.WithMaxAttempts(1))
	verdicts("dead")
	exec(s, s.db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, payload) VALUES ('mail', 'job', '"no object"')`)
	attempts("undecodable")

	enqueue(s, s.client, s.db.Pool, brief{Do: "timeout"}, pgqueue.OnQueue("mail"))
	s.at(1, "pgqueue_attempts_total", "kind", "brief", "outcome", "timeout")
	enqueue(s, s.client, s.db.Pool, brief{Do: "stuck"}, pgqueue.OnQueue("mail"))
	receive(s, s.entered, "the stuck handler")
	s.at(1, "pgqueue_handlers_in_flight", "queue", "mail", "kind", "brief")
	s.at(3, "pgqueue_handlers_limit", "queue", "mail", "kind", "brief")
	s.at(1, "pgqueue_jobs_in_flight", "queue", "mail")
	s.at(1, "pgqueue_handlers_stuck", "queue", "mail")
	s.at(1, "pgqueue_handlers_went_stuck_total", "queue", "mail", "kind", "brief")
	s.leave <- struct{}{}
	s.at(2, "pgqueue_attempts_total", "kind", "brief", "outcome", "timeout")
	s.at(1, "pgqueue_last_success_timestamp_seconds", "queue", "mail")
}

// leases loses one lease, meets a locked row and returns an expired lease.
func (s *scene) leases() {
	stolen := s.enqueue("wait")
	receive(s, s.entered, "the handler whose lease is stolen")
	exec(s, s.db.Pool, "UPDATE pgqueue.jobs SET attempt = attempt + 1, queue = 'stolen' WHERE id = $1", stolen)
	s.at(1, "pgqueue_leases_lost_total", "queue", "mail", "kind", "job", "reason", "refused")
	s.at(1, "pgqueue_attempts_total", "outcome", "lease_lost")
	s.at(1, "pgqueue_verdicts_total", "outcome", "lost")
	s.at(1, "pgqueue_lease_renewals_total", "queue", "mail", "result", "refused")

	locked := s.enqueue("wait")
	receive(s, s.entered, "the handler whose row is locked")
	tx, err := s.db.Pool.Begin(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	if _, err := tx.Exec(s.Context(), "SELECT 1 FROM pgqueue.jobs WHERE id = $1 FOR UPDATE", locked); err != nil {
		s.Fatal(err)
	}
	s.leave <- struct{}{}
	s.at(1, "pgqueue_report_busy_total", "queue", "mail")
	s.at(1, "pgqueue_verdicts_unreported", "queue", "mail")
	if err := tx.Rollback(s.Context()); err != nil {
		s.Fatal(err)
	}
	exec(s, s.db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, state, attempt, claimed_generation, claimed_at, lease_expires_at, max_attempts)
		VALUES ('mail', 'job', 'running', 1, 1, now(), now() - interval '1 s', 1)`)
	s.at(1, "pgqueue_reaped_total", "queue", "mail", "outcome", "dead")
}

// trouble makes statements fail: nobody gets a lock on the table. Jobs wait in the buffer meanwhile, and the queue's pause is seen.
func (s *scene) trouble() {
	var jobs []pgqueue.NewJob // quick ones first: only where jobs are quick does a claim fetch ahead
	for i := range 48 {
		do := ""
		if i >= 40 {
			do = "wait"
		}
		jobs = append(jobs, pgqueue.NewJob{Args: job{Do: do}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("mail")}})
	}
	if _, err := s.client.EnqueueMany(s.Context(), s.db.Pool, jobs); err != nil {
		s.Fatal(err)
	}
	for range 3 { // the other kind keeps a slot
		receive(s, s.entered, "a handler")
	}
	s.at(1, "pgqueue_jobs_buffered", "queue", "mail")
	tx, err := s.db.Pool.Begin(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	if _, err := tx.Exec(s.Context(), "LOCK TABLE pgqueue.jobs IN ACCESS EXCLUSIVE MODE"); err != nil {
		s.Fatal(err)
	}
	s.at(1, "pgqueue_store_errors_total", "queue", "mail", "operation", "renew")
	s.at(0.5, "pgqueue_loop_trying_seconds", "queue", "mail", "loop", "renew")
	s.at(1, "pgqueue_stats_errors_total")
	if err := tx.Rollback(s.Context()); err != nil {
		s.Fatal(err)
	}
	if err := s.client.PauseQueue(s.Context(), s.db.Pool, "mail", "a test"); err != nil {
		s.Fatal(err)
	}
	s.at(1, "pgqueue_claims_paused", "queue", "mail")
	s.at(1, "pgqueue_queue_paused", "queue", "mail")
	if err := s.client.ResumeQueue(s.Context(), s.db.Pool, "mail"); err != nil {
		s.Fatal(err)
	}
	close(s.leave)
}

// hints makes more of them than may be sent, and cuts the listener's connection.
func (s *scene) hints() {
	for range 30 {
		s.enqueue("")
	}
	s.at(1, "pgqueue_hints_sent_total", "queue", "mail")
	s.at(1, "pgqueue_hints_suppressed_total", "queue", "mail")
	s.at(1, "pgqueue_hints_trailing_total", "queue", "mail")
	s.at(1, "pgqueue_hints_received_total", "queue", "mail")
	s.at(1, "pgqueue_hints_coalesced_total", "queue", "mail")
	exec(s, s.db.Pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND query ILIKE 'listen%'`)
	s.at(1, "pgqueue_listener_disconnects_total")
	s.at(2, "pgqueue_listener_connects_total")
	exec(s, s.db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, payload) VALUES ('mail', 'job', '{}')`)
	s.at(1, "pgqueue_wakes_total", "queue", "mail", "source", "poll")
}

// database fills the queue that nobody serves, and the server's queue of notifications.
func (s *scene) database() {
	exec(s, s.db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, priority, run_at)
		SELECT 'cold', 'job', 1 + n % 4, now() - interval '1 h' FROM generate_series(1, 44000) n`)
	exec(s, s.db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, run_at, failures) VALUES ('cold', 'job', now() + interval '1 h', 1), ('cold', 'job', now() + interval '1 h', 0)`)
	exec(s, s.db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, state, attempt, claimed_at, lease_expires_at)
		VALUES ('cold', 'job', 'running', 1, now() - interval '1 h', now() - interval '1 h')`)
	for _, priority := range []string{"1", "2", "3", "4"} {
		s.at(10_000, "pgqueue_ready_jobs", "queue", "cold", "priority", priority)
	}
	s.at(3600, "pgqueue_oldest_ready_seconds", "queue", "cold")
	for _, name := range []string{"pgqueue_scheduled_jobs", "pgqueue_retrying_jobs", "pgqueue_running_jobs", "pgqueue_expired_jobs", "pgqueue_stats_capped"} {
		s.at(1, name, "queue", "cold")
	}
	s.at(1, "pgqueue_failed_jobs", "queue", "mail")
	s.at(1, "pgqueue_dead_jobs", "queue", "mail")

	rogue, err := pgx.Connect(s.Context(), s.db.URL)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = rogue.Close(context.Background()) })
	for _, sql := range []string{"LISTEN rogue", "BEGIN", "SELECT 1"} {
		if _, err := rogue.Exec(s.Context(), sql); err != nil {
			s.Fatal(err)
		}
	}
	exec(s, s.db.Pool, "SELECT pg_notify('rogue', repeat('x', 7000) || n) FROM generate_series(1, 500) n")
	s.at(0.000001, "pgqueue_notify_queue_usage_ratio")
}

// rare is what takes a broken network: the events and the status are made up.
func (s *scene) rare() {
	s.metrics.ListenerDeaf(time.Second)
	s.metrics.HintsTrailed([]string{"mail"}, errors.New("no connection"))
	s.at(1, "pgqueue_listener_went_deaf_total")
	s.at(1, "pgqueue_hint_errors_total", "queue", "mail")
	unwatch := s.metrics.Watch(statusFunc(func() pgqueue.WorkerStatus {
		return pgqueue.WorkerStatus{Running: true, Listener: &listener.Status{Deaf: true},
			Reaper: reaper.Status{Targets: []reaper.TargetStatus{{Name: "mail", Outage: true}}}}
	}))
	defer unwatch()
	s.at(1, "pgqueue_listener_deaf")
	s.at(1, "pgqueue_reaper_outage", "queue", "mail")
}

// Every metric moves, in a scrape, because of what its documentation says. A metric that is added and not moved here fails the
// test, and so does one that says the same all the time.
func TestEveryMetricMoves(t *testing.T) {
	s := newScene(t)
	for _, part := range []func(){s.outcomes, s.leases, s.hints, s.trouble, s.database, s.rare} {
		part()
	}
	for _, d := range metrics.Definitions() {
		if len(s.seen[d.Name]) < 2 {
			t.Errorf("%s never moved; the scrapes showed %v", d.Name, s.seen[d.Name])
		}
	}
}
