package pgqueue

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

const (
	progressEvery = time.Second
	// progressRest is how long nothing is tried after the role was not allowed to.
	progressRest = time.Minute
)

// progressReporter writes what the handlers of a worker say about how far they are: the latest of each job, at most once a second, in one
// statement a queue, and what an attempt said last before its job is given back, see ending. As long as no handler says anything its
// loop sleeps.
type progressReporter struct {
	worker  *Worker
	timeout time.Duration // of one statement
	wake    chan struct{}
	any     atomic.Bool // some handler has said something

	mutex  sync.Mutex
	latest map[int64]said // by job: not written yet
	over   map[int64]int  // jobs that have ended, with their attempts: what was said is to be deleted
	// under is what the loop is writing, and written is closed when it has, or has put it back. Nil while it writes nothing.
	under   map[int64]said
	written chan struct{}
	refused time.Time // when a statement was not allowed
	failing bool      // logged
}

// said is one value on its way.
type said struct {
	queue   string
	attempt int
	value   string
}

func newProgressReporter(w *Worker) *progressReporter {
	return &progressReporter{
		worker: w, timeout: w.config.storageTimeout(), wake: make(chan struct{}, 1), latest: map[int64]said{}, over: map[int64]int{},
	}
}

// used says whether any handler has said anything.
func (p *progressReporter) used() bool { return p.any.Load() }

// set notes what a handler says.
func (p *progressReporter) set(row *jobstore.Row, value string) {
	p.any.Store(true)
	p.mutex.Lock()
	if before, ok := p.latest[row.ID]; !ok || before.attempt <= row.Attempt { // else an old attempt that lost its lease
		p.latest[row.ID] = said{row.Queue, row.Attempt, value}
	}
	p.mutex.Unlock()
	p.poke()
}

// ended notes that jobs have ended.
func (p *progressReporter) ended(rows []*jobstore.Row) {
	if !p.used() {
		return
	}
	found := false
	p.mutex.Lock()
	for _, row := range rows {
		if !row.Reported() {
			continue
		}
		found = true
		if one, ok := p.latest[row.ID]; ok && one.attempt <= row.Attempt {
			delete(p.latest, row.ID)
		}
		p.over[row.ID] = max(p.over[row.ID], row.Attempt)
	}
	p.mutex.Unlock()
	if found {
		p.poke()
	}
}

func (p *progressReporter) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// writeProgress is run for a drain, and returns what ends it.
func (w *Worker) writeProgress(ctx context.Context) (end func()) {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { w.progress.run(background) })
	return func() {
		stop()
		running.Wait()
	}
}

// run writes until ctx ends, and then once more.
func (p *progressReporter) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			p.last(ctx)
			return
		case <-p.wake:
		}
		limited, cancel := context.WithTimeout(ctx, p.timeout)
		p.flush(limited)
		cancel()
		timer.Reset(progressEvery)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}

// last writes what is left, without holding up the stop for long.
func (p *progressReporter) last(ctx context.Context) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(p.timeout, lastWords))
	defer cancel()
	p.flush(limited)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	clear(p.latest) // it would be of no use to a later Run
	clear(p.over)
}

// take removes and returns what is to be written. done must be called when it was.
func (p *progressReporter) take() (latest map[int64]said, over map[int64]int, done func()) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	latest, over = p.latest, p.over
	p.latest, p.over = map[int64]said{}, map[int64]int{}
	p.under, p.written = latest, make(chan struct{})
	return latest, over, func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		close(p.written)
		p.under, p.written = nil, nil
	}
}

// flush writes what was said, and deletes what was said about jobs that have ended. In this order: a job that ends between the two
// had its last value deleted from what is to be written, or is found over the next time.
func (p *progressReporter) flush(ctx context.Context) {
	latest, over, done := p.take()
	defer done()
	if p.rests() {
		return // dropped: a value of a minute ago is worth nothing
	}
	err := p.write(ctx, latest)
	if err == nil && len(over) > 0 {
		ids, attempts := make([]int64, 0, len(over)), make([]int32, 0, len(over))
		for id, attempt := range over {
			ids, attempts = append(ids, id), append(attempts, int32(attempt))
		}
		err = p.worker.client.store.ForgetProgress(ctx, p.worker.pool, ids, attempts)
	}
	p.settle(ctx, err, latest, over)
}

