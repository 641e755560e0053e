package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// C107: whatever becomes of a job, the next enqueue is what its rule says, and nothing is taken for ever.
func TestC107_NoFinalStateBlocksForEver(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	rulesOf := map[string]struct {
		options []pgqueue.EnqueueOption
		free    bool // as soon as the job has ended; else after its time
	}{
		"key":             {[]pgqueue.EnqueueOption{pgqueue.WithKey("k")}, true},
		"key, revision":   {[]pgqueue.EnqueueOption{pgqueue.WithKey("r"), pgqueue.WithRevision("1")}, true},
		"unique, live":    {[]pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{})}, true},
		"debounce":        {[]pgqueue.EnqueueOption{pgqueue.WithKey("d"), pgqueue.WithDebounce(time.Millisecond, time.Second)}, true},
		"unique, kept":    {[]pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Keep: day})}, false},
		"unique, period":  {[]pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Period: 100 * 365 * day})}, false},
		"idempotency key": {[]pgqueue.EnqueueOption{pgqueue.WithIdempotencyKey("k", day)}, false},
		"throttle":        {[]pgqueue.EnqueueOption{pgqueue.WithThrottle(100 * 365 * day)}, false},
	}
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		switch job.Args.Do {
		case "dead":
			return errors.New("no")
		case "failed":
			return pgqueue.Permanent(errors.New("no"))
		case "cancelled":
			return pgqueue.Cancel(nil)
		}
		return nil
	})
	for _, state := range []string{"succeeded", "dead", "failed", "cancelled", "crashed", "deleted"} {
		for name, rule := range rulesOf {
			queue := name + " " + state
			again := func() pgqueue.Enqueued {
				return enqueue(t, client, db.Pool, task{Do: state}, append(rule.options, pgqueue.OnQueue(queue), pgqueue.WithMaxAttempts(1))...)
			}
			first := again()
			requireOutcome(t, first, pgqueue.Inserted)
			work := func() {
				eventually(t, "the job is due and has ended", func() bool {
					drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{queue: {}}})
					return one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs WHERE queue = $1", queue) == 0
				})
			}
			switch state {
			case "deleted":
				exec(t, db.Pool, "DELETE FROM pgqueue.jobs WHERE id = $1", first.ID)
			case "crashed":
				abandon(t, db.Pool, first.ID)
				if got := again(); got.ID != first.ID || got.Outcome == pgqueue.Inserted || got.Outcome == pgqueue.Duplicate && got.State != pgqueue.JobRunning {
					t.Errorf("%s: %+v while the crashed job is not recovered", queue, got)
				}
				work() // the drain recovers it first: dead, or superseded and run
			default:
				work()
			}
			second := again()
			if rule.free && (second.Outcome != pgqueue.Inserted || second.ID == first.ID) {
				t.Errorf("%s: %+v, want a new job", queue, second)
			}
			if !rule.free {
				requireDuplicate(t, second, first.ID, "")
				exec(t, db.Pool, "UPDATE pgqueue.unique_keys SET expires_at = statement_timestamp() WHERE queue = $1", queue)
				requireOutcome(t, again(), pgqueue.Inserted)
			}
		}
	}
}

