package pgqueue_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

func TestCompleteTx(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		tx, err := db.Pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if err := errors.Join(effect(ctx, tx, job.Args.Do), job.CompleteTx(ctx, tx)); err != nil {
			return err
		}
		switch {
		case job.Args.Do == "rolled back" && job.Attempt == 1:
			return nil
		case job.Args.Do == "error before the commit":
			return errors.New("no")
		}
		return tx.Commit(ctx)
	})
	ids := map[string]int64{}
	for _, do := range []string{"committed", "rolled back", "error before the commit"} {
		ids[do] = enqueue(t, client, db.Pool, task{Do: do}).ID
	}
	result := drain(t, client, mux, pgqueue.WorkerConfig{})
	if result.Outcomes.Succeeded != 1 || result.Outcomes.Retrying != 2 {
		t.Errorf("outcomes %+v, want a success and two retries", result.Outcomes)
	}
	requireEffects(t, db.Pool, "committed")
	job(t, db.Pool, ids["committed"]).requireState(t, "succeeded", 1, 0)
	for do, code := range map[string]string{"rolled back": runner.CodeNotCommitted, "error before the commit": runner.CodeError} {
		s := job(t, db.Pool, ids[do])
		s.requireState(t, "pending", 1, 1)
		if len(s.Errors) != 1 || s.Errors[0].Code != code {
			t.Errorf("%s: errors %+v, want one of code %s", do, s.Errors, code)
		}
	}

	// The one whose transaction was rolled back runs again.
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET run_at = now() WHERE id = $1", ids["rolled back"])
	drain(t, client, mux, pgqueue.WorkerConfig{})
	job(t, db.Pool, ids["rolled back"]).requireState(t, "succeeded", 2, 1)
	requireEffects(t, db.Pool, "committed", "rolled back")
}

func TestCompleteTxWithoutATransaction(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	refused := make(chan error, 1)
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		refused <- job.CompleteTx(ctx, nil)
		return nil
	})
	enqueue(t, client, db.Pool, task{})
	drain(t, client, mux, pgqueue.WorkerConfig{})
	requireInvalid(t, receive(t, refused, "the handler"), "tx")
}

// The input is replaced during the run: CompleteTx succeeds, and the job runs again with the latest input.
func TestCompleteTxSuperseded(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		if job.Revision == "1" {
			for _, revision := range []string{"2", "3"} {
				requireOutcome(t, enqueue(t, client, db.Pool, task{Do: revision}, pgqueue.WithKey("k"), pgqueue.WithRevision(revision)), pgqueue.Replaced)
			}
		}
		return pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
			return errors.Join(effect(ctx, tx, job.Args.Do), job.CompleteTx(ctx, tx))
		})
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

// A lost lease is an answer: the caller's transaction is as good as before. See also TestC44.
func TestCompleteTxAfterTheLease(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"claimed by another": `UPDATE pgqueue.jobs SET attempt = attempt + 1, claimed_by = 'another', claimed_at = now(),
			lease_expires_at = now() + interval '1 hour' WHERE id = $1`,
		"deleted": "DELETE FROM pgqueue.jobs WHERE id = $1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newEffects(t)
			client := quietClient(t, db.Pool)
			mux := pgqueue.NewMux()
			answers := make(chan error, 1)
			pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
				exec(t, db.Pool, sql, job.ID)
				return pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
					answers <- job.CompleteTx(ctx, tx)
					return effect(ctx, tx, "the transaction is usable")
				})
			})
			enqueue(t, client, db.Pool, task{})
			if result := drain(t, client, mux, pgqueue.WorkerConfig{}); result.Outcomes.Lost != 1 || result.Claimed != 1 {
				t.Errorf("outcomes %+v, want one lost", result.Outcomes)
			}
			if err := receive(t, answers, "the handler"); !errors.Is(err, pgqueue.ErrLeaseLost) {
				t.Errorf("CompleteTx: %v, want ErrLeaseLost", err)
			}
			requireEffects(t, db.Pool, "the transaction is usable")
		})
	}
}

// A revision that replaces the input of a running job is worked on afterwards, and only the latest one is.
func TestAReplacedInputRunsAgain(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	var ran []string
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		ran = append(ran, job.Revision+job.Args.Do)
		if job.Revision == "1" {
			for _, revision := range []string{"2", "3"} {
				requireOutcome(t, enqueue(t, client, db.Pool, task{Do: "b"}, pgqueue.WithKey("k"), pgqueue.WithRevision(revision)), pgqueue.Replaced)
			}
			requireOutcome(t, enqueue(t, client, db.Pool, task{Do: "c"}, pgqueue.WithKey("k"), pgqueue.WithRevision("3")), pgqueue.Same)
			return errors.New("the old input fails: at no cost to the new one")
		}
		return nil
	})
	id := enqueue(t, client, db.Pool, task{Do: "a"}, pgqueue.WithKey("k"), pgqueue.WithRevision("1"), pgqueue.WithMaxAttempts(1)).ID
	result := drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1}}})
	if len(ran) != 2 || ran[0] != "1a" || ran[1] != "3b" {
		t.Errorf("ran %v, want revisions 1 and 3", ran)
	}
	if result.Outcomes.Superseded != 1 || result.Outcomes.Succeeded != 1 {
		t.Errorf("outcomes %+v, want one superseded and one success", result.Outcomes)
	}
	job(t, db.Pool, id).requireState(t, "succeeded", 2, 0)
}
