package memqueue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/memqueue"
)

type (
	queue   = memqueue.Queue[int, string]
	input   = memqueue.Input[int]
	verdict = runner.Verdict[string]
)

func newQueue(config memqueue.Config) *queue { return memqueue.New[int, string](config) }

func claim(t *testing.T, q *queue, limit int) []runner.Task[int] {
	t.Helper()
	tasks, err := q.Claim(t.Context(), runner.ClaimRequest{Limit: limit, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func report(t *testing.T, q *queue, v verdict) runner.Outcome {
	t.Helper()
	outcomes, err := q.Report(t.Context(), []verdict{v})
	if err != nil {
		t.Fatal(err)
	}
	return outcomes[0]
}

// Random operations against a plain list keep the piles honest: what is claimed must be what a scan would find.
func TestClaimsAgreeWithAScan(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	q := newQueue(memqueue.Config{Now: func() time.Time { return now }, MaxAttempts: 1000})
	type waiting struct {
		name  string
		class runner.Class
		kind  string
		due   time.Time
		id    int64
	}
	model := make(map[string]waiting)
	running := make(map[string]runner.Token)
	random := rand.New(rand.NewPCG(1, 2))
	kinds := []string{"a", "b", "c"}
	claims := 0
	for step := range 20_000 {
		name := strconv.Itoa(random.IntN(300))
		w, isWaiting := model[name]
		token, isRunning := running[name]
		switch op := random.IntN(10); {
		case op < 4 && !isWaiting && !isRunning:
			w = waiting{name, runner.Class(1 + random.IntN(4)), kinds[random.IntN(3)], now.Add(time.Duration(random.IntN(200)-100) * time.Second), 0}
			w.id = q.Put(input{Name: name, Class: w.class, Kind: w.kind, Due: w.due})
			model[name] = w
		case op == 4 && isWaiting:
			w.due = now.Add(time.Duration(random.IntN(200)-100) * time.Second)
			q.SetDue(name, w.due)
			model[name] = w
		case op == 5 && (isWaiting || isRunning):
			q.Delete(name)
			delete(model, name)
			delete(running, name)
		case op == 6 && isRunning:
			outcome := report(t, q, verdict{Token: token, Decision: runner.Succeed})
			if outcome != runner.Succeeded {
				t.Fatalf("step %d: outcome %d", step, outcome)
			}
			delete(running, name)
		case op >= 8:
			request := runner.ClaimRequest{Limit: 1 + random.IntN(5), Lease: time.Hour, Kinds: kinds[:1+random.IntN(3)],
				Classes: []runner.Class{1, 2, 3, 4}}
			random.Shuffle(4, func(i, j int) { request.Classes[i], request.Classes[j] = request.Classes[j], request.Classes[i] })
			var want []waiting
			for _, w := range model {
				if !w.due.After(now) && slices.Contains(request.Kinds, w.kind) {
					want = append(want, w)
				}
			}
			slices.SortFunc(want, func(a, b waiting) int {
				if a.class != b.class {
					return slices.Index(request.Classes, a.class) - slices.Index(request.Classes, b.class)
				}
				if c := a.due.Compare(b.due); c != 0 {
					return c
				}
				return int(a.id - b.id)
			})
			want = want[:min(len(want), request.Limit)]
			tasks, err := q.Claim(t.Context(), request)
			if err != nil || len(tasks) != len(want) {
				t.Fatalf("step %d: %d tasks, want %d, error %v", step, len(tasks), len(want), err)
			}
			for i, task := range tasks {
				if got := task.Token.(memqueue.Token).Name; got != want[i].name {
					t.Fatalf("step %d: task %d is %s, want %s", step, i, got, want[i].name)
				}
				running[want[i].name] = task.Token
				delete(model, want[i].name)
				claims++
			}
		}
		now = now.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
	}
	if claims < 1000 {
		t.Errorf("only %d claims were compared", claims)
	}
	if got, want := q.Len(), len(model)+len(running); got != want {
		t.Errorf("Len is %d, want %d", got, want)
	}
}

func TestClockOfABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(memqueue.Config{})
		q.Put(input{Name: "a", Due: time.Now().Add(time.Hour)})
		if wait, ok, err := q.NextDue(t.Context()); wait != time.Hour || !ok || err != nil {
			t.Fatalf("NextDue is %v %v %v", wait, ok, err)
		}
		time.Sleep(time.Hour - 1)
		if tasks := claim(t, q, 1); len(tasks) != 0 {
			t.Fatal("claimed a nanosecond early")
		}
		time.Sleep(1)
		task := claim(t, q, 1)[0]
		time.Sleep(time.Minute - 1)
		if r, err := q.Recover(t.Context(), 10); r.Total() != 0 || err != nil {
			t.Fatalf("recovered %+v before the lease had run out, error %v", r, err)
		}
		if renewals, err := q.Renew(t.Context(), []runner.Token{task.Token}, time.Minute); err != nil || renewals[0] != runner.Renewed {
			t.Fatalf("renewals %v, error %v", renewals, err)
		}
		time.Sleep(time.Minute - 1)
		if r, _ := q.Recover(t.Context(), 10); r.Total() != 0 {
			t.Fatalf("recovered %+v before the renewed lease had run out", r)
		}
		time.Sleep(1)
		if r, _ := q.Recover(t.Context(), 10); r != (memqueue.Recovered{Requeued: 1}) {
			t.Fatalf("recovered %+v, want one requeued", r)
		}
	})
}