// C109: no key is ten jobs; an empty one is refused, in all ways of enqueueing; a blank is a key; a long one is refused before SQL.
func TestC109_EmptyAndLongIdempotencyKeys(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	ctx := testContext(t)
	for range 10 {
		enqueue(t, client, db.Pool, greet{})
		enqueue(t, client, db.Pool, other{}, pgqueue.WithIdempotencyKey(" ", day))
		if _, err := client.EnqueueMany(ctx, db.Pool, []pgqueue.NewJob{{Args: greet{}}, {Args: other{}, Options: []pgqueue.EnqueueOption{pgqueue.WithIdempotencyKey(" ", day)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := one[string](t, db.Pool, "SELECT string_agg(kind || ' ' || n, ',' ORDER BY kind) FROM (SELECT kind, count(*) AS n FROM pgqueue.jobs GROUP BY kind) x"); n != "greet 20,other 1" {
		t.Error(n)
	}
	for _, key := range []string{"", "\x00", "\xff", strings.Repeat("k", 513), strings.Repeat("k", 1<<20)} {
		option := []pgqueue.EnqueueOption{pgqueue.WithIdempotencyKey(key, day)}
		tx := begin(t, db.Pool, pgx.TxOptions{})
		_, err := client.Enqueue(ctx, tx, greet{}, option...)
		requireInvalid(t, err, "idempotency_key")
		_, err = client.EnqueueMany(ctx, tx, []pgqueue.NewJob{{Args: greet{}, Options: option}})
		requireInvalid(t, err, "jobs[0].idempotency_key")
		one[int](t, tx, "SELECT 1") // no SQL was sent that failed
		if key == "" || len(key) > 512 {
			if _, err := db.Pool.Exec(ctx, "SELECT pgqueue.enqueue_unique('greet', idempotency_key => $1, keep => '1 day')", key); !isCode(err, "22023") {
				t.Errorf("from SQL, %d bytes: %v", len(key), err)
			}
		}
	}
	// The longest that is allowed fits.
	longest := strings.Repeat("é", 256)
	requireOutcome(t, enqueue(t, client, db.Pool, greet{}, pgqueue.WithIdempotencyKey(longest, day)), pgqueue.Inserted)
	requireOutcome(t, enqueue(t, client, db.Pool, greet{}, pgqueue.WithKey(longest), pgqueue.WithThrottle(100*365*day)), pgqueue.Inserted)
}

// Every rule that cannot be is refused by name before any SQL.
func TestRulesThatCannotBe(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	key, revision := pgqueue.WithKey("k"), pgqueue.WithRevision("r")
	for i, c := range []struct {
		field   string
		options []pgqueue.EnqueueOption
	}{
		{"idempotency_key.keep", []pgqueue.EnqueueOption{pgqueue.WithIdempotencyKey("k", 0)}},
		{"idempotency_key.keep", []pgqueue.EnqueueOption{pgqueue.WithIdempotencyKey("k", -time.Hour)}},
		{"idempotency_key.keep", []pgqueue.EnqueueOption{pgqueue.WithIdempotencyKey("k", 101*365*day)}},
		{"unique.keep", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Keep: time.Nanosecond})}},
		{"unique.period", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Period: -1})}},
		{"unique.period", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Period: day, Keep: day})}},
		{"unique", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{}), key}},
		{"unique.args", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Args: []string{}})}},
		{"unique.args", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Args: []string{"a"}, IgnoreArgs: true})}},
		{"unique.args", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Args: make([]string, 33)})}},
		{"unique.args[1]", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Args: []string{"a", ""}})}},
		{"unique.args[0]", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Args: []string{"\x00"}})}},
		{"unique.args[0]", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Args: []string{"/a~"}})}},
		{"unique.args[0]", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Args: []string{"/a/-1"}})}},
		{"unique.args[0]", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Args: []string{"01"}})}},
		{"throttle", []pgqueue.EnqueueOption{pgqueue.WithThrottle(0)}},
		{"debounce", []pgqueue.EnqueueOption{pgqueue.WithDebounce(time.Second, time.Minute)}},
		{"debounce", []pgqueue.EnqueueOption{pgqueue.WithDebounce(time.Second, time.Minute), key, revision}},
		{"debounce", []pgqueue.EnqueueOption{pgqueue.WithDebounce(time.Second, time.Minute), key, pgqueue.WithDelay(time.Second)}},
		{"debounce", []pgqueue.EnqueueOption{pgqueue.WithDebounce(time.Second, time.Minute), key, pgqueue.WithRunAt(time.Now())}},
		{"debounce.delay", []pgqueue.EnqueueOption{pgqueue.WithDebounce(0, time.Minute), key}},
		{"debounce.max", []pgqueue.EnqueueOption{pgqueue.WithDebounce(time.Minute, time.Second), key}},
		{"debounce.max", []pgqueue.EnqueueOption{pgqueue.WithDebounce(time.Minute, 0), key}},
		{"unique", []pgqueue.EnqueueOption{pgqueue.WithDebounce(time.Second, time.Minute), key, pgqueue.WithThrottle(day)}},
		{"unique", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{}), pgqueue.WithIdempotencyKey("k", day)}},
	} {
		_, err := client.Enqueue(testContext(t), db.Pool, greet{}, c.options...)
		var refused *pgqueue.ValidationError
		if !errors.As(err, &refused) || refused.Field != c.field {
			t.Errorf("case %d: %v, want a ValidationError of %s", i, err, c.field)
		}
	}
	_, err := client.EnqueueCopy(testContext(t), db.Pool, []pgqueue.NewJob{{Args: greet{}}, {Args: greet{}, Options: []pgqueue.EnqueueOption{pgqueue.WithIdempotencyKey("k", day)}}})
	requireInvalid(t, err, "jobs[1].unique")
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs"); n != 0 {
		t.Errorf("%d jobs", n)
	}
}

