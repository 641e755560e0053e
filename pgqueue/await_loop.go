package pgqueue

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/listener"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

const (
	firstAwaitPoll = 50 * time.Millisecond
	lastAwaitPoll  = time.Second
	// awaitRound is how far apart two rounds of a client are at least.
	awaitRound = 5 * time.Millisecond
	// awaitAgain is how often those who run an awaited job are reminded; they forget after awaitedFor.
	awaitAgain = awaitedFor / 3
	// awaitLinger is how long the connection is kept after the last Await has ended.
	awaitLinger  = 30 * time.Second
	awaitTimeout = 5 * time.Second // of one statement

	mostAwaitAsked = 5000 // jobs a statement
	mostAwaitRead  = 100  // the same, whole
)

// awaitEnd is how an Await ends.
type awaitEnd struct {
	record *jobstore.Record
	err    error
}

// awaitWait is one Await.
type awaitWait struct {
	id  int64
	end chan awaitEnd // has room for one
}

// awaitedJob is a job that is awaited here.
type awaitedJob struct {
	waits []*awaitWait
	every time.Duration // between the last look and the next
	next  time.Time     // when it is looked at
	said  time.Time     // when its workers were last told that it is awaited; zero: never, or not since the connection was made
}

// awaits are all Awaits of a client. A goroutine serves them, which begins with the first one and ends a while after the last.
type awaits struct {
	client         *Client
	connect        func(context.Context) (*pgx.Conn, error) // of the listener; nil: as the pool's
	deaf           bool                                     // without a listener
	first, slowest time.Duration                            // between two looks

	mutex  sync.Mutex
	jobs   map[int64]*awaitedJob
	wake   chan struct{}
	stop   context.CancelFunc // of the goroutine; nil: there is none
	done   chan struct{}      // closed when it has ended
	closed bool
	last   error // why the latest look failed; nil: it did not

	// The loop's own.
	failing bool // logged
}

func newAwaits(client *Client, settings *clientSettings) *awaits {
	return &awaits{
		client: client, connect: settings.awaitConn, deaf: settings.awaitDeaf, first: cmp.Or(settings.awaitPoll, firstAwaitPoll), slowest: cmp.Or(settings.awaitPoll, lastAwaitPoll), jobs: map[int64]*awaitedJob{}, wake: make(chan struct{}, 1),
	}
}

// add begins an Await.
func (a *awaits) add(id int64) (*awaitWait, error) {
	wait := &awaitWait{id: id, end: make(chan awaitEnd, 1)}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.closed {
		return nil, ErrClosed
	}
	job := a.jobs[id]
	if job == nil {
		job = &awaitedJob{}
		a.jobs[id] = job
	}
	job.waits = append(job.waits, wait)
	job.every, job.next = a.first, time.Now()
	if a.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		before, done := a.done, make(chan struct{})
		a.stop, a.done = stop, done
		go func() {
			defer close(done)
			defer stop()
			if before != nil {
				<-before // it closes its connection
			}
			a.run(ctx)
		}()
	}
	a.poke()
	return wait, nil
}

// leave ends an Await whose context has ended, and says what the database's trouble was, if it had any.
func (a *awaits) leave(wait *awaitWait) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if job := a.jobs[wait.id]; job != nil {
		job.waits = slices.DeleteFunc(job.waits, func(other *awaitWait) bool { return other == wait })
		if len(job.waits) == 0 {
			delete(a.jobs, wait.id)
		}
	}
	return a.last
}

// close ends all of them.
func (a *awaits) close(ctx context.Context) error {
	a.mutex.Lock()
	a.closed = true
	for id := range a.jobs {
		a.endLocked(id, awaitEnd{err: ErrClosed})
	}
	stop, done := a.stop, a.done
	a.mutex.Unlock()
	if stop != nil {
		stop()
	}
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// endLocked answers all who await a job. The lock is held.
func (a *awaits) endLocked(id int64, end awaitEnd) {
	job := a.jobs[id]
	if job == nil {
		return
	}
	delete(a.jobs, id)
	for _, wait := range job.waits {
		wait.end <- end
	}
}

func (a *awaits) end(id int64, end awaitEnd) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.endLocked(id, end)
}

func (a *awaits) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run looks until ctx ends, or nobody has awaited anything for a while.
func (a *awaits) run(ctx context.Context) {
	hears := a.listen(ctx)
	defer hears.end()
	timer := time.NewTimer(0)
	defer timer.Stop()
	idle := time.Time{}
	for {
		wait, left := a.round(ctx, hears.working())
		switch {
		case left > 0:
			idle = time.Time{}
		case idle.IsZero():
			idle = time.Now()
			wait = awaitLinger
		default:
			wait = awaitLinger - time.Since(idle)
			if wait <= 0 && a.retire() {
				return
			}
		}
		timer.Reset(max(wait, awaitRound))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			continue
		case <-a.wake:
		}
		timer.Reset(awaitRound) // what comes close together is one round
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// retire ends the goroutine, unless somebody has come.
func (a *awaits) retire() bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if len(a.jobs) > 0 {
		return false
	}
	a.stop = nil
	return true
}

