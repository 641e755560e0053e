package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	idleClients = 10
	idleQueues  = 5 // of each client
)

// measureIdle counts what clients with nothing to do send and write, by their own count and by the server's. The first sixth of the
// time, in which they start, does not count.
func measureIdle(ctx context.Context, at *site) (figures []figure, err error) {
	sent := &statements{}
	err = at.with(ctx, wiring{tracer: sent}, func(db *database, _ system) (err error) {
		var stops []func() error
		defer func() {
			for _, stop := range stops {
				err = errors.Join(err, stop())
			}
		}()
		for i := range idleClients {
			stop, err := idleClient(ctx, at, db, i, sent)
			if err != nil {
				return err
			}
			stops = append(stops, stop)
		}
		if err := pause(ctx, at.seconds/6); err != nil {
			return err
		}
		before, err := readCounters(ctx, db, at.engine.heartbeats)
		if err != nil {
			return err
		}
		from, start := sent.sent.Load(), time.Now()
		if err := pause(ctx, at.seconds); err != nil {
			return err
		}
		statements, took := sent.sent.Load()-from, time.Since(start)
		after, err := readCounters(ctx, db, at.engine.heartbeats)
		if err != nil {
			return err
		}
		each := func(n int64) float64 { return float64(n) / took.Seconds() / idleClients }
		if at.engine.needs != needsNode {
			figures = append(figures, figure{"statements_per_s_per_client", each(statements), 2})
		}
		figures = append(figures, figure{"transactions_per_s_per_client", each(after.commits + after.rollbacks - before.commits - before.rollbacks), 2},
			figure{"rows_written_per_s_per_client", each(after.written - before.written), 2},
			figure{"heartbeat_rows_per_s_per_client", each(after.heartbeats - before.heartbeats), 2})
		return nil
	})
	return figures, err
}

// idleClient starts one client with a pool of its own.
func idleClient(ctx context.Context, at *site, db *database, number int, sent *statements) (stop func() error, err error) {
	var queues []string
	for j := range idleQueues {
		queues = append(queues, fmt.Sprintf("queue%d_%d", number, j))
	}
	own, err := connect(ctx, db.url, wiring{tracer: sent})
	if err != nil {
		return nil, err
	}
	system, err := at.engine.open(ctx, own)
	if err != nil {
		own.drop()
		return nil, err
	}
	worker, err := system.work(ctx, load{queues: queues})
	if err != nil {
		system.close(ctx)
		own.drop()
		return nil, err
	}
	return func() error {
		err := worker.stop(ctx)
		system.close(context.WithoutCancel(ctx))
		own.drop()
		return err
	}, nil
}
