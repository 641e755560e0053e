package pgqueue_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// UPDATE … RETURNING answers in any order. The order inside a batch must nevertheless be the claim's.
func TestC21_ABatchRunsInTheOrderOfTheClaim(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 17, 200} {
		t.Run(fmt.Sprintf("batch %d", batch), func(t *testing.T) {
			t.Parallel()
			jobs := size(120, 400)
			ran, claims := runInOrder(t, jobs, batch)
			if len(ran) != jobs {
				t.Fatalf("%d jobs ran, want %d", len(ran), jobs)
			}
			largest := 0
			for number, claim := range claims {
				largest = max(largest, len(claim))
				order := orderOfClaim(number)
				rank := func(job pgqueue.JobInfo) int { return slices.Index(order, job.Priority) }
				for i := 1; i < len(claim); i++ {
					a, b := claim[i-1], claim[i]
					late := rank(a) > rank(b) || rank(a) == rank(b) &&
						(a.RunAt.After(b.RunAt) || a.RunAt.Equal(b.RunAt) && a.ID > b.ID)
					if late {
						t.Fatalf("claim %d of %d: job %d (priority %d, due %v) ran before job %d (priority %d, due %v)",
							number, len(claim), a.ID, a.Priority, a.RunAt, b.ID, b.Priority, b.RunAt)
					}
				}
			}
			if want := (min(batch, jobs) + 1) / 2; largest < want {
				t.Errorf("the largest claim took %d jobs, want at least %d: this run proves nothing", largest, want)
			}
		})
	}
}

// orderOfClaim is the order of priorities of the number-th claim that found something: four go from 1 to 4, every fifth is
// led by 4, 3 and 2 in turn.
func orderOfClaim(number int) []int {
	if number%5 != 4 {
		return []int{1, 2, 3, 4}
	}
	return [][]int{{4, 3, 2, 1}, {3, 4, 2, 1}, {2, 4, 3, 1}}[number/5%3]
}

// runInOrder drains jobs of all priorities, whose order of run_at is the reverse of their ids', with one handler at a
// time. It returns them as they ran, and split by claim.
func runInOrder(t *testing.T, jobs, batch int) (ran []pgqueue.JobInfo, claims [][]pgqueue.JobInfo) {
	t.Helper()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool, pgqueue.WithoutHints())
	now := one[time.Time](t, db.Pool, "SELECT now()")
	batchOf := make([]pgqueue.NewJob, jobs)
	for i := range batchOf {
		batchOf[i] = pgqueue.NewJob{Args: task{N: i}, Options: []pgqueue.EnqueueOption{
			pgqueue.WithPriority(1 + i%4), pgqueue.WithRunAt(now.Add(-time.Duration(i/8) * time.Second)),
		}}
	}
	if _, err := client.EnqueueMany(testContext(t), db.Pool, batchOf); err != nil {
		t.Fatal(err)
	}
	exec(t, db.Pool, "ANALYZE pgqueue.jobs")
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error { // one at a time, so without a lock
		if n := len(claims); n == 0 || !claims[n-1][0].ClaimedAt.Equal(job.ClaimedAt) {
			claims = append(claims, nil)
		}
		claims[len(claims)-1] = append(claims[len(claims)-1], job.JobInfo)
		ran = append(ran, job.JobInfo)
		return nil
	})
	drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1, Batch: batch}}})
	return ran, claims
}

// Claims of one job each show which priority each claim preferred.
func TestPrioritiesAreClaimedFourToOne(t *testing.T) {
	t.Parallel()
	ran, claims := runInOrder(t, 120, 1)
	if len(claims) != len(ran) {
		t.Fatalf("%d claims of one job each for %d jobs", len(claims), len(ran))
	}
	left := map[int]int{1: 30, 2: 30, 3: 30, 4: 30}
	for number, job := range ran {
		for _, preferred := range orderOfClaim(number) {
			if left[preferred] > 0 { // what the preferred class does not use, the next borrows
				if job.Priority != preferred {
					t.Fatalf("claim %d took priority %d, want %d (left: %v)", number, job.Priority, preferred, left)
				}
				break
			}
		}
		left[job.Priority]--
	}
	// 30 jobs of priority 1, four fifths of the claims: the first catch-up job did not wait for the last fresh one.
	if first := slices.IndexFunc(ran, func(job pgqueue.JobInfo) bool { return job.Priority == 4 }); first != 4 {
		t.Errorf("the first job of priority 4 ran as number %d, want 4", first)
	}
}