// All in one call: positions, numbers in input order, outcomes.
func TestEnqueueManyMixesRules(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	with := func(options ...pgqueue.EnqueueOption) []pgqueue.EnqueueOption { return options }
	before := enqueue(t, client, db.Pool, greet{"before"}, pgqueue.WithIdempotencyKey("taken", day))
	enqueue(t, client, db.Pool, greet{"live"}, pgqueue.WithKey("live"), pgqueue.WithRevision("1"))
	jobs := []pgqueue.NewJob{
		{Args: greet{"0"}, Options: with(pgqueue.WithIdempotencyKey("z", day))},
		{Args: greet{"1"}},
		{Args: greet{"2"}, Options: with(pgqueue.WithIdempotencyKey("taken", day))},
		{Args: greet{"3"}, Options: with(pgqueue.WithKey("k"))},
		{Args: greet{"4"}, Options: with(pgqueue.WithIdempotencyKey("a", day))},
		{Args: greet{"5"}, Options: with(pgqueue.WithIdempotencyKey("z", day))},
		{Args: greet{"6"}, Options: with(pgqueue.WithUnique(pgqueue.Unique{}))},
		{Args: greet{"7"}, Options: with(pgqueue.WithKey("live"), pgqueue.WithRevision("1"))},
		{Args: greet{"6"}, Options: with(pgqueue.WithUnique(pgqueue.Unique{}))},
		{Args: greet{"9"}, Options: with(pgqueue.WithKey("live"), pgqueue.WithRevision("2"), pgqueue.OnQueue("other"))},
		{Args: greet{"10"}, Options: with(pgqueue.WithKey("d"), pgqueue.WithDebounce(time.Hour, day))},
		{Args: greet{"11"}, Options: with(pgqueue.WithThrottle(100 * 365 * day))},
		{Args: greet{"12"}, Options: with(pgqueue.WithThrottle(100 * 365 * day))},
		{Args: greet{"13"}, Options: with(pgqueue.WithKey("k"))},
	}
	many, err := client.EnqueueMany(testContext(t), db.Pool, jobs)
	if err != nil {
		t.Fatal(err)
	}
	want := "inserted inserted duplicate replaced inserted duplicate inserted same duplicate inserted inserted inserted duplicate inserted"
	var got []string
	for _, one := range many {
		got = append(got, one.Outcome.String())
	}
	if strings.Join(got, " ") != want {
		t.Errorf("outcomes\n %s, want\n %s", strings.Join(got, " "), want)
	}
	for a, b := range map[int]int{5: 0, 8: 6, 12: 11, 3: 13} {
		if many[a].ID != many[b].ID {
			t.Errorf("job %d is %d, and job %d is %d", a, many[a].ID, b, many[b].ID)
		}
	}
	if many[2].ID != before.ID {
		t.Error(many[2])
	}
	// What stands in the table is what was said, in the order of the input.
	order := one[string](t, db.Pool, "SELECT string_agg(payload->>'name', ' ' ORDER BY id) FROM pgqueue.jobs WHERE queue = 'default'")
	if order != "before live 0 1 4 6 10 11 13" {
		t.Errorf("jobs by number: %s", order)
	}
}