func TestPutTwice(t *testing.T) {
	now := time.Unix(1000, 0)
	q := newQueue(memqueue.Config{Now: func() time.Time { return now }})
	first := q.Put(input{Name: "a", Revision: "r1", Payload: 1})
	now = now.Add(time.Minute)
	if second := q.Put(input{Name: "a", Revision: "r1", Payload: 2}); second != first {
		t.Errorf("ids %d and %d of one live task", first, second)
	}
	if item, _ := q.Get("a"); item.Payload != 1 {
		t.Errorf("the same revision replaced the payload by %d", item.Payload)
	}
	q.Put(input{Name: "a", Revision: "r2", Payload: 3})
	if item, _ := q.Get("a"); item.Payload != 3 || !item.Due.Equal(time.Unix(1000, 0)) {
		t.Errorf("payload %d due %v, want 3 in its old place in line", item.Payload, item.Due)
	}
	q.Put(input{Name: "b"})
	q.Put(input{Name: "b"})
	if q.Len() != 2 {
		t.Errorf("%d live tasks, want 2", q.Len())
	}
	if one, two := q.Put(input{}), q.Put(input{}); one == two || q.Len() != 4 {
		t.Errorf("tasks without a name are one: ids %d and %d, %d live", one, two, q.Len())
	}
}

func TestRequestCancel(t *testing.T) {
	q := newQueue(memqueue.Config{})
	for _, name := range []string{"pending", "retried", "succeeded", "recovered"} {
		q.Put(input{Name: name})
	}
	q.RequestCancel("pending")
	tokens := make(map[string]runner.Token)
	for _, task := range claim(t, q, 10) {
		tokens[task.Token.(memqueue.Token).Name] = task.Token
	}
	if len(tokens) != 3 {
		t.Fatalf("claimed %v, want all but the cancelled one", tokens)
	}
	for name := range tokens {
		q.RequestCancel(name)
	}
	if got := report(t, q, verdict{Token: tokens["retried"], Decision: runner.Retry}); got != runner.Cancelled {
		t.Errorf("a retry after the request is %d, want Cancelled", got)
	}
	if got := report(t, q, verdict{Token: tokens["succeeded"], Decision: runner.Succeed}); got != runner.Succeeded {
		t.Errorf("a success after the request is %d, want Succeeded", got)
	}
	q.ExpireLeases()
	if r, _ := q.Recover(t.Context(), 10); r != (memqueue.Recovered{Cancelled: 1}) {
		t.Errorf("recovered %+v, want one cancelled", r)
	}
	want := map[string]memqueue.State{"pending": memqueue.Cancelled, "retried": memqueue.Cancelled, "succeeded": memqueue.Succeeded,
		"recovered": memqueue.Cancelled}
	for _, item := range q.History() {
		if item.State != want[item.Name] {
			t.Errorf("%s is %v, want %v", item.Name, item.State, want[item.Name])
		}
	}
	if got := len(q.History()); got != len(want) {
		t.Errorf("%d items in the history, want %d", got, len(want))
	}
	if q.RequestCancel("pending") {
		t.Error("an ended task was cancelled again")
	}
}

func TestForgetKeepsNothing(t *testing.T) {
	q := newQueue(memqueue.Config{Forget: true})
	q.Put(input{Name: "a"})
	report(t, q, verdict{Token: claim(t, q, 1)[0].Token, Decision: runner.Succeed})
	if _, ok := q.Get("a"); ok || len(q.History()) != 0 || q.Len() != 0 {
		t.Error("the queue remembers what has ended")
	}
}

