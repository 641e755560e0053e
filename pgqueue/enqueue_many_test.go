package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

func withKey(key string) []pgqueue.EnqueueOption {
	return []pgqueue.EnqueueOption{pgqueue.WithKey(key)}
}

// Overlapping batches in any order do not deadlock.
func TestC05_OverlappingBatches(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool := poolLike(t, db.Pool, func(c *pgxpool.Config) { c.MaxConns = 20 })
	client := newClient(t, pool)
	ctx, stop := context.WithCancel(testContext(t)) // at the first error: every deadlock costs a second
	defer stop()
	var group sync.WaitGroup
	for range 20 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 10 {
				jobs := make([]pgqueue.NewJob, 200)
				for i, n := range rand.Perm(len(jobs)) {
					// Two queues and two kinds, so that the order over all of them counts.
					jobs[i] = pgqueue.NewJob{Args: pgqueue.Raw{Name: fmt.Sprintf("kind%d", n%2)}, Options: append(withKey(fmt.Sprint(n)), pgqueue.OnQueue(fmt.Sprintf("q%d", n%4/2)))}
				}
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					_, err := client.EnqueueMany(ctx, tx, jobs)
					return err
				})
				if err == nil {
					_, err = pool.Exec(ctx, "DELETE FROM pgqueue.jobs WHERE id = ANY (ARRAY (SELECT id FROM pgqueue.jobs FOR UPDATE SKIP LOCKED))")
				}
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
						stop()
					}
					return
				}
			}
		}()
	}
	group.Wait()
}

