package integration

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// A job exists exactly when the data of its transaction does: of many transactions side by side, some of which roll back,
// in a savepoint too, the jobs that run are those whose rows are there.
func TestJobsGoWithTheirTransactions(t *testing.T) {
	t.Parallel()
	const producers, each = 4, 25
	s := newService(t)
	execute(t, s.pool, "CREATE TABLE public.orders (n int NOT NULL)")
	mux, ran := newNotes()
	worker := serve(t, s.client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{queueName: {}}})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)

	undo := errors.New("the application changed its mind")
	order := func(ctx context.Context, tx pgx.Tx, n int) error {
		if _, err := tx.Exec(ctx, "INSERT INTO public.orders VALUES ($1)", n); err != nil {
			return err
		}
		_, err := s.client.Enqueue(ctx, tx, noteJob{n})
		return err
	}
	errs := make(chan error, producers*each)
	var group sync.WaitGroup
	for producer := range producers {
		random := rand.New(rand.NewPCG(seed, uint64(producer)))
		group.Go(func() {
			for i := range each {
				n := producer*each + i
				fate := random.IntN(3)
				err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
					if fate == 2 { // the order is undone, the transaction goes on
						err := pgx.BeginFunc(t.Context(), tx, func(nested pgx.Tx) error {
							if err := order(t.Context(), nested, n); err != nil {
								return err
							}
							return undo
						})
						if errors.Is(err, undo) {
							return nil
						}
						return err
					}
					if err := order(t.Context(), tx, n); err != nil {
						return err
					}
					if fate == 1 {
						return undo
					}
					return nil
				})
				if fate == 1 && errors.Is(err, undo) {
					err = nil
				}
				errs <- err
			}
		})
	}
	group.Wait()
	for range producers * each {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	s.awaitEmpty()
	worker.stop()

	want := map[int]bool{}
	for _, n := range column[int](t, s.pool, "SELECT n FROM public.orders") {
		want[n] = true
	}
	if len(want) == 0 || len(want) == producers*each {
		t.Fatalf("%d of %d orders were committed; there is nothing to tell apart", len(want), producers*each)
	}
	for len(ran) > 0 {
		got := <-ran
		if !want[got.N] {
			t.Errorf("job %d ran twice, or its order was rolled back", got.N)
		}
		delete(want, got.N)
	}
	if len(want) > 0 {
		t.Errorf("the jobs of orders %v did not run", want)
	}
	if n := one[int](t, s.pool, "SELECT (SELECT count(*) FROM pgqueue.history) - (SELECT count(*) FROM public.orders)"); n != 0 {
		t.Errorf("the history has %d jobs more than there are orders", n)
	}
}
