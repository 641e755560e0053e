package console

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// fakeWork is work of so many batches of a hundred, each of which takes a second of virtual time. It ends with its context between and in
// batches, as the bulk actions of an inspector do.
func fakeWork(actor string, batches int) operationWork {
	return operationWork{
		actor: actor, action: pgqueue.ActionRetry, request: "action=retry", Bulk: &bulk{bulkKind: bulkKinds()[0]},
		do: func(ctx context.Context, progress func(pgqueue.BulkResult)) (*pgqueue.BulkResult, error) {
			result := &pgqueue.BulkResult{Cursor: "c0"}
			for n := 1; n <= batches; n++ {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return result, context.Cause(ctx)
				}
				result.Matched, result.Done, result.Batches, result.Cursor = 100*n, 100*n, n, "c"+string(rune('0'+n))
				if n == batches {
					result.Cursor = ""
				}
				progress(*result)
				if ctx.Err() != nil {
					return result, context.Cause(ctx)
				}
			}
			return result, nil
		},
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// startOperation starts work with a ticket of its own.
func startOperation(t *testing.T, all *operations, work operationWork) *operation {
	t.Helper()
	o, err := all.start(all.ticket(work.actor), work)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// inBubble runs a test in virtual time, with operations that are closed at its end.
func inBubble(t *testing.T, test func(t *testing.T, all *operations, log *bytes.Buffer)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		all := newOperations(slog.New(slog.NewTextHandler(&log, nil)))
		test(t, all, &log)
		if err := all.close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// No more than two run at once; the others wait in line, and all come to their end.
func TestOperationsWaitInLine(t *testing.T) {
	inBubble(t, func(t *testing.T, all *operations, _ *bytes.Buffer) {
		var now, most atomic.Int32
		var started []*operation
		for range 5 {
			work := fakeWork("alice", 3)
			inner := work.do
			work.do = func(ctx context.Context, progress func(pgqueue.BulkResult)) (*pgqueue.BulkResult, error) {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				return inner(ctx, progress)
			}
			started = append(started, startOperation(t, all, work))
		}
		synctest.Wait()
		waiting := 0
		for _, state := range all.list() {
			if state.State == operationWaiting {
				waiting++
			}
		}
		if waiting != 3 {
			t.Errorf("%d wait in line", waiting)
		}
		for _, o := range started {
			<-o.done
			if end := o.snapshot(); end.State != operationDone || end.Result.Done != 300 || end.Cursor != "" || end.Ended.IsZero() {
				t.Errorf("ended as %+v", end)
			}
		}
		if most.Load() != operationsAtOnce {
			t.Errorf("%d ran at once", most.Load())
		}
	})
}

// A form that is sent twice begins one operation, however often and whenever it is sent.
func TestATicketBeginsOneOperation(t *testing.T) {
	inBubble(t, func(t *testing.T, all *operations, _ *bytes.Buffer) {
		var runs atomic.Int32
		work := fakeWork("alice", 1)
		inner := work.do
		work.do = func(ctx context.Context, progress func(pgqueue.BulkResult)) (*pgqueue.BulkResult, error) {
			runs.Add(1)
			return inner(ctx, progress)
		}
		ticket := all.ticket("alice")
		answers := make(chan *operation)
		for range 20 {
			go func() {
				o, err := all.start(ticket, work)
				if err != nil {
					t.Error(err)
				}
				answers <- o
			}()
		}
		first := <-answers
		for range 19 {
			if o := <-answers; o != first {
				t.Error("another operation")
			}
		}
		<-first.done
		if again, err := all.start(ticket, work); again != first || err != nil {
			t.Errorf("after its end: %v, %v", again, err)
		}
		other := work
		other.request = "action=delete"
		if _, err := all.start(ticket, other); !errors.Is(err, errTicketUsed) {
			t.Errorf("another request: %v", err)
		}
		other = work
		other.actor = "mallory"
		if _, err := all.start(ticket, other); !errors.Is(err, errTicket) {
			t.Errorf("another actor: %v", err)
		}
		pass(30 * time.Minute)
		fresh := all.ticket("alice")
		pass(ticketLife - time.Minute) // the operation is forgotten by now
		if all.get(first.id) != nil || len(all.list()) != 0 {
			t.Error("it is remembered for longer than an hour")
		}
		if _, err := all.start(ticket, work); !errors.Is(err, errTicket) {
			t.Errorf("when the operation is forgotten: %v", err)
		}
		if _, err := all.start(fresh, work); err != nil {
			t.Errorf("a ticket of 59 minutes: %v", err)
		}
		for _, forged := range []string{"", "x", strings.Repeat("A", 32), newOperations(slog.New(slog.DiscardHandler)).ticket("alice")} {
			if _, err := all.start(forged, work); !errors.Is(err, errTicket) {
				t.Errorf("ticket %q: %v", forged, err)
			}
		}
		if runs.Load() > 2 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

// A stop takes effect behind the batch under way, so that the counts are exact.
func TestAStopWaitsForTheBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, all *operations, log *bytes.Buffer) {
		o := startOperation(t, all, fakeWork("alice", 9))
		pass(2500 * time.Millisecond)
		o.stop("bob")
		o.stop("carol")
		if state := o.snapshot(); state.State != operationStopping || !state.Running() || state.Result.Done != 200 {
			t.Errorf("state %+v", state)
		}
		<-o.done
		end := o.snapshot()
		if end.State != operationStopped || end.StoppedBy != "bob" || end.Result.Done != 300 || end.Cursor != "c3" || end.Err != nil {
			t.Errorf("ended as %+v", end)
		}
		if !strings.Contains(log.String(), "cursor=c3") || !strings.Contains(log.String(), "stopped_by=bob") || !strings.Contains(log.String(), "actor=alice") {
			t.Errorf("log:\n%s", log)
		}
		// One that pauses is not waited for.
		work := fakeWork("alice", 9)
		work.pause = time.Hour
		o = startOperation(t, all, work)
		pass(10 * time.Second)
		before := time.Now()
		o.stop("bob")
		<-o.done
		if end := o.snapshot(); end.State != operationStopped || end.Result.Done != 100 || !time.Now().Equal(before) {
			t.Errorf("in a pause: %+v", end)
		}
		// One in line ends without having begun.
		running := []*operation{startOperation(t, all, fakeWork("alice", 5)), startOperation(t, all, fakeWork("alice", 5))}
		synctest.Wait()
		work = fakeWork("alice", 1)
		work.from = "c7"
		o = startOperation(t, all, work)
		o.stop("bob")
		<-o.done
		if end := o.snapshot(); end.State != operationStopped || !end.Started.IsZero() || end.Cursor != "c7" {
			t.Errorf("in line: %+v", end)
		}
		for _, o := range running {
			<-o.done
		}
	})
}

// A batch that hangs is given up when the grace is over.
func TestAStopGivesUpAStuckBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, all *operations, _ *bytes.Buffer) {
		work := fakeWork("alice", 1)
		work.do = func(ctx context.Context, progress func(pgqueue.BulkResult)) (*pgqueue.BulkResult, error) {
			result := &pgqueue.BulkResult{Matched: 7, Done: 7, Cursor: "c7"}
			progress(*result)
			<-ctx.Done()
			return result, errors.New("timeout: context canceled") // as drivers put it
		}
		o := startOperation(t, all, work)
		synctest.Wait()
		before := time.Now()
		o.stop("bob")
		<-o.done
		if end := o.snapshot(); end.State != operationStopped || end.Cursor != "c7" || time.Since(before) != stopGrace {
			t.Errorf("after %s: %+v", time.Since(before), end)
		}
	})
}

