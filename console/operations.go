package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// Bounds of the operations of one console.
const (
	operationsAtOnce = 2         // each holds a connection of the pool while a batch is under way; others wait in line
	maxOperations    = 200       // that are remembered; more are refused until some are an hour old
	keepOperations   = time.Hour // after their end
	ticketLife       = time.Hour // of a form; not longer than keepOperations, or a form that was sent could be sent again
	stopGrace        = 5 * time.Second
)

// The refusals of operations.start.
var (
	errOperationsClosed  = errors.New("the console is being stopped")
	errOperationsFull    = errors.New("too many operations are remembered or wait in line")
	errTicket            = errors.New("the form is older than an hour, of somebody else, or of another process")
	errTicketUsed        = errors.New("this form has started another operation")
	errOperationStopped  = errors.New("somebody stopped it")     // the cause with which a batch is ended
	errOperationPanicked = errors.New("an error in the console") // what is shown of a panic
)

// operations are the bulk actions that a console runs. They go on when the browser that started one has left: that is what they
// are for. Each is a goroutine that ends with its work, when somebody stops it, and with close at the latest. They live in
// this process: what they have done is in the database and in the audit log, and what is left to do is in a cursor, which anybody
// can go on with, after a restart too.
type operations struct {
	logger *slog.Logger
	key    []byte // of tickets
	ctx    context.Context
	cancel context.CancelCauseFunc
	slots  chan struct{}

	mutex  sync.Mutex
	closed bool
	byID   map[string]*operation
}

func newOperations(logger *slog.Logger) *operations {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // which never fails; see crypto/rand
	ctx, cancel := context.WithCancelCause(context.Background())
	return &operations{
		logger: logger, key: key, ctx: ctx, cancel: cancel, slots: make(chan struct{}, operationsAtOnce), byID: map[string]*operation{},
	}
}

// ticket makes the number of an operation that has not begun. It goes into the form that begins it, so that the same form sent
// twice (a double click, a reload, the back button) begins one operation. It is good for an hour, for this actor and process.
func (all *operations) ticket(actor string) string {
	raw := make([]byte, 0, 24)
	raw = binary.BigEndian.AppendUint32(raw, uint32(time.Now().Unix()))
	raw = append(raw, make([]byte, 8)...)
	_, _ = rand.Read(raw[4:])
	return base64.RawURLEncoding.EncodeToString(append(raw, all.seal(raw, actor)...))
}

// seal is what shows that this process made a ticket for actor.
func (all *operations) seal(raw []byte, actor string) []byte {
	mac := hmac.New(sha256.New, all.key)
	mac.Write(raw)
	mac.Write([]byte(actor))
	return mac.Sum(nil)[:12]
}

// valid tells whether a ticket may begin an operation of actor now.
func (all *operations) valid(ticket, actor string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(ticket)
	if err != nil || len(raw) != 24 || !hmac.Equal(raw[12:], all.seal(raw[:12], actor)) {
		return false
	}
	return time.Since(time.Unix(int64(binary.BigEndian.Uint32(raw)), 0)) < ticketLife
}

// start begins an operation, or returns the one that this ticket has begun. The work belongs to all from here on.
func (all *operations) start(ticket string, work operationWork) (*operation, error) {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	all.forget()
	if known, ok := all.byID[ticket]; ok && known.work.actor == work.actor {
		if known.work.request != work.request {
			return nil, errTicketUsed
		}
		return known, nil
	}
	switch {
	case !all.valid(ticket, work.actor):
		return nil, errTicket
	case all.closed:
		return nil, errOperationsClosed
	case len(all.byID) >= maxOperations:
		return nil, errOperationsFull
	}
	o := newOperation(ticket, work)
	all.byID[ticket] = o
	all.logger.Info("console: an operation begins", "operation", o.id, "action", string(work.action), "actor", work.actor)
	go all.run(o) // ends with o.done, which close awaits
	return o, nil
}

// run is the goroutine of an operation.
func (all *operations) run(o *operation) {
	defer close(o.done)
	ctx, cancel := context.WithCancelCause(all.ctx)
	defer cancel(nil)
	select {
	case all.slots <- struct{}{}:
		defer func() { <-all.slots }()
	case <-o.stopping:
	case <-ctx.Done():
	}
	result, err := o.run(ctx, cancel)
	o.finish(result, err)
	all.report(o)
}

// report logs how an operation ended, and where to go on. The filter is not logged: it may hold somebody's data.
func (all *operations) report(o *operation) {
	end := o.snapshot()
	attrs := []any{
		"operation", o.id, "action", string(o.work.action), "actor", o.work.actor, "state", string(end.State),
		"matched", end.Result.Matched, "done", end.Result.Done, "skipped", end.Result.Skipped,
	}
	if end.StoppedBy != "" {
		attrs = append(attrs, "stopped_by", end.StoppedBy)
	}
	if end.Cursor != "" {
		attrs = append(attrs, "cursor", end.Cursor)
	}
	if end.State == operationFailed {
		all.logger.Error("console: an operation failed", append(attrs, "error", end.Err)...)
		return
	}
	all.logger.Info("console: an operation has ended", attrs...)
}

// get finds an operation that runs, or that ended less than an hour ago; nil: there is none.
func (all *operations) get(id string) *operation {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	all.forget()
	return all.byID[id]
}

// list returns all that are remembered, the latest first.
func (all *operations) list() []operationState {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	all.forget()
	states := make([]operationState, 0, len(all.byID))
	for _, o := range all.byID {
		states = append(states, o.snapshot())
	}
	slices.SortFunc(states, func(a, b operationState) int {
		if order := b.Created.Compare(a.Created); order != 0 {
			return order
		}
		return strings.Compare(a.ID, b.ID)
	})
	return states
}

// forget drops what ended an hour ago. A ticket is no longer good by then.
func (all *operations) forget() {
	for id, o := range all.byID {
		if end := o.snapshot().Ended; !end.IsZero() && time.Since(end) > keepOperations {
			delete(all.byID, id)
		}
	}
}

// close stops all operations, each behind its batch, and logs where to go on. When ctx ends first, the batches under way are given
// up, which leaves them undone, and the error is ctx's. No operation runs any more when it returns.
func (all *operations) close(ctx context.Context) error {
	all.mutex.Lock()
	all.closed = true
	open := make([]*operation, 0, len(all.byID))
	for _, o := range all.byID {
		open = append(open, o)
	}
	all.mutex.Unlock()
	for _, o := range open {
		o.stop("the end of the console")
	}
	var err error
	for _, o := range open {
		select {
		case <-o.done:
			continue
		case <-ctx.Done():
			err = ctx.Err()
			all.cancel(errOperationStopped)
		}
		<-o.done
	}
	all.cancel(errOperationStopped)
	return err
}

// operationWork is what an operation does.
type operationWork struct {
	actor   string
	action  pgqueue.Action
	request string        // what was asked for, in one form: the same ticket with another request is refused
	Bulk    *bulk         // for those who look at it
	from    string        // the cursor from which to go on
	pause   time.Duration // between two batches
	// expected is how many jobs it will meet, as far as somebody has counted; 0: nobody has.
	expected int
	// do acts, tells progress after each batch, and ends with ctx. Its result is good with an error, too.
	do func(ctx context.Context, progress func(pgqueue.BulkResult)) (*pgqueue.BulkResult, error)
}
