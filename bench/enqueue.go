package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// producerCounts is from how many connections single jobs are enqueued at a time.
func producerCounts() []int { return []int{1, 16, mostProducers} }

const mostProducers = 64

// manyListeners is how many workers' listeners stand by in the second measurement.
const manyListeners = 50

// singles is how many jobs are enqueued one by one in a run of so many jobs.
func singles(jobs int) int { return max(64, jobs/50) }

// measureEnqueue times the producers' side: all jobs in bulk, and some one transaction each. No worker runs, but a connection listens
// where producers notify, or 50 do.
func measureEnqueue(ctx context.Context, at *site) (figures []figure, err error) {
	err = at.producing(ctx, wiring{pool: mostProducers}, func(db *database, system producer) error {
		listeners, err := openListeners(ctx, db, at.engine.channel, 1)
		if err != nil {
			return err
		}
		defer func() { listeners.close() }()
		start := time.Now()
		if err := system.fill(ctx, lot{jobs: at.jobs}); err != nil {
			return err
		}
		figures = append(figures, perSecond("bulk_per_s", float64(at.jobs), time.Since(start)))
		if err := settle(ctx, db, system); err != nil {
			return err
		}
		if err := db.warm(ctx); err != nil {
			return err
		}
		if _, err := enqueueSingly(ctx, system, mostProducers, 2*mostProducers); err != nil { // what has a pool of its own warms it
			return err
		}
		measure := func(suffix string) error {
			for _, producers := range producerCounts() {
				took, err := enqueueSingly(ctx, system, producers, singles(at.jobs))
				if err != nil {
					return err
				}
				figures = append(figures, perSecond(fmt.Sprintf("single_%d%s_per_s", producers, suffix), float64(singles(at.jobs)), took))
			}
			return nil
		}
		if err := measure(""); err != nil {
			return err
		}
		if quiet, ok := system.(hinting); ok {
			quiet.hints(false)
			err := measure("_no_hints")
			quiet.hints(true)
			if err != nil {
				return err
			}
		}
		if at.engine.channel == "" {
			return nil
		}
		listeners.close()
		if listeners, err = openListeners(ctx, db, at.engine.channel, manyListeners); err != nil {
			return err
		}
		return measure(fmt.Sprintf("_%d_listeners", manyListeners))
	})
	return figures, err
}

// enqueueSingly enqueues jobs, a commit each.
func enqueueSingly(ctx context.Context, system producer, producers, jobs int) (time.Duration, error) {
	// What runs in another process is not measured through the pipe.
	if elsewhere, ok := system.(interface {
		singly(ctx context.Context, producers, jobs int) (time.Duration, error)
	}); ok {
		return elsewhere.singly(ctx, producers, jobs)
	}
	var left atomic.Int64
	left.Store(int64(jobs))
	errs := make([]error, producers)
	var group sync.WaitGroup
	start := time.Now()
	for i := range producers {
		group.Go(func() {
			for errs[i] == nil && left.Add(-1) >= 0 {
				errs[i] = system.enqueue(ctx, order{})
			}
		})
	}
	group.Wait()
	return time.Since(start), errors.Join(errs...)
}

// listeners are connections that hear every notification and do nothing.
type listeners struct {
	quit  context.CancelFunc
	group sync.WaitGroup
	conns []*pgx.Conn
}

// openListeners opens n connections that listen on a channel; an empty one means none.
func openListeners(ctx context.Context, db *database, channel string, n int) (*listeners, error) {
	listening, quit := context.WithCancel(ctx)
	l := &listeners{quit: quit}
	if channel == "" {
		return l, nil
	}
	for range n {
		conn, err := pgx.Connect(ctx, db.url)
		if err != nil {
			l.close()
			return nil, err
		}
		l.conns = append(l.conns, conn)
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			l.close()
			return nil, err
		}
		l.group.Go(func() {
			for {
				if _, err := conn.WaitForNotification(listening); err != nil {
					return
				}
			}
		})
	}
	return l, nil
}

func (l *listeners) close() {
	l.quit()
	l.group.Wait()
	for _, conn := range l.conns {
		_ = conn.Close(context.Background())
	}
	l.conns = nil
}