// The end of the console ends all operations, says where each is to go on, and begins no more.
func TestCloseEndsOperations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		all := newOperations(slog.New(slog.NewTextHandler(&log, nil)))
		stuck := fakeWork("alice", 1)
		stuck.do = func(ctx context.Context, _ func(pgqueue.BulkResult)) (*pgqueue.BulkResult, error) {
			<-ctx.Done()
			return &pgqueue.BulkResult{Cursor: "stuck-here"}, context.Cause(ctx)
		}
		var open []*operation // two run, one waits in line
		for _, work := range []operationWork{stuck, fakeWork("alice", 9), fakeWork("bob", 9)} {
			open = append(open, startOperation(t, all, work))
			synctest.Wait()
		}
		pass(1500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begun := time.Now()
		if err := all.close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 2*time.Second {
			t.Errorf("close: %v, after %s", err, time.Since(begun))
		}
		for _, o := range open {
			select {
			case <-o.done:
			default:
				t.Error("one still runs")
			}
			if end := o.snapshot(); end.State != operationStopped {
				t.Errorf("ended as %+v", end)
			}
		}
		for _, want := range []string{"cursor=c2", "cursor=stuck-here"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %s:\n%s", want, &log)
			}
		}
		if _, err := all.start(all.ticket("alice"), fakeWork("alice", 1)); !errors.Is(err, errOperationsClosed) {
			t.Errorf("start: %v", err)
		}
		if err := all.close(t.Context()); err != nil {
			t.Errorf("a second close: %v", err)
		}
	})
}

// A panic ends its operation and nothing else; who looks is not shown the stack.
func TestAPanicEndsOneOperation(t *testing.T) {
	inBubble(t, func(t *testing.T, all *operations, log *bytes.Buffer) {
		for range operationsAtOnce + 1 { // each gives its place in line back
			work := fakeWork("alice", 1)
			work.do = func(_ context.Context, progress func(pgqueue.BulkResult)) (*pgqueue.BulkResult, error) {
				progress(pgqueue.BulkResult{Matched: 5, Done: 5, Cursor: "c5"})
				panic("oh no")
			}
			o := startOperation(t, all, work)
			<-o.done
			if end := o.snapshot(); end.State != operationFailed || !errors.Is(end.Err, errOperationPanicked) || end.Cursor != "c5" || end.Result.Done != 5 {
				t.Errorf("ended as %+v", end)
			}
		}
		if !strings.Contains(log.String(), "oh no") || !strings.Contains(log.String(), "operations_internal_test.go") {
			t.Errorf("log:\n%s", log)
		}
		o := startOperation(t, all, fakeWork("alice", 1))
		<-o.done
		if end := o.snapshot(); end.State != operationDone {
			t.Errorf("the next one: %+v", end)
		}
	})
}

// What is remembered is bounded: in number, and in what each keeps.
func TestOperationsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, all *operations, _ *bytes.Buffer) {
		work := fakeWork("alice", 1)
		work.do = func(context.Context, func(pgqueue.BulkResult)) (*pgqueue.BulkResult, error) {
			return &pgqueue.BulkResult{Skipped: 1000, Skips: make([]pgqueue.Skip, 1000)}, nil
		}
		for range maxOperations {
			<-startOperation(t, all, work).done
		}
		if _, err := all.start(all.ticket("alice"), work); !errors.Is(err, errOperationsFull) {
			t.Errorf("one more: %v", err)
		}
		if end := all.list()[0]; len(end.Result.Skips) != shownSkips || cap(end.Result.Skips) != shownSkips || end.Result.Skipped != 1000 {
			t.Errorf("it keeps %d of %d skips", len(end.Result.Skips), end.Result.Skipped)
		}
		pass(keepOperations + time.Second)
		<-startOperation(t, all, work).done
	})
}