// Overlapping batches of all rules, in any order, do not deadlock (as in C05), and each key has one job.
func TestC05_OverlappingBatchesWithRules(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool := poolLike(t, db.Pool, func(c *pgxpool.Config) { c.MaxConns = 20 })
	client := newClient(t, pool)
	ctx, stop := context.WithCancel(testContext(t))
	defer stop()
	var group sync.WaitGroup
	for range size(12, 20) {
		group.Go(func() {
			for round := range size(8, 50) {
				jobs := make([]pgqueue.NewJob, 200)
				for i, n := range rand.Perm(len(jobs)) {
					options := []pgqueue.EnqueueOption{pgqueue.OnQueue(fmt.Sprintf("q%d", n%2))}
					switch n % 5 {
					case 0:
						options = append(options, pgqueue.WithIdempotencyKey(fmt.Sprint(n, round/2), time.Millisecond))
					case 1:
						options = append(options, pgqueue.WithKey(fmt.Sprint(n)), pgqueue.WithIdempotencyKey(fmt.Sprint(n, round), time.Hour))
					case 2:
						options = append(options, pgqueue.WithUnique(pgqueue.Unique{}))
					case 3:
						options = append(options, pgqueue.WithKey(fmt.Sprint(n)), pgqueue.WithDebounce(time.Second, time.Minute))
					case 4:
						options = append(options, pgqueue.WithKey(fmt.Sprint(n)))
					}
					jobs[i] = pgqueue.NewJob{Args: greet{fmt.Sprint(n)}, Options: options}
				}
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					_, err := client.EnqueueMany(ctx, tx, jobs)
					return err
				})
				if err == nil {
					_, err = pool.Exec(ctx, "DELETE FROM pgqueue.jobs WHERE id = ANY (ARRAY (SELECT id FROM pgqueue.jobs ORDER BY random() LIMIT 100 FOR UPDATE SKIP LOCKED))")
				}
				if err == nil {
					_, err = pool.Exec(ctx, "SELECT pgqueue.expire_unique_keys(50)")
				}
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
						stop()
					}
					return
				}
			}
		})
	}
	group.Wait()
	if n := one[int](t, pool, "SELECT count(*) FROM (SELECT FROM pgqueue.unique_keys GROUP BY queue, kind, key HAVING count(*) > 1) x"); n != 0 {
		t.Errorf("%d keys twice", n)
	}
}

// Upkeep deletes keys whose time has passed, in batches, and leaves those that somebody is taking over.
func TestUpkeepDeletesExpiredKeys(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	exec(t, db.Pool, `INSERT INTO pgqueue.unique_keys (job_id, created_at, expires_at, queue, kind, key)
		SELECT n, now() - interval '2 days', now() + (CASE WHEN n <= 2500 THEN -1 ELSE 1 END) * interval '1 day', 'default', 'greet', 'key:' || n FROM generate_series(1, 2503) n`)
	tx := begin(t, db.Pool, pgx.TxOptions{})
	requireOutcome(t, enqueue(t, client, tx, greet{}, pgqueue.WithIdempotencyKey("1", day)), pgqueue.Inserted)
	if n := one[int](t, db.Pool, "SELECT pgqueue.expire_unique_keys(10)"); n != 10 {
		t.Errorf("%d deleted of a batch of 10", n)
	}
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
	eventually(t, "only living keys are left, and the one that is being taken over", func() bool {
		return one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.unique_keys") == 4
	})
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, db.Pool, "SELECT pgqueue.expire_unique_keys()"); n != 0 {
		t.Error("a key that was taken over is deleted")
	}
}
