package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// payloadBytes is the size of every job's JSON.
const payloadBytes = 100

// noop is a job of payloadBytes that does nothing. It is the payload of every engine.
type noop struct {
	At      int64  `json:"at,omitempty"` // microseconds since 1970: when its producer began, or when it is due; 0 in bulk
	Padding string `json:"padding"`
}

// Kind is the name of the job for pgqueue.
func (noop) Kind() string { return "noop" }

// payload is a noop that is payloadBytes long as JSON.
func payload(at int64) noop {
	empty := len(`{"padding":""}`)
	if at != 0 {
		empty += len(`"at":,`) + len(strconv.FormatInt(at, 10))
	}
	return noop{At: at, Padding: strings.Repeat("x", payloadBytes-empty)}
}

// lot is what fill enqueues.
type lot struct {
	jobs  int
	due   time.Time // zero means at once
	kind  string    // of jobs that nobody serves; empty means noop
	queue string    // empty means the default queue
	low   bool      // of the priority after the default one
}

// plain tells whether a lot is nothing but jobs, which every engine can do.
func (l lot) plain() error {
	if (l != lot{jobs: l.jobs}) {
		return errors.New("this engine is filled with jobs of one sort only")
	}
	return nil
}

// batches calls each with the sizes of the batches in which a lot is enqueued.
func (l lot) batches(size int, each func(n int) error) error {
	for left := l.jobs; left > 0; left -= size {
		if err := each(min(size, left)); err != nil {
			return err
		}
	}
	return nil
}

// order is one job that enqueue commits.
type order struct {
	stamp int64     // of the payload
	due   time.Time // zero means at once
	queue string    // empty means the default queue
}

// load is what a worker is asked to do.
type load struct {
	queues   []string      // empty means the default queue
	handlers int           // at a time, for each queue; 0 means as the engine is set
	lease    time.Duration // 0 means the default; only pgqueue has one
	block    bool          // handlers keep their job until they are stopped
	// started is called by the handler, first thing, with the stamp of the payload and the time. Nil means nobody asks.
	started func(stamp int64, at time.Time)
}

// handle is what every handler in this process does.
func (l load) handle(ctx context.Context, stamp int64) {
	if l.started != nil {
		l.started(stamp, time.Now())
	}
	if l.block {
		<-ctx.Done()
	}
}

// running is a worker at work.
type running struct {
	done  func() int64  // successes since its start, as the engine's own API tells
	moved chan struct{} // receives after done has grown; its capacity is 1
	ended chan error    // what the worker returned; its capacity is 1
	halt  func(ctx context.Context) error
}

// note says that done has grown.
func (r *running) note() { wake(r.moved) }

func wake(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// reach waits until n jobs have succeeded.
func (r *running) reach(ctx context.Context, n int64) error {
	for r.done() < n {
		select {
		case <-r.moved:
		case err := <-r.ended:
			r.ended <- err
			if err == nil && r.done() >= n { // a loop that ends by itself
				return nil
			}
			return fmt.Errorf("the worker ended early: %w", errors.Join(err, ctx.Err()))
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs succeeded: %w", r.done(), n, ctx.Err())
		}
	}
	return nil
}

// stop waits until the worker has ended.
func (r *running) stop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	return errors.Join(r.halt(ctx), <-r.ended)
}

// watch makes running of a worker that run runs until its context ends.
func watch(ctx context.Context, done func() int64, moved chan struct{}, run func(ctx context.Context) error) *running {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return &running{done: done, moved: moved, ended: ended, halt: func(context.Context) error { stop(); return nil }}
}

// settled waits until what a worker has reported is stored.
func settled(ctx context.Context, system system) error {
	late, ok := system.(settling)
	if !ok {
		return nil
	}
	for {
		open, err := late.pending(ctx)
		if err != nil || !open {
			return err
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