// round looks at what is due. It returns how long until something is due again, and how many jobs are awaited.
func (a *awaits) round(ctx context.Context, hears bool) (wait time.Duration, left int) {
	due, say := a.due(time.Now(), hears)
	// Those who run the jobs are told before the jobs are looked at: what ends between the two is heard of.
	a.say(ctx, say)
	for part := range slices.Chunk(due, mostAwaitAsked) {
		if err := a.look(ctx, part); err != nil {
			a.fail(ctx, part, err)
		} else {
			a.works()
		}
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	now := time.Now()
	wait = a.slowest
	for _, job := range a.jobs {
		wait = min(wait, job.next.Sub(now))
	}
	return wait, len(a.jobs)
}

// due lists the jobs to look at now, some of them a little early, so that many of them make few statements; and those that are
// to be said to be awaited.
func (a *awaits) due(now time.Time, hears bool) (due, say []int64) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for id, job := range a.jobs {
		if hears && now.Sub(job.said) >= awaitAgain {
			job.said = now
			say = append(say, id)
		}
		if now.Add(job.every / 3).Before(job.next) {
			continue
		}
		due = append(due, id)
		job.next = now.Add(job.every)
		job.every = min(a.slowest, job.every*3/2)
	}
	slices.Sort(due)
	slices.Sort(say)
	return due, say
}

// say tells the workers that jobs are awaited. Nothing depends on it.
func (a *awaits) say(ctx context.Context, ids []int64) {
	for part := range slices.Chunk(ids, mostAwaitAsked) {
		limited, cancel := context.WithTimeout(ctx, awaitTimeout)
		err := a.client.store.Tell(limited, a.client.pool, a.client.control, wordAwait, part)
		cancel()
		if err != nil && ctx.Err() == nil {
			a.client.logger.Debug("pgqueue: workers could not be told which jobs are awaited; their end is found by polling",
				slog.Int("jobs", len(part)), slog.Any("error", err))
		}
	}
}

// look asks for jobs, and answers those who await what has ended.
func (a *awaits) look(ctx context.Context, ids []int64) error {
	limited, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	live, err := a.client.store.Live(limited, a.client.pool, ids)
	if err != nil {
		return err
	}
	var ended []int64
	for _, id := range ids {
		forgotten, lives := live[id]
		switch {
		case !lives:
			ended = append(ended, id)
		case forgotten:
			a.end(id, awaitEnd{err: ErrNoHistory})
		}
	}
	for part := range slices.Chunk(ended, mostAwaitRead) {
		if err := a.read(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// read reads jobs that are not live, and answers with them. One that has been retried meanwhile is live again and awaited on.
func (a *awaits) read(ctx context.Context, ids []int64) error {
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	found, err := a.client.store.ReadMany(ctx, a.client.pool, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		record := found[id]
		switch {
		case record == nil:
			a.end(id, awaitEnd{err: ErrNotFound})
		case !JobState(record.State).Live():
			a.end(id, awaitEnd{record: record})
		}
	}
	return nil
}

// fail deals with a look that failed: what waiting does not mend ends the Awaits of these jobs.
func (a *awaits) fail(ctx context.Context, ids []int64, err error) {
	if ctx.Err() != nil {
		return
	}
	if err = a.client.schemaError(poolerError(err)); errors.Is(err, ErrSchema) || errors.Is(err, ErrPooler) || postgresCode(err) == codeForbidden {
		for _, id := range ids {
			a.end(id, awaitEnd{err: err})
		}
		return
	}
	a.mutex.Lock()
	a.last = err
	a.mutex.Unlock()
	level := slog.LevelWarn
	if a.failing {
		level = slog.LevelDebug
	}
	a.failing = true
	a.client.logger.Log(ctx, level, "pgqueue: awaited jobs could not be looked at; it is tried again", "jobs", len(ids), "error", err)
}

func (a *awaits) works() {
	a.mutex.Lock()
	a.last = nil
	a.mutex.Unlock()
	if a.failing {
		a.failing = false
		a.client.logger.Info("pgqueue: awaited jobs are looked at again")
	}
}

// heard takes a message of the control channel.
func (a *awaits) heard(message string) {
	word, id, ok := parseControl(message)
	if !ok || word != wordDone {
		return
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if job := a.jobs[id]; job != nil {
		job.next = time.Now()
		a.poke()
	}
}

// connected is told that the connection listens, or that messages were lost: everything is looked at, and said anew.
func (a *awaits) connected() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	now := time.Now()
	for _, job := range a.jobs {
		job.next, job.said = now, time.Time{}
	}
	a.poke()
}

// hearing is the listener of a run.
type hearing struct {
	listens *listener.Listener // nil: none
	stop    context.CancelFunc
	ended   chan struct{}
}

// listen starts the listener, if there is to be one.
func (a *awaits) listen(ctx context.Context) *hearing {
	client := a.client
	if a.deaf || !client.hinting.Load() {
		return &hearing{}
	}
	connect := a.connect
	if connect == nil {
		connect = func(ctx context.Context) (*pgx.Conn, error) { return connectLike(ctx, client.pool) }
	}
	listens, err := listener.New(listener.Config{
		Connect: connect, Channel: client.control,
		Send: func(ctx context.Context, channel, payload string) error {
			_, err := client.pool.Exec(ctx, "SELECT pg_notify($1, $2)", channel, payload)
			return err
		},
		OnHint: a.heard, OnConnect: a.connected, Logger: client.logger,
	})
	if err != nil { // a bug; polling finds everything
		client.logger.Error("pgqueue: awaited jobs are polled for", "error", err)
		return &hearing{}
	}
	ctx, stop := context.WithCancel(ctx)
	h := &hearing{listens: listens, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(h.ended)
		_ = listens.Run(ctx) // ends with ctx
	}()
	return h
}

// working says whether messages arrive, as far as is known.
func (h *hearing) working() bool {
	if h.listens == nil {
		return false
	}
	status := h.listens.Status()
	return status.Connected && !status.Deaf
}

func (h *hearing) end() {
	if h.listens != nil {
		h.stop()
		<-h.ended
	}
}
