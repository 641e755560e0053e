package runner

import (
	"context"
	"sync"
	"time"
)

// prefetch is how much work, measured in time, is claimed ahead of the slots.
const prefetch = time.Second

// session is one Run or Drain of a runner. Its goroutines: the loop that claims, the workers, two that flush verdicts,
// one that watches deadlines and leases, and one that renews. All of them have ended when it has, but for handlers
// that ignore their context.
type session[P, R any] struct {
	r       *Runner[P, R]
	cfg     *Config
	base    context.Context // carries the values of Run's context and is never cancelled
	drain   bool
	began   time.Time
	stop    chan struct{} // closed by askStop
	stopped sync.Once
	hurry   chan struct{} // closed by askStopNow
	hurried sync.Once
	storage context.Context // for calls of the queue: cancelled only after askStopNow
	giveUp  context.CancelFunc

	loopWake  chan struct{} // all of them have room for one and are sent to without blocking
	watchWake chan struct{}
	flushWake chan struct{}
	helpWake  chan struct{}
	renewWake chan struct{}

	mu    sync.Mutex
	tasks *sync.Cond // workers wait for tasks

	slots    []*slot[P, R]
	alive    int // workers that have not exited
	idle     int // workers that wait
	extra    int // slots that replace those of stuck handlers
	running  int // handlers
	inSlots  int // tasks that they were given
	buffer   buffer[P, R]
	kinds    *kindSet
	stopping bool
	ended    bool          // late handlers drop what they have
	allDone  chan struct{} // closed when the last worker has exited

	// The loop's own.
	claimers         sync.WaitGroup
	claims           int  // under way
	promised         int  // what they ask for, together
	full             bool // the latest claim to end brought all that it asked for
	overlaps         bool // one claim may join another
	rotation         rotation
	turn             int // the group of kinds whose turn it is to be claimed first
	window           window
	lookFirst        bool // after the hint that opened the window: others are likely to have claimed
	claimed          uint64
	room             bool      // the loop waits for room in the buffer
	poll             time.Time // when to look again without a hint
	due              bool      // poll is the time at which a task is due
	probe            bool      // the loop has become idle and should ask when the next task is due
	hold             time.Time // no claim before, after an error
	failures         int       // claims in a row
	pausedUntil      time.Time
	queuePaused      time.Time    // when the queue was first found paused; zero: it is not
	queuePausedUntil time.Time    // when that ends by itself, as far as is known; zero: it does not
	pausedKinds      []PausedKind // as the queue knew latest
	calm             bool         // the latest claim began with nothing in flight
	drained          bool
	drainErr         error

	mean time.Duration // of handlers, exponentially weighted

	outages outageLogs

	alarm  time.Time // when the watcher must look next; zero: never
	sought []sought  // see RenewNow

	// The reporter's own.
	pending    []*entry[P, R] // verdicts to write
	delayed    []*entry[P, R] // verdicts to write later
	inFlight   int            // verdicts being written
	flushIdle  bool           // the first flusher sleeps and must be woken
	flushHold  time.Time      // no flush before, after an error
	flushFails int            // in a row
	flushLimit int            // rows, cut after an error
	flushClose bool           // end when everything is written
	flushEnd   time.Time      // or then at the latest
	hurryEnd   time.Time      // when calls of the queue are given up; zero: never

	lastCode   string // of a failed attempt
	lastCodeAt time.Time

	counts Outcomes
	side   sync.WaitGroup // observer calls made beside

	pulses pulses
}

// slot is one worker's place.
type slot[P, R any] struct {
	entry *entry[P, R]
	batch *batch[P, R] // instead of entry

	replaced *entry[P, R] // is stuck in it, and another slot was added for it
}

// each visits what runs in the slot.
func (o *slot[P, R]) each(visit func(*entry[P, R]) bool) {
	if o.entry != nil {
		visit(o.entry)
		return
	}
	if o.batch == nil {
		return
	}
	for _, e := range o.batch.entries {
		if !visit(e) {
			return
		}
	}
}

func newSession[P, R any](ctx context.Context, r *Runner[P, R], drain bool) *session[P, R] {
	s := &session[P, R]{
		r: r, cfg: &r.config, base: context.WithoutCancel(ctx), drain: drain, began: time.Now(),
		stop: make(chan struct{}), hurry: make(chan struct{}),
		loopWake: make(chan struct{}, 1), watchWake: make(chan struct{}, 1),
		flushWake: make(chan struct{}, 1), helpWake: make(chan struct{}, 1), renewWake: make(chan struct{}, 1),
		allDone:    make(chan struct{}),
		kinds:      newKindSet(&r.config, drain),
		rotation:   rotation{classes: r.config.Classes},
		window:     window{length: r.config.Window},
		flushLimit: r.config.MaxReport,
	}
	s.storage, s.giveUp = context.WithCancel(s.base)
	s.poll = s.began.Add(jittered(s.cfg.Poll))
	s.slots = make([]*slot[P, R], r.config.Workers)
	for i := range s.slots {
		s.slots[i] = &slot[P, R]{}
	}
	s.tasks = sync.NewCond(&s.mu)
	s.overlaps = len(s.kinds.groups) == 1 && s.kinds.groups[0][0].size == 0 // kinds with batches are claimed in turn
	return s
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *session[P, R]) askStop() { s.stopped.Do(func() { close(s.stop) }) }

// unwritten counts verdicts that have not been written. The lock is held.
func (s *session[P, R]) unwritten() int { return len(s.pending) + len(s.delayed) + s.inFlight }

// inWork counts all claimed tasks whose end has not been written. The lock is held.
func (s *session[P, R]) inWork() int { return s.inSlots + s.buffer.length + s.unwritten() }

// hint takes one hint from outside.
func (s *session[P, R]) hint() {
	now := time.Now()
	s.mu.Lock()
	fresh, arm := s.window.hint(now, s.herdDelay())
	s.mu.Unlock()
	if fresh || arm {
		poke(s.loopWake)
	}
	if !fresh {
		s.r.mu.Lock()
		s.r.merged++
		s.r.mu.Unlock()
	}
}

// release gives back entries that have not started. The lock is held.
func (s *session[P, R]) release(entries []*entry[P, R]) {
	for _, e := range entries {
		e.verdict = Verdict[R]{Token: e.task.Token, Decision: Release}
		s.enqueueVerdict(e)
	}
}

// enqueueVerdict hands a verdict to the flushers. The lock is held.
func (s *session[P, R]) enqueueVerdict(e *entry[P, R]) {
	e.verdict.Started = !e.started.IsZero()
	if e.verdict.Decision == Retry || e.verdict.Decision == Confirm {
		e.verdict.MaxAttempts = e.kind.attempts
	}
	s.pending = append(s.pending, e)
	if s.flushIdle {
		s.flushIdle = false
		poke(s.flushWake)
	} else if len(s.pending) == s.helpAt() {
		poke(s.helpWake)
	}
}

// helpAt is how many pending verdicts justify a second flush beside the first.
func (s *session[P, R]) helpAt() int { return max(2, s.cfg.MaxReport/4) }

// changed wakes the loop if it waits for what has just changed: room for a claim, or the end of a drain.
func (s *session[P, R]) changed() {
	if s.room && s.wants() {
		s.room = false
		poke(s.loopWake)
	} else if s.drain && s.inWork() == 0 {
		poke(s.loopWake)
	}
}
