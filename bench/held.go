package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// measureHeld lets jobs pass while a REPEATABLE READ transaction is open, which keeps every dead row of them, and compares the last
// tenth with the first. Then the transaction ends, and the time counts until a tenth is as fast again as 0.8 of the first, at most SECONDS.
func measureHeld(ctx context.Context, at *site) (figures []figure, err error) {
	sent := &statements{claims: at.engine.claims}
	tenth := max(1, at.jobs/10)
	err = at.with(ctx, wiring{tracer: sent}, func(db *database, system system) (err error) {
		release, err := hold(ctx, db)
		if err != nil {
			return err
		}
		defer release()
		flow, err := startFlow(ctx, system, load{}, lot{}, at.backlog())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, flow.stop(ctx)) }()
		var rates, claims []float64
		for i := range 10 {
			start, from := time.Now(), flow.worker.done()
			if err := flow.reach(ctx, int64((i+1)*tenth)); err != nil {
				return err
			}
			if passed := flow.worker.done() - from; passed > 0 { // a fast worker may have passed the mark before
				rates = append(rates, float64(passed)/time.Since(start).Seconds())
			}
			claims = append(claims, percentile(milliseconds(sent.take()), 99))
		}
		first, last := rates[0], rates[len(rates)-1]
		figures = []figure{{"first_tenth_per_s", first, 0}, {"last_tenth_per_s", last, 0}, {"last_to_first", last / first, 2},
			millis("claim_p99_first_ms", claims[0]), millis("claim_p99_last_ms", claims[9])}
		release()
		start, again := time.Now(), 0.0
		for again < 0.8*first && time.Since(start) < at.seconds {
			if again, err = flow.rate(ctx, int64(tenth), at.seconds-time.Since(start)); err != nil {
				return err
			}
		}
		figures = append(figures, figure{"after_s", time.Since(start).Seconds(), 1}, figure{"after_to_first", again / first, 2})
		return nil
	})
	return figures, err
}

// hold opens a transaction with a snapshot, on a connection of its own. It ends with the first call of release.
func hold(ctx context.Context, db *database) (release func(), err error) {
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return nil, err
	}
	release = func() { _ = conn.Close(context.WithoutCancel(ctx)) }
	// The snapshot is taken by the first statement; pg_class is as good as any.
	_, err = conn.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class`)
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}
