package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// batchLog is a batch handler that remembers what it was given.
type batchLog struct {
	mu    sync.Mutex
	sizes []int
	at    []time.Time
	seen  map[int]int
	run   func(ctx context.Context, tasks []*Task[int]) []Result[int]
}

func (b *batchLog) Handle(context.Context, *Task[int]) (int, error) { return 0, nil }

func (b *batchLog) HandleBatch(ctx context.Context, tasks []*Task[int]) []Result[int] {
	b.mu.Lock()
	b.sizes, b.at = append(b.sizes, len(tasks)), append(b.at, time.Now())
	for _, task := range tasks {
		if b.seen == nil {
			b.seen = map[int]int{}
		}
		b.seen[task.Payload]++
	}
	b.mu.Unlock()
	if b.run != nil {
		return b.run(ctx, tasks)
	}
	return make([]Result[int], len(tasks))
}

func (b *batchLog) ran() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sizes)
}

func batches(size int, collect time.Duration) []KindConfig {
	return []KindConfig{{Name: "b", BatchSize: size, Collect: collect}}
}

func addAll(f *fake, n int) {
	for range n {
		f.add("b", 0)
	}
}

// A full batch runs at once, a partial one at the end of the window that its first task opened.
func TestBatchesCollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		addAll(f, 23)
		h := &batchLog{}
		began := time.Now()
		r := start(t, renewing{f}, h, Config{Workers: 4, Kinds: batches(10, 2*time.Second)})
		if got := h.ran(); !slices.Equal(got, []int{10, 10}) {
			t.Fatalf("at once: batches of %v, want two full ones", got)
		}
		if st := r.Status(); st.Buffered != 3 || st.Outcomes.Succeeded != 20 {
			t.Errorf("while collecting: %+v", st)
		}
		pass(1500 * time.Millisecond)
		addAll(f, 2) // a later one does not open a new window
		r.Wake()
		pass(499 * time.Millisecond)
		if got := h.ran(); len(got) != 2 {
			t.Fatalf("before the end of the window: %v", got)
		}
		pass(2 * time.Millisecond)
		if got := h.ran(); !slices.Equal(got, []int{10, 10, 5}) {
			t.Fatalf("at the end of the window: %v", got)
		}
		if at := h.at[2].Sub(began); at != 2*time.Second {
			t.Errorf("the partial batch ran after %v, want 2s", at)
		}
		// A batch that fills up during its window does not wait for the end.
		addAll(f, 4)
		r.Wake()
		pass(600 * time.Millisecond)
		addAll(f, 6)
		r.Wake()
		pass(time.Millisecond)
		if got := h.ran(); !slices.Equal(got, []int{10, 10, 5, 10}) {
			t.Errorf("filled during the window: %v", got)
		}
		for id, n := range h.seen {
			if n != 1 {
				t.Errorf("task %d ran %d times", id, n)
			}
		}
	})
}

// Bounds count slots: three batches of ten run in three slots, whatever a claim brings.
func TestBatchesOccupySlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		addAll(f, 200)
		gate := make(chan struct{})
		h := &batchLog{run: func(_ context.Context, tasks []*Task[int]) []Result[int] {
			<-gate
			return make([]Result[int], len(tasks))
		}}
		r := start(t, renewing{f}, h, Config{Workers: 4, Batch: 8, Kinds: []KindConfig{{Name: "b", BatchSize: 10}, {Name: "plain"}}})
		t.Cleanup(func() { r.Stop(canceled()) })
		if st := r.Status(); st.InFlight != 3 || st.Tasks != 30 || len(h.ran()) != 3 {
			t.Errorf("with every slot of the kind taken: %+v", st)
		}
		for range 5 {
			f.add("plain", 0)
		}
		r.Wake()
		synctest.Wait()
		if st := r.Status(); st.Outcomes.Succeeded != 5 {
			t.Errorf("the other kind beside stalled batches: %+v", st)
		}
		close(gate)
		pass(5 * time.Second)
		if st := r.Status(); st.Outcomes.Succeeded != 205 || st.Tasks != 0 {
			t.Errorf("at the end: %+v", st)
		}
	})
}

// Batches get their turn beside two kinds that keep every slot busy.
func TestABacklogDoesNotStarveBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		h := &batchLog{}
		for range 3000 {
			f.add("a", 0)
			f.add("c", 0)
		}
		for range 5 {
			f.add("b", time.Second)
		}
		start(t, renewing{f}, slowPlain{h}, Config{Workers: 4, Batch: 16, Kinds: []KindConfig{{Name: "a"},
			{Name: "b", BatchSize: 5}, {Name: "c"}}})
		pass(4 * time.Second)
		if got := h.ran(); !slices.Equal(got, []int{5}) {
			t.Errorf("batches of %v, want one of 5", got)
		}
	})
}

// slowPlain takes its time for tasks that come alone.
type slowPlain struct{ *batchLog }

func (slowPlain) Handle(context.Context, *Task[int]) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return 0, nil
}