// ending writes what attempts said last, before their jobs are given back: behind that, the next attempt may have begun, which would not
// find it, and whose number keeps it from being written at all. Where nothing is left to write it sends nothing. It gives up with ctx:
// jobs do not wait for it.
func (p *progressReporter) ending(ctx context.Context, rows []*jobstore.Row) {
	p.await(ctx, rows)
	latest := map[int64]said{}
	p.mutex.Lock()
	for _, row := range rows {
		if one, ok := p.latest[row.ID]; ok && one.attempt == row.Attempt {
			latest[row.ID] = one
			delete(p.latest, row.ID)
		}
	}
	p.mutex.Unlock()
	if len(latest) == 0 || p.rests() {
		return
	}
	p.settle(ctx, p.write(ctx, latest), latest, nil)
}

// await waits while the loop is writing something about rows.
func (p *progressReporter) await(ctx context.Context, rows []*jobstore.Row) {
	p.mutex.Lock()
	written, found := p.written, false
	for _, row := range rows {
		if _, ok := p.under[row.ID]; ok {
			found = true
			break
		}
	}
	p.mutex.Unlock()
	if !found {
		return
	}
	select {
	case <-written:
	case <-ctx.Done():
	}
}

// rests says that the role may not write, and that it is not time to try again.
func (p *progressReporter) rests() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return !p.refused.IsZero() && time.Since(p.refused) < progressRest
}

// write sends a statement a queue.
func (p *progressReporter) write(ctx context.Context, latest map[int64]said) error {
	for queue, values := range byQueue(latest) {
		if err := p.worker.client.store.WriteProgress(ctx, p.worker.pool, queue, values); err != nil {
			return err
		}
	}
	return nil
}

// settle logs what became of a write, and keeps what may be written yet.
func (p *progressReporter) settle(ctx context.Context, err error, latest map[int64]said, over map[int64]int) {
	p.note(ctx, err)
	if err != nil && !notAllowed(err) && !badValue(err) {
		p.keep(latest, over)
	}
}

// byQueue puts values of one queue together.
func byQueue(latest map[int64]said) map[string][]jobstore.Said {
	queues := map[string][]jobstore.Said{}
	for id, one := range latest {
		queues[one.queue] = append(queues[one.queue], jobstore.Said{ID: id, Attempt: one.attempt, Value: one.value})
	}
	return queues
}

// badValue tells that Postgres does not take a value. Everything was looked at before, so this is for what nobody has thought of.
func badValue(err error) bool {
	code := postgresCode(err)
	return len(code) == 5 && (code[:2] == "22" || code[:2] == "23" || code[:2] == "54")
}

// keep puts back what could not be written, unless something newer was said.
func (p *progressReporter) keep(latest map[int64]said, over map[int64]int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for id, attempt := range over {
		p.over[id] = max(p.over[id], attempt)
	}
	for id, one := range latest {
		_, newer := p.latest[id]
		if ended, ok := p.over[id]; !newer && (!ok || ended < one.attempt) {
			p.latest[id] = one
		}
	}
	p.poke()
}

// note logs what is new: once that the role may not, and the first of a row of other failures.
func (p *progressReporter) note(ctx context.Context, err error) {
	logger := p.worker.logger
	p.mutex.Lock()
	failing, refused := p.failing, !p.refused.IsZero()
	stopping := err != nil && ctx.Err() != nil && context.Cause(ctx) == context.Canceled // the worker stops; it is tried once more
	switch {
	case err == nil:
		p.refused, p.failing = time.Time{}, false
	case notAllowed(err):
		p.refused = time.Now()
	case !stopping:
		p.failing = true
	}
	p.mutex.Unlock()
	switch {
	case err == nil && failing:
		logger.Info("pgqueue: the progress of jobs is written again")
	case err == nil:
	case notAllowed(err):
		if !refused {
			logger.Warn("pgqueue: the worker may not write the progress of jobs, and works without; docs/roles.md has the GRANT", "error", err)
		}
	case !stopping:
		level := slog.LevelWarn
		if failing {
			level = slog.LevelDebug
		}
		logger.Log(ctx, level, "pgqueue: the progress of jobs could not be written", "error", err)
	}
}