func TestFailureIsStored(t *testing.T) {
	q := newQueue(memqueue.Config{MaxAttempts: 2})
	q.Put(input{Name: "a"})
	report(t, q, verdict{Token: claim(t, q, 1)[0].Token, Decision: runner.Retry, Failure: &runner.Failure{Code: "first"}})
	if item, _ := q.Get("a"); item.LastFailure == nil || item.LastFailure.Code != "first" {
		t.Errorf("failure %+v, want the first", item.LastFailure)
	}
	claim(t, q, 1)
	q.ExpireLeases()
	if r, _ := q.Recover(t.Context(), 1); r != (memqueue.Recovered{Dead: 1}) {
		t.Errorf("recovered %+v, want one dead", r)
	}
	if item, _ := q.Get("a"); item.LastFailure.Code != memqueue.CodeLeaseExpired || item.State != memqueue.Dead || item.Ended.IsZero() {
		t.Errorf("item %+v, want dead of its lease", item)
	}
}

// The piles stay in order when many leases become equal at once.
func TestExpireLeasesKeepsTheOrder(t *testing.T) {
	q := newQueue(memqueue.Config{})
	const n = 20
	for i := range n {
		q.Put(input{Name: strconv.Itoa(i)})
		lease := time.Duration(n-i) * time.Hour // the first to be put has the longest lease
		if _, err := q.Claim(t.Context(), runner.ClaimRequest{Limit: 1, Lease: lease}); err != nil {
			t.Fatal(err)
		}
	}
	q.ExpireLeases()
	for i := range n {
		if r, err := q.Recover(t.Context(), 1); r.Total() != 1 || err != nil {
			t.Fatalf("recovered %+v, error %v", r, err)
		}
		if item, _ := q.Get(strconv.Itoa(i)); item.State != memqueue.Pending {
			t.Fatalf("task %d is %v after %d recoveries, want pending", i, item.State, i+1)
		}
	}
}

// A call that makes no sense is an error before anything is written.
func TestRefusedCalls(t *testing.T) {
	q := newQueue(memqueue.Config{})
	q.Put(input{Name: "a"})
	token := claim(t, q, 1)[0].Token
	ctx := t.Context()
	good := verdict{Token: token, Decision: runner.Succeed}
	for name, call := range map[string]func() error{
		"claim of none": func() error { _, err := q.Claim(ctx, runner.ClaimRequest{Lease: time.Minute}); return err },
		"no lease":      func() error { _, err := q.Claim(ctx, runner.ClaimRequest{Limit: 1}); return err },
		"foreign token": func() error {
			_, err := q.Report(ctx, []verdict{good, {Token: other{}, Decision: runner.Succeed}})
			return err
		},
		"no token":      func() error { _, err := q.Report(ctx, []verdict{good, {Decision: runner.Succeed}}); return err },
		"no decision":   func() error { _, err := q.Report(ctx, []verdict{good, {Token: token}}); return err },
		"no renewal":    func() error { _, err := q.Renew(ctx, []runner.Token{token}, 0); return err },
		"renew foreign": func() error { _, err := q.Renew(ctx, []runner.Token{other{}}, time.Minute); return err },
		"recover none":  func() error { _, err := q.Recover(ctx, 0); return err },
	} {
		if call() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ended, cancel := context.WithCancelCause(ctx)
	cancel(errBoom)
	if _, err := q.Recover(ended, 1); !errors.Is(err, errBoom) {
		t.Errorf("Recover: %v, want the cause", err)
	}
	if _, _, err := q.NextDue(ended); !errors.Is(err, errBoom) {
		t.Errorf("NextDue: %v, want the cause", err)
	}
	if item, _ := q.Get("a"); item.State != memqueue.Running {
		t.Errorf("the task is %v, want running", item.State)
	}
}

type other struct{}

func (other) String() string { return "other" }

var errBoom = errors.New("boom")

// BenchmarkDrain claims and completes 200,000 tasks in batches of 1,000.
func BenchmarkDrain(b *testing.B) {
	const tasks, batch = 200_000, 1000
	for b.Loop() {
		b.StopTimer()
		q := newQueue(memqueue.Config{Forget: true})
		for i := range tasks {
			q.Put(input{Payload: i})
		}
		b.StartTimer()
		for q.Len() > 0 {
			claimed, err := q.Claim(b.Context(), runner.ClaimRequest{Limit: batch, Lease: time.Minute})
			if err != nil {
				b.Fatal(err)
			}
			verdicts := make([]verdict, len(claimed))
			for i, task := range claimed {
				verdicts[i] = verdict{Token: task.Token, Decision: runner.Succeed}
			}
			if _, err := q.Report(b.Context(), verdicts); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(tasks)*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