// The batch's context outlives the loss of single leases; the task's own does not.
func TestBatchLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		addAll(f, 3)
		refused := map[int]Renewal{2: Refused}
		f.onRenew = func(tokens []Token) ([]Renewal, error, bool) {
			f.mu.Lock()
			defer f.mu.Unlock()
			answers := make([]Renewal, len(tokens))
			for i, token := range tokens {
				f.jobs[token.(*ticket).id-1].lease = time.Now().Add(time.Hour) // nobody else takes it
				if answers[i] = refused[token.(*ticket).id]; answers[i] == 0 {
					answers[i] = Renewed
				}
			}
			return answers, nil, true
		}
		gate := make(chan struct{})
		var batch context.Context
		var own []context.Context
		h := &batchLog{run: func(ctx context.Context, tasks []*Task[int]) []Result[int] {
			if batch != nil { // what was released comes again
				return make([]Result[int], len(tasks))
			}
			batch = ctx
			for _, task := range tasks {
				own = append(own, task.Context())
			}
			select {
			case <-gate:
			case <-ctx.Done():
			}
			results := make([]Result[int], len(tasks))
			for i, task := range tasks {
				results[i].Err = task.Context().Err()
			}
			return results
		}}
		r := start(t, renewing{f}, h, Config{Lease: 30 * time.Second, Kinds: batches(3, 0)})
		pass(15 * time.Second)
		if batch.Err() != nil || own[0].Err() != nil || own[2].Err() != nil {
			t.Fatalf("the loss of one task ended the others: %v %v %v", batch.Err(), own[0].Err(), own[2].Err())
		}
		if context.Cause(own[1]) != ErrLeaseLost {
			t.Errorf("the lost task's cause: %v", context.Cause(own[1]))
		}
		if deadline, ok := own[0].Deadline(); !ok || time.Until(deadline) > 2*time.Minute {
			t.Errorf("the task's deadline: %v, %v", deadline, ok)
		}
		calls := renewing{f}.calls()
		if len(calls) == 0 || len(calls[0].ids) != 3 {
			t.Errorf("the first renewal covers %+v, want all three", calls)
		}
		f.mu.Lock()
		refused[1] = CancelRequested
		f.mu.Unlock()
		pass(15 * time.Second)
		if context.Cause(own[0]) != ErrCancelled || batch.Err() != nil {
			t.Errorf("after a request to cancel: %v, batch %v", context.Cause(own[0]), batch.Err())
		}
		last := renewing{f}.calls()
		if ids := last[len(last)-1].ids; slices.Contains(ids, 2) || !slices.Contains(ids, 3) {
			t.Errorf("later renewals cover %v", ids)
		}
		f.mu.Lock()
		refused[3] = Refused
		f.mu.Unlock()
		pass(15 * time.Second)
		if context.Cause(batch) != ErrLeaseLost {
			t.Errorf("with no task left the batch's cause is %v", context.Cause(batch))
		}
		if v := f.lastVerdict(1); v.Decision != Cancel {
			t.Errorf("task 1: %+v", v)
		}
		if st := r.Status(); st.InFlight != 0 || st.Outcomes.Released != 2 {
			t.Errorf("%+v", st)
		}
	})
}

// The deadline is of the batch: it ends the contexts of all, and a batch that ignores it is one stuck handler.
func TestBatchDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		addAll(f, 4)
		var stuck []StuckEvent
		gate := make(chan struct{})
		var cause error
		h := &batchLog{run: func(ctx context.Context, tasks []*Task[int]) []Result[int] {
			<-ctx.Done()
			cause = context.Cause(ctx)
			<-gate
			results := make([]Result[int], len(tasks))
			results[1].Err = ctx.Err()
			results[2].Err = Permanent(errors.New("broken"))
			return results
		}}
		var mu sync.Mutex
		r := start(t, renewing{f}, h, Config{CleanUp: 5 * time.Second, Observer: stuckFunc(func(e StuckEvent) {
			mu.Lock()
			defer mu.Unlock()
			stuck = append(stuck, e)
		}), Kinds: []KindConfig{{Name: "b", BatchSize: 4, Deadline: 10 * time.Second}}})
		pass(10*time.Second + time.Millisecond)
		if cause != ErrDeadline {
			t.Errorf("cause %v", cause)
		}
		pass(6 * time.Second)
		if st := r.Status(); st.Stuck != 1 || len(stuck) != 1 || stuck[0].Tasks != 4 {
			t.Errorf("%+v, events %+v", st, stuck)
		}
		close(gate)
		synctest.Wait()
		for id, code := range map[int]string{1: CodeTimeout, 2: CodeTimeout, 3: CodeError, 4: CodeTimeout} {
			if v := f.lastVerdict(id); v.Failure == nil || v.Failure.Code != code {
				t.Errorf("task %d: %+v %+v", id, v, v.Failure)
			}
		}
		if v := f.lastVerdict(3); v.Decision != Fail {
			t.Errorf("task 3: %+v", v)
		}
	})
}

type stuckFunc func(StuckEvent)

func (f stuckFunc) TaskStuck(e StuckEvent) { f(e) }

