package pgqueue

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	hintBurst     = 20              // hints of a queue that may go out at once
	trailingHints = 2               // after the last one that was held back, a window apart
	hintTimeout   = 5 * time.Second // for sending them
	maxIdleQueues = 1000            // beyond it, queues with nothing to remember are forgotten
)

// hinter decides which hints go out with a caller's transaction and sends the others itself, later.
//
// A NOTIFY takes a lock of the whole database during commit, so at 64 writers one per enqueue costs more than half of
// the commit rate. Each queue therefore has a token bucket: twenty at once, then one a window. What finds it empty is
// held back and announced by a hint of the client's own at the window's end, and once more a window later, for a
// transaction that was still open. Whatever the order of events, a held-back hint is followed by two trailing ones, or by
// one if the first was under way already.
//
// The goroutine that sends them starts with the first hint that is held back and ends when nothing is pending. close
// waits for it.
type hinter struct {
	window time.Duration
	logger *slog.Logger
	send   func(ctx context.Context, queues []string) error
	now    func() time.Time

	complained time.Time // the goroutine's own: when a failure was logged last

	mu      sync.Mutex
	queues  map[string]*queueHints
	running bool
	closed  bool
	closing chan struct{} // closed by close: send everything now
	done    chan struct{} // closed by the goroutine of the moment; nil if none was ever started
}

// queueHints is what is remembered about one queue.
type queueHints struct {
	tokens   float64
	filled   time.Time // when tokens was right
	lastTx   any       // the transaction of the last hint that was sent with one
	due      time.Time // of the next trailing hint, if left > 0
	trailing int       // how many are left
}

func newHinter(window time.Duration, logger *slog.Logger, send func(context.Context, []string) error) *hinter {
	return &hinter{
		window: window, logger: logger, send: send, now: time.Now,
		queues: map[string]*queueHints{}, closing: make(chan struct{}),
	}
}

// allow tells whether a hint for queue may be sent with q.
//
// Within one transaction nothing is held back: Postgres folds equal hints, so the second costs nothing. It is sent
// again, not left out, because the first may vanish with a savepoint.
func (h *hinter) allow(queue string, q Querier) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := h.state(queue)
	tx := transactionOf(q)
	if tx != nil && tx == state.lastTx {
		return true
	}
	h.refill(state)
	if state.tokens < 1 {
		return false
	}
	state.tokens--
	state.lastTx = tx
	return true
}

// hold makes sure that the queue is announced at the end of the window, and once more.
func (h *hinter) hold(queue string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return // polling finds the job
	}
	state := h.state(queue)
	if state.trailing == 0 {
		state.due = h.now().Add(h.window)
	}
	state.trailing = trailingHints
	if !h.running {
		h.running = true
		h.done = make(chan struct{})
		go h.run(h.done)
	}
}

// close sends what is pending and waits for that, or for ctx.
func (h *hinter) close(ctx context.Context) error {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.closing)
	}
	done := h.done
	h.mu.Unlock()
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

// run sends trailing hints when they are due, until none are left.
func (h *hinter) run(done chan struct{}) {
	defer close(done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		queues, wait := h.take()
		if len(queues) > 0 {
			h.trail(queues)
			continue
		}
		if wait == 0 {
			return
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-h.closing: // take gives everything now
		}
	}
}

// take removes and returns the queues whose trailing hint is due, or else how long until the next one is. Both are zero
// when nothing is left, and then the goroutine is taken for ended.
func (h *hinter) take() (queues []string, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for name, state := range h.queues {
		if state.trailing == 0 {
			continue
		}
		if until := state.due.Sub(now); until > 0 && !h.closed {
			if wait == 0 || until < wait {
				wait = until
			}
			continue
		}
		queues = append(queues, name)
		state.trailing--
		state.due = now.Add(h.window)
		if h.closed {
			state.trailing = 0
		}
		// It counts as a hint of the queue, so that transactions and timer together keep to one a window.
		h.refill(state)
		state.tokens = max(0, state.tokens-1)
	}
	if len(queues) > 0 {
		return queues, 0
	}
	h.running = wait > 0
	return nil, wait
}

// hintLogEvery is how often failures to send trailing hints are logged.
const hintLogEvery = 10 * time.Second

// trail sends one hint for each queue. A failure is worth a line in the log and no more: polling finds the jobs.
func (h *hinter) trail(queues []string) {
	ctx, cancel := context.WithTimeout(context.Background(), hintTimeout)
	defer cancel()
	if err := h.send(ctx, queues); err != nil && h.now().Sub(h.complained) >= hintLogEvery {
		h.complained = h.now()
		h.logger.Warn("pgqueue: trailing hint not sent; workers find the jobs when they poll",
			slog.Int("queues", len(queues)), slog.Any("error", err))
	}
}

// state returns what is remembered about a queue. Names may be made up at run time, so what need not be remembered is
// dropped when there is much of it.
func (h *hinter) state(queue string) *queueHints {
	if state, ok := h.queues[queue]; ok {
		return state
	}
	if len(h.queues) >= maxIdleQueues {
		for name, state := range h.queues {
			if h.refill(state); state.tokens == hintBurst && state.trailing == 0 {
				delete(h.queues, name)
			}
		}
	}
	state := &queueHints{tokens: hintBurst, filled: h.now()}
	h.queues[queue] = state
	return state
}

// refill adds one token a window, up to the burst.
func (h *hinter) refill(state *queueHints) {
	now := h.now()
	if elapsed := now.Sub(state.filled); elapsed > 0 {
		state.tokens = min(hintBurst, state.tokens+float64(elapsed)/float64(h.window))
		state.filled = now
	}
}

// transactional is a Querier that is no transaction itself but runs on one, as sqltx.Querier does. Transaction returns something
// that is equal for all that run on the same transaction and can be compared; nil where there is none.
type transactional interface{ Transaction() any }

// transactionOf returns what q runs on if that is a transaction that can be recognised again; nil otherwise.
func transactionOf(q Querier) any {
	if on, ok := q.(transactional); ok {
		if tx := on.Transaction(); tx != nil && reflect.ValueOf(tx).Comparable() {
			return tx
		}
		return nil
	}
	if _, ok := q.(pgx.Tx); !ok || reflect.TypeOf(q).Kind() != reflect.Pointer {
		return nil
	}
	return q
}