// A worker leaves the kinds that it does not know to others, at no cost to them, and its reaper returns them when a
// worker that knows them dies.
func TestC28_AnUnknownKindIsLeftToOthers(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	unknown := make([]int64, size(8, 20))
	for i := range unknown {
		unknown[i] = enqueue(t, client, db.Pool, other{N: i}, pgqueue.WithMaxAttempts(3)).ID
	}

	known := make(chan int, 5)
	old := pgqueue.NewMux()
	pgqueue.Handle(old, func(_ context.Context, job *pgqueue.Job[task]) error {
		known <- job.Args.N
		return nil
	})
	looked := make(chan struct{}, 1000)
	wakes := size(5, 40)
	startWorker(t, client, old, pgqueue.WorkerConfig{
		ID: "old", Queues: pgqueue.Queues{"default": {Poll: 250 * time.Millisecond}},
		Lease: 3 * time.Second, ReapInterval: 200 * time.Millisecond,
		Observer: &hooks{wake: func(runner.WakeEvent) {
			select {
			case looked <- struct{}{}:
			default:
			}
		}},
	})
	for i := range 5 {
		enqueue(t, client, db.Pool, task{N: i}) // behind the others in line
	}
	for range 5 {
		receive(t, known, "the old worker's own kind")
	}
	for range wakes {
		receive(t, looked, "another look by the old worker")
	}
	if n := one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs WHERE kind = 'other'
		AND state = 'pending' AND attempt = 0 AND failures = 0 AND errors IS NULL`); n != len(unknown) {
		t.Fatalf("%d of %d jobs of the unknown kind are untouched", n, len(unknown))
	}

	// The new worker dies while it runs one of them: its connections are cut and no new ones come through.
	victim := enqueue(t, client, db.Pool, other{N: -1}, pgqueue.WithMaxAttempts(3)).ID
	proxy, cutOff := throughProxy(t, db.Pool)
	began, never := make(chan struct{}, 10), make(chan struct{})
	var dead sync.Once
	var mutex sync.Mutex
	dies := true
	renewed := pgqueue.NewMux()
	pgqueue.Handle(renewed, func(context.Context, *pgqueue.Job[task]) error { return nil })
	pgqueue.Handle(renewed, func(_ context.Context, job *pgqueue.Job[other]) error {
		mutex.Lock()
		dying := dies && job.ID == victim
		mutex.Unlock()
		if dying {
			began <- struct{}{}
			<-never // a dead process does not listen to its context
		}
		return nil
	})
	config := pgqueue.WorkerConfig{
		ID: "new", Pool: cutOff, DisableListener: true, Queues: pgqueue.Queues{"default": {Workers: 4, CleanUp: time.Millisecond}},
		Lease: 3 * time.Second, StopTimeout: time.Millisecond,
	}
	doomed := startWorker(t, client, renewed, config)
	t.Cleanup(func() { dead.Do(func() { close(never) }) })
	receive(t, began, "the job that its worker does not survive")
	for _, id := range unknown {
		awaitState(t, db.Pool, id, "succeeded").requireState(t, "succeeded", 1, 0)
	}
	proxy.Refuse(true)
	proxy.Cut()
	doomed.taken = true // it cannot end well
	mutex.Lock()
	dies = false
	mutex.Unlock()
	reaped := awaitState(t, db.Pool, victim, "pending")
	reaped.requireState(t, "pending", 1, 1)
	if len(reaped.Errors) != 1 || reaped.Errors[0].Code != "lease_expired" || reaped.Errors[0].By != "new" {
		t.Errorf("errors %+v, want one of lease_expired by the dead worker", reaped.Errors)
	}
	dead.Do(func() { close(never) })
	doomed.stop()

	config.Pool, config.ID = nil, "newer"
	startWorker(t, client, renewed, config)
	awaitState(t, db.Pool, victim, "succeeded").requireState(t, "succeeded", 2, 1)
}

// What a worker claims ahead must neither lose its lease while it waits nor wait for a worker that stops.
func TestC32_ClaimedJobsDoNotLoseTheirLeaseWaiting(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	jobs, takes, lease := size(14, 50), size(900*time.Millisecond, 500*time.Millisecond), size(3*time.Second, 2*time.Second)
	batch := make([]pgqueue.NewJob, jobs)
	for i := range batch {
		batch[i] = pgqueue.NewJob{Args: task{N: i}}
	}
	if _, err := client.EnqueueMany(testContext(t), db.Pool, batch); err != nil {
		t.Fatal(err)
	}
	ran := make(chan int, 10*jobs)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		ran <- job.Attempt
		<-time.After(takes) // the work
		return nil
	})
	startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {Workers: 2, Batch: 50}}, Lease: lease, ReapInterval: 200 * time.Millisecond,
	})
	eventually(t, "all jobs are done", func() bool { return one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs") == 0 })
	if len(ran) != jobs {
		t.Errorf("%d executions of %d jobs", len(ran), jobs)
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.history WHERE state = 'succeeded' AND attempt = 1 AND errors IS NULL"); n != jobs {
		t.Errorf("%d of %d jobs succeeded at their first attempt", n, jobs)
	}
}

func TestC32_AStoppingWorkerGivesBackWhatItHasNotStarted(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	begun, release := make(chan int64, 100), make(chan struct{})
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		if job.Args.Do == "wait" {
			begun <- job.ID
			<-release
		}
		return nil
	})
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {Workers: 2, Batch: 50}}, StopTimeout: patience,
		Lease: 10 * time.Minute, // so that nothing else gives them back in this time
	})
	t.Cleanup(func() {
		select {
		case <-release:
		default:
			close(release)
		}
	})
	// Quick jobs first: a worker claims ahead only once it knows that handlers are quick.
	batch := make([]pgqueue.NewJob, 60)
	for i := range batch {
		batch[i] = pgqueue.NewJob{Args: task{N: i}}
		if i >= 20 {
			batch[i].Args = task{N: i, Do: "wait"}
		}
	}
	if _, err := client.EnqueueMany(testContext(t), db.Pool, batch); err != nil {
		t.Fatal(err)
	}
	running := []int64{receive(t, begun, "the first that waits"), receive(t, begun, "the second that waits")}
	eventually(t, "the worker has claimed ahead", func() bool { return worker.Status().Queues["default"].Buffered > 0 })
	worker.stop()
	eventually(t, "what was not started is ready again", func() bool {
		return one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs WHERE state = 'pending' AND run_at <= now() AND claimed_at IS NULL") == 38
	})
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs WHERE state = 'running' AND id = ANY ($1)", running); n != 2 {
		t.Errorf("%d of the 2 started jobs are still running", n)
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs WHERE failures > 0 OR errors IS NOT NULL"); n != 0 {
		t.Errorf("%d jobs paid for the stop", n)
	}
	close(release)
	if err := worker.end(t); err != nil {
		t.Fatal(err)
	}
	for _, id := range running {
		job(t, db.Pool, id).requireState(t, "succeeded", 1, 0)
	}
}
