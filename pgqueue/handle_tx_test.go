package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// newEffects is a database with a table for what handlers do.
func newEffects(t testing.TB) *pgqueuetest.DB {
	t.Helper()
	db := pgqueuetest.New(t)
	exec(t, db.Pool, "CREATE TABLE effects (name text NOT NULL)")
	return db
}

// effect writes what a handler did.
func effect(ctx context.Context, tx pgx.Tx, name string) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", name)
	return err
}

// requireEffects checks what is to be seen of handlers.
func requireEffects(t testing.TB, pool *pgxpool.Pool, want ...string) {
	t.Helper()
	got := one[[]string](t, pool, "SELECT coalesce(array_agg(name ORDER BY name), '{}') FROM effects")
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("effects %v, want %v", got, want)
	}
}

func TestHandleTxCommitsEffectsWithTheCompletion(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[task]) error {
		switch job.Args.Do {
		case "unused":
			return nil
		case "rolled back":
			return errors.Join(effect(ctx, tx, job.Args.Do), errors.New("no"))
		case "panic":
			_ = effect(ctx, tx, job.Args.Do)
			panic("no")
		case "savepoint":
			inner, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			if err := effect(ctx, inner, "of a savepoint that is rolled back"); err != nil {
				return err
			}
			if err := inner.Rollback(ctx); err != nil {
				return err
			}
			return pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error { return effect(ctx, inner, job.Args.Do) })
		case "owned":
			if err := tx.Commit(ctx); !errors.Is(err, pgqueue.ErrTxOwned) {
				return pgqueue.Permanent(fmt.Errorf("Commit: %w", err))
			}
			if err := tx.Rollback(ctx); !errors.Is(err, pgqueue.ErrTxOwned) {
				return pgqueue.Permanent(fmt.Errorf("Rollback: %w", err))
			}
		case "statement failed":
			_, _ = tx.Exec(ctx, "SELECT 1 / 0") // and the handler does not care
			return nil
		case "enqueues":
			if _, err := client.Enqueue(ctx, tx, task{Do: "enqueued"}, pgqueue.OnQueue("later")); err != nil {
				return err
			}
		}
		return effect(ctx, tx, job.Args.Do)
	})
	ids := map[string]int64{}
	for _, do := range []string{"plain", "unused", "rolled back", "panic", "savepoint", "owned", "statement failed", "enqueues"} {
		ids[do] = enqueue(t, client, db.Pool, task{Do: do}).ID
	}
	result := drain(t, client, mux, pgqueue.WorkerConfig{})
	if result.Outcomes.Succeeded != 5 || result.Outcomes.Retrying != 3 {
		t.Errorf("outcomes %+v, want 5 successes and 3 retries", result.Outcomes)
	}
	requireEffects(t, db.Pool, "enqueues", "owned", "plain", "savepoint")
	for do, id := range ids {
		switch do {
		case "rolled back", "panic", "statement failed":
			job(t, db.Pool, id).requireState(t, "pending", 1, 1)
		default:
			job(t, db.Pool, id).requireState(t, "succeeded", 1, 0)
		}
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs WHERE queue = 'later'"); n != 1 {
		t.Errorf("%d jobs were enqueued with the transaction, want 1", n)
	}
	if n := db.Pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections were not given back", n)
	}
}

// CompleteTx inside HandleTx would complete the job twice; it says so.
func TestHandleTxCompletesTheJobItself(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	refused := make(chan error, 1)
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[task]) error {
		refused <- job.CompleteTx(ctx, tx)
		return effect(ctx, tx, "done")
	})
	id := enqueue(t, client, db.Pool, task{}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	if err := receive(t, refused, "the handler"); !errors.Is(err, pgqueue.ErrTxOwned) {
		t.Errorf("CompleteTx: %v, want ErrTxOwned", err)
	}
	job(t, db.Pool, id).requireState(t, "succeeded", 1, 0)
	requireEffects(t, db.Pool, "done")
}

