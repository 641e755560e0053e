package pgqueue_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// usage is what a process holds.
type usage struct {
	goroutines, files, sessions int
	heap                        uint64
}

// openFiles counts the descriptors of this process where the system shows them, and is zero elsewhere.
func openFiles() int {
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		if entries, err := os.ReadDir(dir); err == nil {
			return len(entries)
		}
	}
	return 0
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // what the first one finalized
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
}

// measure waits until nothing changes any more: connections that were closed linger for a moment on both sides.
func measure(t testing.TB, pool *pgxpool.Pool, application string, atMost *usage) (u usage) {
	t.Helper()
	read := func() usage {
		return usage{
			goroutines: runtime.NumGoroutine(), files: openFiles(),
			sessions: one[int](t, pool, "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = $1", application),
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		u = read()
		done := u.sessions == 0
		if atMost != nil {
			done = done && u.goroutines <= atMost.goroutines+5 && u.files <= atMost.files+5
		}
		if done || time.Now().After(deadline) {
			u.heap = heapInUse()
			return u
		}
		<-tick.C
	}
}

// C150: clients and workers that are started, work and are stopped leave nothing behind, whether the database answers or
// not. No other test runs beside this one: it counts what the process holds.
func TestC150_NothingIsLeftAfterStop(t *testing.T) {
	db := pgqueuetest.New(t)
	cycles, first := size(40, 200), size(10, 20)
	const application = "the workers of C150"
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := closed.Addr().(*net.TCPAddr).Port
	_ = closed.Close() // nobody listens there any more
	cycle := func(number int) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		config := db.Pool.Config()
		config.ConnConfig.RuntimeParams["application_name"] = application
		fails := number%5 == 4
		if fails {
			config.ConnConfig.Host, config.ConnConfig.Port = "127.0.0.1", uint16(port)
			config.ConnConfig.Fallbacks = nil
		}
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		client, err := pgqueue.NewClient(pool, pgqueue.WithLogger(slog.New(slog.DiscardHandler))) // no clean-up of the test's may hold it
		if err != nil {
			t.Fatal(err)
		}
		mux := pgqueue.NewMux()
		ran := make(chan struct{}, 100)
		pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { ran <- struct{}{}; return nil })
		pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[other]) []error {
			for range jobs {
				ran <- struct{}{}
			}
			return nil
		}, pgqueue.KindCollect(10*time.Millisecond))
		worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 8}, "second": {}}})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(ctx) }()
		if fails {
			if _, err := client.Enqueue(ctx, pool, task{}); err == nil {
				t.Error("an enqueue into a closed port worked")
			}
		} else {
			jobs := make([]pgqueue.NewJob, 50)
			for i := range jobs {
				jobs[i] = pgqueue.NewJob{Args: task{N: i}}
				if i%2 == 0 {
					jobs[i].Args = other{N: i}
				}
			}
			if _, err := client.EnqueueMany(ctx, pool, jobs); err != nil {
				t.Fatal(err)
			}
			for range jobs {
				receive(t, ran, "a job")
			}
		}
		stop := worker.Stop
		if number%3 == 0 {
			stop = worker.StopNow
		}
		if err := errors.Join(stop(ctx), <-ended, client.Close(ctx)); err != nil {
			t.Errorf("cycle %d: %v", number, err)
		}
	}
	var before usage
	for number := range cycles {
		if number == first {
			before = measure(t, db.Pool, application, nil)
		}
		cycle(number)
	}
	after := measure(t, db.Pool, application, &before)
	t.Logf("after %d cycles: %+v; after %d: %+v", first, before, cycles, after)
	if after.goroutines > before.goroutines+5 {
		t.Errorf("%d goroutines after %d cycles, %d after %d", before.goroutines, first, after.goroutines, cycles)
	}
	if after.files > before.files+5 {
		t.Errorf("%d open files after %d cycles, %d after %d", before.files, first, after.files, cycles)
	}
	if after.sessions > 0 && !pooled() { // a pooler keeps its own
		t.Errorf("%d sessions are left", after.sessions)
	}
	if after.heap > before.heap+2<<20 {
		t.Errorf("%d bytes of heap after %d cycles, %d after %d", before.heap, first, after.heap, cycles)
	}
}

// C150: the memory of a worker does not depend on how many jobs it has run.
func TestC150_MemoryIsFlatOverManyJobs(t *testing.T) {
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	jobs := size(20_000, 1_000_000)
	mux := pgqueue.NewMux()
	var ran atomic.Int64
	reached := make(chan struct{})
	goOn := make(chan struct{})
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error {
		if ran.Add(1) == int64(jobs/5) {
			close(reached)
			<-goOn // with one worker nothing else happens meanwhile
		}
		return nil
	})
	exec(t, db.Pool, "INSERT INTO pgqueue.jobs (queue, kind, payload) SELECT 'default', 'task', jsonb_build_object('n', i) FROM generate_series(1, "+
		strconv.Itoa(jobs)+") i")
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1, Deadline: -1}}})
	wait := func(until <-chan struct{}) {
		t.Helper()
		for last := int64(-1); ; {
			select {
			case <-until:
				return
			case <-time.After(patience):
				if now := ran.Load(); now == last {
					t.Fatalf("nothing has happened for %v; %d of %d jobs ran", patience, now, jobs)
				} else {
					last = now
				}
			}
		}
	}
	wait(reached)
	before := heapInUse()
	close(goOn)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for worker.Status().Queues["default"].Outcomes.Succeeded < uint64(jobs) {
			select {
			case <-tick.C:
			case <-t.Context().Done():
				return
			}
		}
	}()
	wait(done)
	after := heapInUse()
	t.Logf("heap after a fifth of %d jobs: %d bytes, at the end: %d", jobs, before, after)
	if after > before+2<<20 {
		t.Errorf("the heap grew from %d to %d bytes over %d jobs", before, after, jobs-jobs/5)
	}
}
