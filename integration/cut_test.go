package integration

import (
	"context"
	"encoding/binary"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgproxy"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// completionLock is the advisory lock that a completion waits for in these tests.
const completionLock = 4711

// cutTest is a worker behind a proxy whose completion stands still on the server until the test lets it go on: the place
// where a lost connection hurts most.
type cutTest struct {
	*service
	proxy  *pgproxy.Proxy
	worker *serving
	gate   *pgxpool.Conn // holds completionLock
	runs   chan int      // gets the attempt when a handler starts
	job    int64
}

// newCutTest starts a job of a transactional handler, or of a plain one, and returns when its completion stands still.
func newCutTest(t *testing.T, transactional bool) *cutTest {
	t.Helper()
	c := &cutTest{service: newService(t), runs: make(chan int, 100)}
	c.proxy = startProxy(t, c.db.URL)
	execute(t, c.pool, `CREATE FUNCTION public.stand_still() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END $$`)
	if transactional {
		// Deferred: the COMMIT itself stands still.
		execute(t, c.pool, `CREATE CONSTRAINT TRIGGER stand_still AFTER INSERT ON public.effects
			DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.stand_still()`)
	} else {
		execute(t, c.pool, `CREATE TRIGGER stand_still AFTER DELETE ON pgqueue.jobs FOR EACH ROW EXECUTE FUNCTION public.stand_still()`)
	}
	// A lock of a session, which no pooler may give to somebody else.
	gate, err := poolAt(t, c.db.DirectURL, func(*pgxpool.Config) {}).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.gate = gate
	t.Cleanup(gate.Release)
	if _, err := gate.Exec(t.Context(), "SELECT pg_advisory_lock($1)", completionLock); err != nil {
		t.Fatal(err)
	}

	pool := poolAt(t, throughProxy(t, c.db.URL, c.proxy), withoutCancels)
	mux := pgqueue.NewMux()
	if transactional {
		pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[effectJob]) error {
			c.runs <- job.Attempt
			_, err := tx.Exec(ctx, "INSERT INTO public.effects (job, attempt) VALUES ($1, $2)", job.ID, job.Attempt)
			return err
		})
	} else {
		pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[effectJob]) error {
			c.runs <- job.Attempt
			return nil
		})
	}
	c.worker = serve(t, newClient(t, pool, c.db.Schema), mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{queueName: {}}, ReapInterval: shortReap})
	c.job = c.enqueue(effectJob{}, pgqueue.WithMaxAttempts(10))
	receive(t, c.runs, "the first run")
	c.awaitStandstill()
	return c
}

// withoutCancels keeps the requests to cancel from the server that pgx sends, some time later, for a connection it has lost: they
// would end what is to stand still.
func withoutCancels(config *pgxpool.Config) {
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &cancelless{Conn: conn}, nil
	}
}

// cancelRequest is the code at the beginning of the message, after its length:
// https://www.postgresql.org/docs/current/protocol-message-formats.html, "CancelRequest".
const cancelRequest = 80877102

type cancelless struct{ net.Conn }

func (c *cancelless) Write(message []byte) (int, error) {
	if len(message) == 16 && binary.BigEndian.Uint32(message) == 16 && binary.BigEndian.Uint32(message[4:]) == cancelRequest {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(message)
}

// waiting is a condition for backends that stand still in a completion.
const waiting = `datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'advisory'`

func (c *cutTest) awaitStandstill() {
	c.t.Helper()
	untilSQL(c.t, c.pool, "the completion stands still", "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE "+waiting+")")
}

// letGo lets the completion go on.
func (c *cutTest) letGo() {
	c.t.Helper()
	if _, err := c.gate.Exec(c.t.Context(), "SELECT pg_advisory_unlock($1)", completionLock); err != nil {
		c.t.Fatal(err)
	}
}

// The COMMIT of a transactional handler is done and its answer is lost. The job is not run again.
func TestCutAfterCommitBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	c := newCutTest(t, true)
	c.proxy.Stall()
	c.letGo()
	untilSQL(t, c.pool, "the commit", "SELECT EXISTS (SELECT FROM public.effects)")
	c.proxy.Cut()
	c.proxy.Resume()
	c.requireWorks()
	c.requireEffectsOnce([]int64{c.job})
	c.requireEnded(c.job, ended{State: "succeeded", Attempt: 1})
	c.requireCounted(runner.Outcomes{Succeeded: 2})
}