// The transaction begins with its first statement, after the slow work.
func TestHandleTxBeginsLazily(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	workers := poolLike(t, db.Pool, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["application_name"] = "the worker's pool"
	})
	client := quietClient(t, db.Pool)
	open := func() int {
		return one[int](t, db.Pool, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'the worker''s pool'
			AND datname = current_database() AND state = 'idle in transaction'`)
	}
	mux := pgqueue.NewMux()
	counts := make(chan [2]int, 1)
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, _ *pgqueue.Job[task]) error {
		before := open()
		err := effect(ctx, tx, "done")
		counts <- [2]int{before, open()}
		return err
	})
	enqueue(t, client, db.Pool, task{})
	drain(t, client, mux, pgqueue.WorkerConfig{Pool: workers})
	if got := receive(t, counts, "the handler"); got != [2]int{0, 1} {
		t.Errorf("%d transactions before and %d after the first use, want 0 and 1", got[0], got[1])
	}
}

func TestHandleTxRollsBackWhenTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[task]) error {
		if err := effect(ctx, tx, "must not stay"); err != nil {
			return err
		}
		exec(t, db.Pool, `UPDATE pgqueue.jobs SET attempt = attempt + 1, claimed_by = 'another', claimed_at = now(),
			lease_expires_at = now() + interval '1 hour' WHERE id = $1`, job.ID)
		return nil
	})
	id := enqueue(t, client, db.Pool, task{}).ID
	if result := drain(t, client, mux, pgqueue.WorkerConfig{}); result.Outcomes.Lost != 1 {
		t.Errorf("outcomes %+v, want one lost", result.Outcomes)
	}
	requireEffects(t, db.Pool)
	job(t, db.Pool, id).requireState(t, "running", 2, 0)
}

// A job whose lease ran out, but that nobody took, is completed all the same.
func TestHandleTxCommitsAfterAReapThatNobodyUsed(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[task]) error {
		exec(t, db.Pool, "UPDATE pgqueue.jobs SET state = 'pending', lease_expires_at = NULL, run_at = now() + interval '1 hour' WHERE id = $1", job.ID)
		return effect(ctx, tx, "done")
	})
	id := enqueue(t, client, db.Pool, task{}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	requireEffects(t, db.Pool, "done")
	job(t, db.Pool, id).requireState(t, "succeeded", 1, 0)
}

// The input is replaced during the run: both inputs are worked on, the later one last.
func TestHandleTxSuperseded(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[task]) error {
		if job.Revision == "1" {
			for _, revision := range []string{"2", "3"} {
				requireOutcome(t, enqueue(t, client, db.Pool, task{Do: revision}, pgqueue.WithKey("k"), pgqueue.WithRevision(revision)), pgqueue.Replaced)
			}
		}
		return effect(ctx, tx, job.Args.Do)
	})
	id := enqueue(t, client, db.Pool, task{Do: "1"}, pgqueue.WithKey("k"), pgqueue.WithRevision("1")).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	requireEffects(t, db.Pool, "1", "3")
	s := job(t, db.Pool, id)
	s.requireState(t, "succeeded", 2, 0)
	if s.Revision != "3" || s.Generation != 3 {
		t.Errorf("revision %s of generation %d, want 3 and 3", s.Revision, s.Generation)
	}
}

// lostCommit runs a transactional handler whose first COMMIT reaches the server and is not answered: a deferred
// constraint trigger holds it there until the connection is cut. Then meanwhile decides how it ends; it is given a function
// that lets the COMMIT go on, and the server's process. Until meanwhile has returned no connection comes through, so
// that pgx cannot cancel the COMMIT, which it tries when a connection breaks.
func lostCommit(t *testing.T, meanwhile func(db *pgqueuetest.DB, goOn func(), backend int)) (*pgqueuetest.DB, int64, <-chan runner.VerdictEvent) {
	t.Helper()
	db := newEffects(t)
	exec(t, db.Pool, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.name = 'attempt 1' THEN PERFORM pg_advisory_xact_lock(1); END IF; RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold()`)
	proxy, cut := throughProxy(t, db.Pool)
	client := quietClient(t, db.Pool)
	gate := begin(t, db.Pool, pgx.TxOptions{})
	exec(t, gate, "SELECT pg_advisory_xact_lock(1)")
	backends := make(chan int, 10)
	mux := pgqueue.NewMux()
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[task]) error {
		if err := effect(ctx, tx, fmt.Sprintf("attempt %d", job.Attempt)); err != nil {
			return err
		}
		var backend int
		if err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
			return err
		}
		backends <- backend
		return nil
	})
	verdicts := make(chan runner.VerdictEvent, 10)
	startWorker(t, client, mux, pgqueue.WorkerConfig{
		Pool: cut, DisableListener: true, Queues: pgqueue.Queues{"default": {}},
		Observer: &hooks{verdict: func(e runner.VerdictEvent) { verdicts <- e }},
	})
	id := enqueue(t, client, db.Pool, task{}).ID
	backend := receive(t, backends, "the handler")
	eventually(t, "the COMMIT has reached the server", func() bool {
		return one[bool](t, db.Pool, "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = $1)", backend)
	})
	proxy.Refuse(true)
	proxy.Cut()
	meanwhile(db, func() { _ = gate.Rollback(context.Background()) }, backend)
	eventually(t, "the server's process has ended", func() bool {
		return one[bool](t, db.Pool, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", backend)
	})
	proxy.Refuse(false)
	return db, id, verdicts
}

