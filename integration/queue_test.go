package integration

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Times of tests in which leases run out. They are as short as a busy machine allows: a living worker must not miss a
// renewal.
const (
	shortLease = 3 * time.Second
	shortRenew = time.Second
	shortReap  = 500 * time.Millisecond
)

// everyKind are the kinds that do no harm.
var everyKind = []string{"sleep", "hold", "effect"}

// service is a database with pgqueue in it, seen by an application.
type service struct {
	t      *testing.T
	db     *pgqueuetest.DB
	pool   *pgxpool.Pool
	client *pgqueue.Client
}

// newService makes one on the shared server.
func newService(t *testing.T, options ...pgqueuetest.Option) *service {
	t.Helper()
	return serviceOn(t, pgqueuetest.New(t, options...))
}

// serviceOn adds the application's part to a database: a client, and the table effects, which has no unique key on
// purpose, so that whatever happens twice is there twice.
func serviceOn(t *testing.T, db *pgqueuetest.DB) *service {
	t.Helper()
	execute(t, db.Pool, "CREATE TABLE public.effects (job bigint NOT NULL, attempt int NOT NULL)")
	return &service{t: t, db: db, pool: db.Pool, client: newClient(t, db.Pool, db.Schema)}
}

// newClient makes a client and closes it before the pool.
func newClient(t *testing.T, pool *pgxpool.Pool, schema string, options ...pgqueue.ClientOption) *pgqueue.Client {
	t.Helper()
	options = append([]pgqueue.ClientOption{pgqueue.WithSchema(schema), pgqueue.WithLogger(slog.New(slog.DiscardHandler))}, options...)
	client, err := pgqueue.NewClient(pool, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(context.Background()); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	return client
}

// enqueue adds a job in a transaction of its own and returns its id.
func (s *service) enqueue(args pgqueue.Args, options ...pgqueue.EnqueueOption) int64 {
	s.t.Helper()
	var enqueued pgqueue.Enqueued
	err := pgx.BeginFunc(s.t.Context(), s.pool, func(tx pgx.Tx) (err error) {
		enqueued, err = s.client.Enqueue(s.t.Context(), tx, args, options...)
		return err
	})
	if err != nil {
		s.t.Fatalf("enqueue: %v", err)
	}
	return enqueued.ID
}

// enqueueMany adds n jobs like it.
func (s *service) enqueueMany(n int, args pgqueue.Args, options ...pgqueue.EnqueueOption) []int64 {
	s.t.Helper()
	jobs := make([]pgqueue.NewJob, n)
	for i := range jobs {
		jobs[i] = pgqueue.NewJob{Args: args, Options: options}
	}
	enqueued, err := s.client.EnqueueMany(s.t.Context(), s.pool, jobs)
	if err != nil {
		s.t.Fatalf("enqueue: %v", err)
	}
	ids := make([]int64, n)
	for i, e := range enqueued {
		ids[i] = e.ID
	}
	return ids
}

// child starts a worker process on the database.
func (s *service) child(p program) *child {
	s.t.Helper()
	p.URL, p.DirectURL, p.Schema = s.db.URL, s.db.DirectURL, s.db.Schema
	if p.Kinds == nil {
		p.Kinds = everyKind
	}
	return startChild(s.t, p)
}

// ended is what the history has of a job.
type ended struct {
	State    string
	Attempt  int
	Failures int
	Code     string // of the last error
}

// history returns what the history has of a job, and fails the test unless it is there exactly once.
func (s *service) history(job int64) ended {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `SELECT state, attempt, failures, coalesce(errors -> -1 ->> 'code', '')
		FROM pgqueue.history WHERE id = $1`, job)
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ended])
	if err != nil {
		s.t.Fatal(err)
	}
	if len(found) != 1 {
		s.t.Fatalf("job %d is in the history %d times", job, len(found))
	}
	return found[0]
}

// requireEnded requires that a job has ended in this way.
func (s *service) requireEnded(job int64, want ended) {
	s.t.Helper()
	if got := s.history(job); got != want {
		s.t.Errorf("job %d ended as %+v, want %+v", job, got, want)
	}
}

// live is what the table of live jobs has of a job.
type live struct {
	State    string
	Attempt  int
	Failures int
	Due      bool
	Code     string // of the last error
}

// requireLive requires that a job is live and how.
func (s *service) requireLive(job int64, want live) {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `SELECT state, attempt, failures, run_at <= now(), coalesce(errors -> -1 ->> 'code', '')
		FROM pgqueue.jobs WHERE id = $1`, job)
	if err != nil {
		s.t.Fatal(err)
	}
	got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[live])
	if err != nil {
		s.t.Errorf("job %d: %v", job, err)
	} else if got != want {
		s.t.Errorf("job %d is %+v, want %+v", job, got, want)
	}
}

// awaitEmpty waits until no job is live.
func (s *service) awaitEmpty() {
	s.t.Helper()
	until(s.t, "no live jobs", func() int { return one[int](s.t, s.pool, "SELECT count(*) FROM pgqueue.jobs") },
		func(n int) bool { return n == 0 })
}

// requireEffectsOnce requires that exactly these jobs had their effect, each once.
func (s *service) requireEffectsOnce(jobs []int64) {
	s.t.Helper()
	for _, job := range column[int64](s.t, s.pool, "SELECT job FROM public.effects GROUP BY job HAVING count(*) > 1") {
		s.t.Errorf("the effect of job %d is there more than once", job)
	}
	for _, job := range column[int64](s.t, s.pool,
		"SELECT id FROM unnest($1::bigint[]) id WHERE NOT EXISTS (SELECT FROM public.effects WHERE job = id)", jobs) {
		s.t.Errorf("the effect of job %d is lost", job)
	}
	if n := one[int](s.t, s.pool, "SELECT count(*) FROM public.effects"); n != len(jobs) {
		s.t.Errorf("%d effects of %d jobs", n, len(jobs))
	}
}