// Nor do they with workers that settle the same rows in batches, and a reaper that comes by.
func TestC05_OverlappingBatchesBesideWorkers(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	noted := &refusals{}
	pool := poolLike(t, db.Pool, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.Tracer = 20, noted })
	client := quietClient(t, pool)
	mux := pgqueue.NewMux()
	mux.HandleFunc("kind0", func(_ context.Context, job *pgqueue.AnyJob) error {
		if job.Attempt%2 == 1 {
			return errors.New("once more")
		}
		return nil
	})
	pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[kind1]) []error { return nil }, pgqueue.KindCollect(time.Millisecond))
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{}, Lease: 3 * time.Second, ReapInterval: 20 * time.Millisecond}
	for _, queue := range []string{"q0", "q1"} {
		config.Queues[queue] = pgqueue.QueueConfig{
			Workers: 8, Batch: 200, Window: -1, Poll: 20 * time.Millisecond, Backoff: runner.Exponential{Base: time.Millisecond, Max: time.Millisecond, Factor: 1},
		}
	}
	workers := []*running{startWorker(t, client, mux, config), startWorker(t, client, mux, config)}
	ctx := testContext(t)
	var group sync.WaitGroup
	for range size(6, 20) {
		group.Go(func() {
			for round := range size(12, 50) {
				jobs := make([]pgqueue.NewJob, 200)
				for i, n := range rand.Perm(len(jobs)) {
					jobs[i] = pgqueue.NewJob{Args: pgqueue.Raw{Name: fmt.Sprintf("kind%d", n%2)}, Options: append(withKey(fmt.Sprint(n)),
						pgqueue.OnQueue(fmt.Sprintf("q%d", n%4/2)), pgqueue.WithRevision(fmt.Sprint(round)))}
				}
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					_, err := client.EnqueueMany(ctx, tx, jobs)
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
				// Some of their workers die.
				if _, err := pool.Exec(ctx, `UPDATE pgqueue.jobs SET lease_expires_at = now() - interval '1 second' WHERE id = ANY (ARRAY (
					SELECT id FROM pgqueue.jobs WHERE state = 'running' ORDER BY random() LIMIT 5 FOR UPDATE SKIP LOCKED))`); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	eventually(t, "all jobs are settled", func() bool { return one[int](t, pool, "SELECT count(*) FROM pgqueue.jobs") == 0 })
	for _, worker := range workers {
		if err := worker.Stop(ctx); err != nil {
			t.Error(err)
		}
		for queue, status := range worker.Status().Queues {
			if status.Outcomes.Succeeded == 0 {
				t.Errorf("a worker settled nothing in %s: %+v", queue, status.Outcomes)
			}
		}
	}
	if codes := noted.seen(); len(codes) != 0 {
		t.Errorf("statements were refused: %v", codes)
	}
}

type kind1 struct{}

func (kind1) Kind() string { return "kind1" }

// Arrays have no limit of parameters, and ids come back where their jobs stood.
func TestC06_LargeBatches(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	hints := listen(t, db.Pool, "pgqueue")
	for _, n := range []int{1, 9_000, 20_000, 100_000} {
		for _, keyed := range []bool{false, true} {
			jobs := make([]pgqueue.NewJob, n)
			for i := range jobs {
				jobs[i] = pgqueue.NewJob{Args: greet{Name: fmt.Sprint(i)}}
			}
			if keyed {
				jobs[n-1].Options = withKey("once")
			}
			tx := begin(t, db.Pool, pgx.TxOptions{})
			enqueued, err := client.EnqueueMany(testContext(t), tx, jobs)
			if err != nil {
				t.Fatal(err)
			}
			for i := 1; i < len(enqueued)-1; i++ {
				if enqueued[i].ID <= enqueued[i-1].ID {
					t.Fatalf("ids are not in the order of the input at %d", i)
				}
			}
			for _, i := range []int{0, n / 2, n - 1} {
				if got := one[string](t, tx, "SELECT payload->>'name' FROM pgqueue.jobs WHERE id = $1", enqueued[i].ID); got != fmt.Sprint(i) {
					t.Fatalf("job %d of %d has the payload of %s", i, n, got)
				}
			}
			if err := tx.Commit(testContext(t)); err != nil {
				t.Fatal(err)
			}
			if keyed && n > 1 {
				requireOutcome(t, enqueued[n-1], pgqueue.Replaced) // by the loop before
			}
			if got := hints.until(t, db.Pool, "pgqueue"); len(got) != 1 {
				t.Fatalf("%d hints for one transaction", len(got))
			}
		}
	}
	if got, want := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs"), 2*(1+9_000+20_000+100_000)-3; got != want {
		t.Fatalf("%d jobs, want %d", got, want)
	}
}

// What a batch costs in memory grows with its jobs and no faster, and its statement does not grow at all. Not parallel: it
// counts what the whole process allocates.
func TestC06_MemoryOfALargeBatch(t *testing.T) {
	db := pgqueuetest.New(t)
	sent := &statements{}
	pool := poolLike(t, db.Pool, func(c *pgxpool.Config) { c.ConnConfig.Tracer = sent })
	client := quietClient(t, pool, pgqueue.WithoutHints())
	measure := func(n int) (perJob float64, longest int) {
		jobs := make([]pgqueue.NewJob, n)
		for i := range jobs {
			jobs[i] = pgqueue.NewJob{Args: greet{Name: fmt.Sprint(i)}}
		}
		sent.forget()
		before := allocated()
		enqueued, err := client.EnqueueMany(testContext(t), pool, jobs)
		if err != nil || len(enqueued) != n {
			t.Fatal(len(enqueued), err)
		}
		return float64(allocated()-before) / float64(n), sent.longest()
	}
	measure(100) // what the connection remembers
	small, text := measure(1_000)
	n := size(20_000, 100_000)
	large, longest := measure(n)
	t.Logf("%.0f bytes a job in a batch of 1,000, %.0f in one of %d; statements of %d and %d bytes", small, large, n, text, longest)
	if large > 2*small || large > 4<<10 {
		t.Errorf("%.0f bytes are allocated for each of %d jobs, %.0f for each of 1,000", large, n, small)
	}
	if longest != text {
		t.Errorf("the statement has %d bytes for 1,000 jobs and %d for %d", text, longest, n)
	}
}

// allocated is how many bytes the process has allocated in all.
func allocated() uint64 {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.TotalAlloc
}

// All four modes of pgx write the same rows, by pool, connection and transaction.
func TestEnqueueInEveryExecMode(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	at := time.Date(2031, 2, 3, 4, 5, 6, 789_000, time.UTC)
	nasty := `{"s":"a'b\"c\\ $1 😀 \u2028","n":9007199254740993}`
	options := []pgqueue.EnqueueOption{
		pgqueue.OnQueue(`q'"\$1`), pgqueue.WithTags(`a,b`, `"`, `\`, `{}`, `NULL`, ` x `), pgqueue.WithRunAt(at), pgqueue.WithPriority(3),
		pgqueue.WithMetadata(map[string]any{"tenant": "it's"}), pgqueue.WithMaxAttempts(7),
	}
	const row = `SELECT format('%s|%s|%s|%s|%s|%s|%s|%s|%s|%s', queue, kind, key, revision, payload, metadata, array_to_json(tags), priority,
		extract(epoch FROM run_at), max_attempts) FROM pgqueue.jobs WHERE id = $1`
	want := map[string]string{}
	for _, mode := range everyMode(t) {
		pool := poolLike(t, db.Pool, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
		client := newClient(t, pool)
		conn, err := pgx.ConnectConfig(testContext(t), pool.Config().ConnConfig)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		tx := begin(t, pool, pgx.TxOptions{})
		for name, q := range map[string]pgqueue.Querier{"pool": pool, "conn": conn, "tx": tx} {
			keyed := append(options[:len(options):len(options)], pgqueue.WithKey("k\\'"), pgqueue.WithRevision(fmt.Sprint(mode, name)))
			ids := map[string]int64{"one": enqueue(t, client, q, rawJob(nasty), options...).ID}
			many, err := client.EnqueueMany(testContext(t), q, []pgqueue.NewJob{
				{Args: rawJob(nasty), Options: options},
				{Args: rawJob(nasty), Options: append(keyed, pgqueue.OnQueue("zz "+name), pgqueue.WithRevision("r"))},
				{Args: greet{}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("delayed"), pgqueue.WithDelay(time.Hour)}},
			})
			if err != nil {
				t.Fatalf("%s by %s: %v", mode, name, err)
			}
			ids["many"] = many[0].ID
			ids["keyed "+name] = many[1].ID
			rows := q.(interface {
				QueryRow(context.Context, string, ...any) pgx.Row
			})
			for form, id := range ids {
				got := one[string](t, rows, row, id)
				if want[form] == "" {
					want[form] = got
				}
				if got != want[form] {
					t.Fatalf("%s by %s, %s:\n got %s\nwant %s", mode, name, form, got, want[form])
				}
			}
		}
		if err := tx.Rollback(testContext(t)); err != nil { // the next mode needs its key
			t.Fatal(err)
		}
	}
	if want["one"] != want["many"] || !strings.Contains(want["one"], `["a,b","\"","\\","{}","NULL"," x "]`) {
		t.Fatalf("the two ways differ:\n%s\n%s", want["one"], want["many"])
	}
}

// Mixed batches over several queues: one round trip, answers by position, the last of a key counts.
func TestEnqueueManyMixed(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool, counter := counted(t, db)
	client := newClient(t, pool)
	on := func(queue string, options ...pgqueue.EnqueueOption) []pgqueue.EnqueueOption {
		return append(options, pgqueue.OnQueue(queue))
	}
	tx := begin(t, pool, pgx.TxOptions{})
	before := counter.n.Load()
	enqueued, err := client.EnqueueMany(testContext(t), tx, []pgqueue.NewJob{
		{Args: greet{Name: "0"}, Options: on("b", pgqueue.WithKey("k"))},
		{Args: greet{Name: "1"}, Options: on("a")},
		{Args: greet{Name: "2"}, Options: on("b", pgqueue.WithKey("k"))},
		{Args: greet{Name: "3"}, Options: on("b")},
		{Args: greet{Name: "4"}, Options: on("a", pgqueue.WithKey("k"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	if sent := counter.n.Load() - before; sent != 1 {
		t.Fatalf("%d round trips, want 1", sent)
	}
	if enqueued[0].ID != enqueued[2].ID {
		t.Fatalf("two ids for one key: %v", enqueued)
	}
	for i, want := range []string{"2", "1", "2", "3", "4"} {
		if got := one[string](t, tx, "SELECT payload->>'name' FROM pgqueue.jobs WHERE id = $1", enqueued[i].ID); got != want {
			t.Fatalf("position %d has the job of %s, want %s", i, got, want)
		}
	}
}

// enqueue() in SQL writes what Enqueue writes.
func TestEnqueueInSQLAgrees(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	const row = `SELECT format('%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s', kind, key, revision, payload, metadata, tags, priority, max_attempts,
		run_at = '2031-02-03Z', generation, state) FROM pgqueue.jobs WHERE queue = $1`
	at := time.Date(2031, 2, 3, 0, 0, 0, 0, time.UTC)
	for i, revision := range []string{"1", "1", "2", ""} {
		options := []pgqueue.EnqueueOption{
			pgqueue.OnQueue("go"), pgqueue.WithKey("k"), pgqueue.WithRunAt(at.Add(time.Duration(i) * time.Hour)), pgqueue.WithPriority(2 + i%2),
			pgqueue.WithTags("a", fmt.Sprint(i)), pgqueue.WithMetadata(map[string]int{"m": i}), pgqueue.WithMaxAttempts(5 + i),
		}
		var sqlRevision *string
		if revision != "" {
			options = append(options, pgqueue.WithRevision(revision))
			sqlRevision = &revision
		}
		enqueue(t, client, db.Pool, greet{Name: fmt.Sprint(i)}, options...)
		exec(t, db.Pool, `SELECT pgqueue.enqueue('greet', jsonb_build_object('name', $1::text), queue => 'sql', key => 'k', revision => $2,
			run_at => $3, priority => $4, max_attempts => $5, tags => ARRAY['a', $1], metadata => jsonb_build_object('m', $1::int))`,
			fmt.Sprint(i), sqlRevision, at.Add(time.Duration(i)*time.Hour), 2+i%2, 5+i)
		inGo, inSQL := one[string](t, db.Pool, row, "go"), one[string](t, db.Pool, row, "sql")
		if inGo != inSQL {
			t.Fatalf("step %d:\n Go  %s\n SQL %s", i, inGo, inSQL)
		}
	}
	enqueue(t, client, db.Pool, greet{}, pgqueue.OnQueue("go0"))
	exec(t, db.Pool, "SELECT pgqueue.enqueue('greet', queue => 'sql0')")
	const defaults = `SELECT format('%s|%s|%s|%s|%s|%s|%s|%s|%s', kind, key, revision, payload, metadata, tags, priority, max_attempts,
		run_at = created_at) FROM pgqueue.jobs WHERE queue = $1`
	if inGo, inSQL := one[string](t, db.Pool, defaults, "go0"), one[string](t, db.Pool, defaults, "sql0"); inGo != inSQL {
		t.Fatalf("defaults:\n Go  %s\n SQL %s", inGo, inSQL)
	}
}