// The connection is lost while the COMMIT is under way, which goes on without anybody who waits for it. Whoever asks
// meanwhile finds the row locked, and the job is not run again either.
func TestCutDuringCommit(t *testing.T) {
	t.Parallel()
	c := newCutTest(t, true)
	before := c.proxy.Accepted()
	c.proxy.Cut()
	until(t, "the worker comes back", c.proxy.Accepted, func(n int64) bool { return n > before })
	c.letGo()
	c.requireWorks()
	c.requireEffectsOnce([]int64{c.job})
	c.requireEnded(c.job, ended{State: "succeeded", Attempt: 1})
	c.requireCounted(runner.Outcomes{Succeeded: 2})
}

// The server ends the connection before the COMMIT is done: nothing was written, the attempt has failed, and the next one
// has the effect.
func TestCutBeforeCommit(t *testing.T) {
	t.Parallel()
	c := newCutTest(t, true)
	execute(t, c.pool, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "+waiting)
	c.letGo()
	if attempt := receive(t, c.runs, "the second run"); attempt != 2 {
		t.Errorf("attempt %d, want 2", attempt)
	}
	c.requireWorks()
	c.requireEffectsOnce([]int64{c.job})
	c.requireCounted(runner.Outcomes{Succeeded: 2, Retrying: 1})
	if got := c.history(c.job); got.State != "succeeded" || got.Attempt != 2 || got.Failures != 1 {
		t.Errorf("the job ended as %+v", got)
	}
}

// The completion of a plain handler is written and its answer is lost: the second report finds nothing and does no harm.
func TestCutAfterCompletionBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	c := newCutTest(t, false)
	c.proxy.Stall()
	c.letGo()
	untilSQL(t, c.pool, "the completion", "SELECT EXISTS (SELECT FROM pgqueue.history)")
	c.proxy.Cut()
	c.proxy.Resume()
	c.requireWorks()
	c.requireEnded(c.job, ended{State: "succeeded", Attempt: 1})
}

// The connection is lost before the completion is done: the result is kept and reported again, without another run.
func TestCutBeforeCompletion(t *testing.T) {
	t.Parallel()
	c := newCutTest(t, false)
	execute(t, c.pool, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "+waiting)
	c.letGo()
	c.requireWorks()
	c.requireCounted(runner.Outcomes{Succeeded: 2})
	c.requireEnded(c.job, ended{State: "succeeded", Attempt: 1})
}

// requireWorks waits until the job has ended, without a run that the test does not know of, and then has the worker run
// another one.
func (c *cutTest) requireWorks() {
	c.t.Helper()
	untilSQL(c.t, c.pool, "the end of the job", "SELECT NOT EXISTS (SELECT FROM pgqueue.jobs WHERE id = $1)", c.job)
	if n := len(c.runs); n > 0 {
		c.t.Errorf("%d more runs of the job, the first as attempt %d", n, <-c.runs)
	}
	execute(c.t, c.pool, "DROP FUNCTION public.stand_still() CASCADE")
	other := c.enqueue(effectJob{})
	receive(c.t, c.runs, "another job")
	c.awaitEmpty()
	execute(c.t, c.pool, "DELETE FROM public.effects WHERE job = $1", other)
}

// requireCounted waits until the worker has counted the job and the other one, a moment after they are written, and
// requires the outcomes.
func (c *cutTest) requireCounted(want runner.Outcomes) {
	c.t.Helper()
	got := until(c.t, "all verdicts are counted", func() runner.Outcomes { return c.worker.Status().Queues[queueName].Outcomes },
		func(o runner.Outcomes) bool { return o.Total() >= want.Total() })
	if got != want {
		c.t.Errorf("the worker counts %+v, want %+v", got, want)
	}
}
