package schedule

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// outcome is what became of one attempt at a schedule.
type outcome int

const (
	none   outcome = iota // it is not due any more, or another process has it
	done                  // the schedule has moved on
	failed                // see the error
)

// attempt is one transaction about one schedule. It decides, writes down and enqueues, or does nothing.
type attempt struct {
	*Scheduler
	name    string
	row     *row        // as it was locked; nil before
	running *call       // the function that has not returned, if any
	events  []TickEvent // to be told once it is committed
	// beforeCommit is for tests of what a process that stops in the midst leaves behind.
	beforeCommit func()
}

// run does it within the bound of time. ctx is not that of a stop: what has begun is ended, which takes no longer than Timeout.
func (a *attempt) run(ctx context.Context) (o outcome, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.config.Timeout, fmt.Errorf("not done within %s: %w", a.config.Timeout, context.DeadlineExceeded))
	defer cancel()
	defer func() {
		if cause := recover(); cause != nil {
			o, err = failed, &panicError{value: cause, stack: debug.Stack()}
		}
		if err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
			err = fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		}
	}()
	tx, err := a.client.Pool().BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return failed, fmt.Errorf("begin: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // after a commit nothing; else the connection is dropped where it fails
	}()
	if a.row, err = a.store.take(ctx, tx, a.name, a.functions[a.name] != nil, a.config.Timeout); err != nil {
		return failed, err
	}
	if a.row == nil {
		return none, nil
	}
	if err := a.advance(ctx, tx); err != nil {
		return failed, err
	}
	if a.beforeCommit != nil {
		a.beforeCommit()
	}
	if err := tx.Commit(ctx); err != nil {
		return failed, fmt.Errorf("commit: %w", err)
	}
	return done, nil
}

const rollbackTimeout = 2 * time.Second

// advance is the body of the transaction: the ticks, their jobs, and the next one.
func (a *attempt) advance(ctx context.Context, tx pgx.Tx) error {
	r := a.row
	p, err := r.plan()
	if err != nil {
		return err
	}
	marked := slices.Clone(p.ticks)
	if p.skipped != nil {
		marked = append(marked, *p.skipped)
	}
	var ids []int64
	if len(marked) > 0 {
		fresh, err := a.store.mark(ctx, tx, r.name, marked)
		if err != nil {
			return err
		}
		// A tick that is there already was enqueued, by whoever wrote it there.
		p.ticks = slices.DeleteFunc(p.ticks, func(tick time.Time) bool { return !fresh[tick.UnixMicro()] })
		if ids, err = a.enqueue(ctx, tx, r, p.ticks); err != nil {
			return err
		}
	}
	var ( // arrays of what became a job
		linked  = []time.Time{}
		jobs    = []int64{}
		lastJob *int64
		last    *time.Time
	)
	for i, tick := range p.ticks {
		a.note(tick, ids[i], ids[i] == 0)
		if ids[i] != 0 {
			linked, jobs, lastJob = append(linked, tick), append(jobs, ids[i]), &ids[i]
		}
	}
	if p.skipped != nil {
		a.note(*p.skipped, 0, true)
	}
	for _, tick := range marked {
		if last == nil || tick.After(*last) {
			last = &tick
		}
	}
	_, err = a.store.exec(ctx, tx, "advance", r.name, linked, jobs, p.next, last, lastJob)
	return err
}

func (a *attempt) note(tick time.Time, job int64, skipped bool) {
	a.events = append(a.events, TickEvent{
		Tick: Tick{Schedule: a.name, At: tick.UTC()}, JobID: job, Skipped: skipped, Late: max(0, a.row.now.Sub(tick)),
	})
}

// settle tells what became of it, and writes a failure down.
func (a *attempt) settle(ctx context.Context, o outcome, err error) {
	switch o {
	case done:
		if a.forgive(a.name) {
			a.config.Logger.InfoContext(ctx, "schedule: works again", "schedule", a.name)
		}
		for _, e := range a.events {
			a.tellTick(e)
		}
	case failed:
		failures := 1
		if a.row != nil {
			failures = a.row.failures + 1
		}
		wait := backoff(failures)
		if a.row != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.config.Timeout)
			defer cancel()
			written, lost := a.writeDown(ctx, safeText(err), wait)
			if lost != nil {
				err = fmt.Errorf("%w; and it could not be written down: %w", err, lost)
			}
			a.noteFailure(a.name, written)
		}
		a.complain(ctx, a.name, err, wait)
		a.tellError(ErrorEvent{Schedule: a.name, Err: err, Failures: failures, RetryIn: wait})
	}
}

// writeDown writes a failure into the row, and tells whether it stands there. The transaction that failed may live on in the server for a
// few milliseconds, if its time was up, and has the row locked so long; hence the repetitions.
func (a *attempt) writeDown(ctx context.Context, text string, wait time.Duration) (bool, error) {
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		written, err := a.store.exec(ctx, a.client.Pool(), "fail", a.name, a.row.stands, text, wait.Microseconds())
		if err != nil || written == 1 || pause > writeDownFor/2 {
			return written == 1, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false, nil // it has moved on, or somebody else has it
		}
	}
}

// writeDownFor is how long a failure is tried to be written down, about.
const writeDownFor = 320 * time.Millisecond

// backoff is how long a schedule that failed so many times in a row is left alone.
func backoff(failures int) time.Duration {
	wait := firstBackoff
	for range min(failures-1, 10) {
		wait *= 2
	}
	return min(wait, lastBackoff)
}

// maxErrorBytes bounds what is stored of an error.
const maxErrorBytes = 500

// safeText is what is stored of an error and logged: the text where this package, pgqueue or the database made it, and only the type where
// user's code did: an ArgsFunc, a middleware, a codec.
func safeText(err error) string {
	text := err.Error()
	var (
		ofFunction *functionError
		panicked   *panicError
		refused    *ConfigError
		unreadable *unreadableError
		coded      *pgqueue.CodecError
		input      *pgqueue.ValidationError
		server     *pgconn.PgError
		network    net.Error
	)
	switch {
	case errors.As(err, &panicked):
		text = fmt.Sprintf("a panic of type %T", panicked.value)
	case errors.As(err, &ofFunction):
		text = fmt.Sprintf("its function failed with an error of type %T", ofFunction.err)
	case errors.As(err, &coded):
		text = coded.Reason()
	case errors.As(err, &refused), errors.As(err, &unreadable), errors.As(err, &input), errors.As(err, &server), errors.As(err, &network),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, errNilArgs):
	default:
		text = fmt.Sprintf("an error of type %T, whose text is in the log, at debug level", innermost(err))
		for _, known := range []error{pgqueue.ErrClosed, pgqueue.ErrSchema, pgqueue.ErrPooler, context.Canceled} {
			if errors.Is(err, known) {
				text = known.Error() // and not what a middleware has put around it
			}
		}
	}
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
	if len(text) > maxErrorBytes {
		end := maxErrorBytes
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	return text
}

func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
