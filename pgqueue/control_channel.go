package pgqueue

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// The words of the control channel, each followed by a blank and the number of a job. Anybody may send them, and any of them may
// be lost: they say where to look, and the database says what is true.
const (
	wordCancel = "cancel" // somebody asked a running job to stop
	wordAwait  = "await"  // somebody wants to know when the job ends
	wordDone   = "done"   // it has ended
)

const (
	// controlPause is how far apart the rounds of a worker's control loop are at least: many messages become one round.
	controlPause = 20 * time.Millisecond
	// renewAllPause is how far apart renewals of everything are, which follow each new connection of the listener.
	renewAllPause = time.Second
	// lastWords bounds what is sent at the end of a worker.
	lastWords = 2 * time.Second

	// An awaited job is remembered for a minute, and whoever awaits it says so again before that; and so many at most. Who is not
	// remembered polls.
	awaitedFor  = time.Minute
	mostAwaited = 10000
)

// parseControl takes a message apart. ok is false for what is none.
func parseControl(message string) (word string, id int64, ok bool) {
	word, number, found := strings.Cut(message, " ")
	if !found || len(number) == 0 || number[0] < '0' || number[0] > '9' {
		return "", 0, false
	}
	id, err := strconv.ParseInt(number, 10, 64)
	return word, id, err == nil && id > 0
}

// control is a worker's part in the control channel: it has cancellations looked at, and tells those who await a job that it has
// ended. Its callbacks only take notes; a loop does the work.
type control struct {
	worker  *Worker
	timeout time.Duration // of one statement
	awaited awaited
	wake    chan struct{}

	mutex   sync.Mutex
	cancels map[int64]struct{} // jobs that somebody asked to stop, as it is said
	all     bool               // messages may have been lost
	done    []int64            // awaited jobs that have ended

	// The loop's own.
	renewedAll time.Time
	failing    bool // logged
}

func newControl(w *Worker) *control {
	return &control{worker: w, timeout: w.config.storageTimeout(), wake: make(chan struct{}, 1), cancels: map[int64]struct{}{}}
}

// heard takes a message.
func (c *control) heard(message string) {
	word, id, ok := parseControl(message)
	if !ok {
		return
	}
	switch word {
	case wordCancel:
		c.mutex.Lock()
		c.cancels[id] = struct{}{}
		c.mutex.Unlock()
		c.poke()
	case wordAwait:
		c.awaited.add(id, time.Now())
	}
}

// lost is told that messages may not have arrived.
func (c *control) lost() {
	c.mutex.Lock()
	c.all = true
	c.mutex.Unlock()
	c.poke()
}

func (c *control) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Watching implements [jobstore.Ends].
func (c *control) Watching() bool { return c.awaited.any() || c.worker.progress.used() }

// Ended implements [jobstore.Ends].
func (c *control) Ended(rows []*jobstore.Row) {
	c.worker.progress.ended(rows)
	if !c.awaited.any() {
		return
	}
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	c.Recovered(ids)
}

// Recovered implements [jobstore.Ends].
func (c *control) Recovered(ids []int64) {
	if ids = c.awaited.take(ids, time.Now()); len(ids) == 0 {
		return
	}
	c.mutex.Lock()
	c.done = append(c.done, ids...)
	c.mutex.Unlock()
	c.poke()
}

// take empties what was noted.
func (c *control) take() (cancels map[int64]struct{}, all bool, done []int64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	cancels, all, done = c.cancels, c.all, c.done
	c.cancels, c.all, c.done = map[int64]struct{}{}, false, nil
	return cancels, all, done
}

// run does what was noted until ctx ends. What has ended by then is still told.
func (c *control) run(ctx context.Context) {
	timer, later := time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	defer timer.Stop()
	defer later.Stop()
	for {
		select {
		case <-ctx.Done():
			_, _, done := c.take()
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(c.timeout, lastWords))
			c.tell(limited, done)
			cancel()
			return
		case <-c.wake:
		case <-later.C:
		}
		cancels, all, done := c.take()
		if again := c.look(cancels, all); again > 0 {
			later.Reset(again)
		}
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		c.tell(limited, done)
		cancel()
		timer.Reset(controlPause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}

// look has the leases of jobs renewed that somebody is said to have cancelled; the renewal tells whether that is so. Where messages may
// have been lost, it is all leases, unless that was done a moment ago; then it is due again in the time that it returns.
func (c *control) look(cancels map[int64]struct{}, all bool) (again time.Duration) {
	if all {
		if again = renewAllPause - time.Since(c.renewedAll); again <= 0 {
			c.renewedAll = time.Now()
			for _, run := range c.worker.runners {
				run.RenewNow(func(runner.Token) bool { return true })
			}
			return 0
		}
		c.mutex.Lock()
		c.all = true
		c.mutex.Unlock()
	}
	if len(cancels) == 0 {
		return again
	}
	for _, run := range c.worker.runners {
		run.RenewNow(func(token runner.Token) bool {
			row, ok := token.(*jobstore.Row)
			if !ok {
				return false
			}
			_, wanted := cancels[row.ID]
			return wanted
		})
	}
	return again
}

// tell says that jobs have ended, to whoever awaits them. Who does not hear it polls. A client that sends no hints sends none of these.
func (c *control) tell(ctx context.Context, done []int64) {
	client := c.worker.client
	if len(done) == 0 || !client.hinting.Load() {
		return
	}
	slices.Sort(done)
	err := client.store.Tell(ctx, c.worker.pool, client.control, wordDone, slices.Compact(done))
	if ctx.Err() == nil || err == nil {
		level := slog.LevelDebug
		if err != nil && !c.failing {
			level = slog.LevelWarn
		}
		c.failing = err != nil
		if err != nil {
			c.worker.logger.Log(ctx, level, "pgqueue: those who await jobs could not be told of their end; they find out by polling", "jobs", len(done), "error", err)
		}
	}
}

// awaited are the jobs that somebody awaits, with the times until which that holds. The zero value is ready.
type awaited struct {
	mutex sync.Mutex
	until map[int64]time.Time
	last  time.Time // the latest of them
}

// add notes that a job is awaited. When there are too many it is not.
func (a *awaited) add(id int64, now time.Time) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.until == nil {
		a.until = map[int64]time.Time{}
	}
	if _, ok := a.until[id]; !ok && len(a.until) >= mostAwaited {
		for old, until := range a.until {
			if until.Before(now) {
				delete(a.until, old)
			}
		}
		if len(a.until) >= mostAwaited {
			return
		}
	}
	a.last = now.Add(awaitedFor)
	a.until[id] = a.last
}

// any says whether any job is awaited.
func (a *awaited) any() bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return len(a.until) > 0
}

// take removes and returns those of ids that are awaited. All are forgotten once nobody awaits any of them.
func (a *awaited) take(ids []int64, now time.Time) (those []int64) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.last.Before(now) {
		clear(a.until)
	}
	for _, id := range ids {
		if until, ok := a.until[id]; ok {
			delete(a.until, id)
			if !until.Before(now) {
				those = append(those, id)
			}
		}
	}
	return those
}

// tellEnd tells that an attempt has ended its job in a transaction that has committed.
func (a *attempt) tellEnd() {
	if a.ends != nil && a.ends.Watching() {
		a.ends.Ended([]*jobstore.Row{a.row})
	}
}
