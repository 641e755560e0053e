package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// told notes the hints that it is told of.
type told struct {
	mutex sync.Mutex
	lines []string
}

func (o *told) note(line string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.lines = append(o.lines, line)
}

func (o *told) HintSent(queue string) { o.note("sent " + queue) }
func (o *told) HintHeld(queue string) { o.note("held " + queue) }
func (o *told) HintsTrailed(queues []string, err error) {
	o.note(fmt.Sprintf("trailed %s %v", strings.Join(queues, " "), err != nil))
}

func (o *told) count(line string) (n int) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for _, one := range o.lines {
		if one == line {
			n++
		}
	}
	return n
}

// panicky panics at every hint.
type panicky struct{}

func (panicky) HintSent(string) { panic("sent") }

// A client tells what becomes of its hints: sent with the transaction, held back, and trailed; nothing for what changes
// nothing. An observer that panics disturbs neither the enqueue nor the others.
func TestHintObservers(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	seen := &told{}
	client := quietClient(t, db.Pool, pgqueue.WithHintWindow(time.Minute), pgqueue.WithObserver(panicky{}), pgqueue.WithObserver(seen))
	for range 25 { // a burst of twenty goes out
		enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue("a"))
	}
	if _, err := client.EnqueueCopy(testContext(t), db.Pool, []pgqueue.NewJob{
		{Args: task{}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("a")}}, {Args: task{}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("b")}},
	}); err != nil {
		t.Fatal(err)
	}
	same := []pgqueue.EnqueueOption{pgqueue.OnQueue("a"), pgqueue.WithKey("k"), pgqueue.WithRevision("1")}
	enqueue(t, client, db.Pool, task{}, same...)
	enqueue(t, client, db.Pool, task{}, same...)
	for line, want := range map[string]int{"sent a": 20, "held a": 7, "sent b": 1, "held b": 0, "trailed a false": 0} {
		if got := seen.count(line); got != want {
			t.Errorf("%q: %d times, want %d", line, got, want)
		}
	}
	if err := client.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := seen.count("trailed a false"); got != 1 {
		t.Errorf("%v", seen.lines)
	}

	seen = &told{}
	pool := poolLike(t, db.Pool, func(*pgxpool.Config) {})
	cut := quietClient(t, pool, pgqueue.WithHintWindow(time.Minute), pgqueue.WithObserver(seen))
	for range 21 {
		enqueue(t, cut, db.Pool, task{}, pgqueue.OnQueue("a"))
	}
	pool.Close()
	_ = cut.Close(testContext(t))
	if got := seen.count("trailed a true"); got != 1 {
		t.Errorf("a trailing hint that failed: %v", seen.lines)
	}
}

// infos notes which jobs attempts are about.
type infos struct{ ended chan pgqueue.JobInfo }

func (i infos) AttemptEnded(_ context.Context, e runner.AttemptEvent) {
	info, ok := pgqueue.InfoOf(e)
	if ok {
		i.ended <- info
	}
}

// The observer of a client is that of its workers, unless they have one of their own, and finds out which job an attempt is
// about.
func TestTheObserverOfAClientIsThatOfItsWorkers(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	mine, theirs := infos{make(chan pgqueue.JobInfo, 10)}, infos{make(chan pgqueue.JobInfo, 10)}
	client := quietClient(t, db.Pool, pgqueue.WithObserver(pgqueue.Observers(nil, theirs)))
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return errors.New("no") })
	for observer, notes := range map[any]infos{nil: theirs, mine: mine} {
		id := enqueue(t, client, db.Pool, task{}, pgqueue.WithMetadata(map[string]any{"tenant": 7}), pgqueue.WithMaxAttempts(1)).ID
		drain(t, client, mux, pgqueue.WorkerConfig{Observer: observer})
		info := receive(t, notes.ended, "the end of the attempt")
		if info.ID != id || info.Kind != "task" || info.Attempt != 1 || string(info.Metadata) != `{"tenant": 7}` {
			t.Errorf("info %+v", info)
		}
		if len(mine.ended)+len(theirs.ended) != 0 {
			t.Error("both were told")
		}
	}
	if _, ok := pgqueue.InfoOf(runner.AttemptEvent{}); ok {
		t.Error("an event without a token is about a job")
	}
}