// A stop gives back what is being collected at once, and names every task of a batch that ignores it.
func TestStopReleasesACollectingBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		addAll(f, 7)
		gate := make(chan struct{})
		h := &batchLog{run: func(_ context.Context, tasks []*Task[int]) []Result[int] {
			<-gate
			return make([]Result[int], len(tasks))
		}}
		r, ended := run(t, context.Background(), renewing{f}, h, Config{StopTimeout: -1, CleanUp: time.Second,
			Kinds: batches(5, 20*time.Second)})
		began := time.Now()
		go r.Stop(context.Background())
		synctest.Wait()
		if st := r.Status(); st.Outcomes.Released != 2 || st.InFlight != 1 || time.Since(began) != 0 {
			t.Errorf("at once: %+v", st)
		}
		var left *StopError
		if err := <-ended; !errors.As(err, &left) || len(left.Tasks) != 5 {
			t.Errorf("run: %v", err)
		}
		close(gate)
		synctest.Wait()
		if st := r.Status(); st.InFlight != 0 || st.Tasks != 0 {
			t.Errorf("after the late return: %+v", st)
		}
	})
}

// A drain starts what was collected as soon as there is nothing more to come.
func TestDrainDoesNotWaitForBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		addAll(f, 23)
		f.add("plain", 0)
		h := &batchLog{}
		r, err := New(renewing{f}, h, Config{Logger: quiet(), Kinds: []KindConfig{{Name: "b", BatchSize: 10, Collect: 20 * time.Second},
			{Name: "plain"}}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		result, err := r.Drain(context.Background())
		if err != nil || result.Outcomes.Succeeded != 24 || time.Since(began) != 0 {
			t.Errorf("%+v, %v after %v", result, err, time.Since(began))
		}
		if got := h.ran(); !slices.Equal(got, []int{10, 10, 3}) {
			t.Errorf("batches of %v", got)
		}
	})
}

// Without renewal a batch has its slot while it is collected, so that its leases cover the run, whatever else is to do.
func TestBatchesWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		addAll(f, 3)
		for range 20 {
			f.add("a", 10*time.Millisecond)
			f.add("c", 10*time.Millisecond)
		}
		h := &batchLog{}
		r := start(t, f, slowPlainFor{h, 10 * time.Second}, Config{Workers: 2, Deadline: time.Minute, Kinds: []KindConfig{
			{Name: "a"}, {Name: "b", BatchSize: 10, Collect: 3 * time.Second}, {Name: "c"}}})
		pass(3*time.Second + time.Millisecond)
		if got := h.ran(); !slices.Equal(got, []int{3}) {
			t.Errorf("at the end of the window: %v, %+v", got, r.Status())
		}
	})
}

type slowPlainFor struct {
	*batchLog
	d time.Duration
}

func (s slowPlainFor) Handle(context.Context, *Task[int]) (int, error) {
	time.Sleep(s.d)
	return 0, nil
}

// What is held stays within the bound when nothing can be written.
func TestBatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		addAll(f, 5000)
		f.onReport = func([]Verdict[int]) ([]Outcome, error, bool) { return nil, errors.New("down"), true }
		r := start(t, renewing{f}, &batchLog{}, Config{Workers: 3, Batch: 20, Kinds: batches(50, 0)})
		pass(5 * time.Second)
		if st := r.Status(); st.Claimed > 3*50+3*20 || st.Claimed < 150 {
			t.Errorf("%d claimed, want at most %d", st.Claimed, 3*50+3*20)
		}
	})
}

func TestBatchConfigRefusals(t *testing.T) {
	plain := handle(noop)
	for field, test := range map[string]struct {
		handler Handler[int, int]
		config  Config
	}{
		"Kinds[0].BatchSize": {plain, Config{Kinds: batches(2, 0)}},
		"Kinds[1].BatchSize": {&batchLog{}, Config{Kinds: []KindConfig{{Name: "a"}, {Name: "b", BatchSize: MaxBatch + 1}}}},
		"Kinds[0].Collect":   {&batchLog{}, Config{Lease: 9 * time.Second, Kinds: batches(2, 9*time.Second)}},
		"Kinds[1].Collect":   {&batchLog{}, Config{Kinds: []KindConfig{{Name: "a"}, {Name: "b", Collect: 1}}}},
		"Lease": {&batchLog{}, Config{RenewEvery: -1, Lease: 80 * time.Second, Deadline: time.Minute, CleanUp: 5 * time.Second,
			Kinds: batches(2, 12*time.Second)}},
	} {
		var refused *ConfigError
		if _, err := New[int, int](renewing{newFake(0)}, test.handler, test.config); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func ExampleBatchFunc() {
	handler := BatchFunc[string, struct{}](func(ctx context.Context, tasks []*Task[string]) []Result[struct{}] {
		results := make([]Result[struct{}], len(tasks))
		for i, task := range tasks {
			if task.Context().Err() != nil {
				results[i].Err = context.Cause(task.Context()) // somebody else has it now
				continue
			}
			fmt.Println("send", task.Payload)
		}
		return results
	})
	_, err := handler.Handle(context.Background(), &Task[string]{Payload: "a letter"})
	fmt.Println(err)
	// Output:
	// send a letter
	// <nil>
}