func TestHandleTxLosesTheAnswerToACommitThatHappened(t *testing.T) {
	t.Parallel()
	db, id, verdicts := lostCommit(t, func(_ *pgqueuetest.DB, goOn func(), _ int) { goOn() })
	if e := receive(t, verdicts, "the verdict"); e.Decision != runner.Confirm || e.Outcome != runner.Succeeded {
		t.Errorf("decision %d with outcome %d, want a confirmed success", e.Decision, e.Outcome)
	}
	job(t, db.Pool, id).requireState(t, "succeeded", 1, 0)
	requireEffects(t, db.Pool, "attempt 1")
}

func TestHandleTxLosesTheAnswerToACommitThatFailed(t *testing.T) {
	t.Parallel()
	db, id, verdicts := lostCommit(t, func(db *pgqueuetest.DB, _ func(), backend int) {
		exec(t, db.Pool, "SELECT pg_terminate_backend($1)", backend)
	})
	if e := receive(t, verdicts, "the verdict"); e.Decision != runner.Confirm || e.Outcome != runner.Retrying {
		t.Errorf("decision %d with outcome %d, want a retry after asking", e.Decision, e.Outcome)
	}
	s := awaitState(t, db.Pool, id, "succeeded")
	s.requireState(t, "succeeded", 2, 1)
	if len(s.Errors) != 1 || s.Errors[0].Code != runner.CodeNotCommitted {
		t.Errorf("errors %+v, want one of %s", s.Errors, runner.CodeNotCommitted)
	}
	requireEffects(t, db.Pool, "attempt 2")
}

// A handler that writes nothing but has passed its deadline has failed; one whose transaction has committed has not.
func TestHandleTxPastItsDeadline(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[task]) error {
		if job.Args.Do == "writes" {
			if err := effect(ctx, tx, job.Args.Do); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	}, pgqueue.KindDeadline(200*time.Millisecond))
	writes := enqueue(t, client, db.Pool, task{Do: "writes"}).ID
	idle := enqueue(t, client, db.Pool, task{Do: "idle"}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	job(t, db.Pool, writes).requireState(t, "succeeded", 1, 0)
	job(t, db.Pool, idle).requireState(t, "pending", 1, 1)
	requireEffects(t, db.Pool, "writes")
}
