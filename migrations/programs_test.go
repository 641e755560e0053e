package migrations_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// oldestKept is the first version whose programs' statements are kept.
const oldestKept = 2

// programs are the statements of the programs that were built for a version, by name.
func programs(t *testing.T, version uint) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("testdata/version%d.sql", version))
	if err != nil {
		t.Fatal(err)
	}
	replacer := strings.NewReplacer("{schema}", "pgqueue", "{sequence}", "'pgqueue.jobs_id_seq'", "{history_day}", "'pgqueue.history_'")
	found := map[string]string{}
	for _, section := range strings.Split(string(text), "\n-- name: ")[1:] {
		name, sql, _ := strings.Cut(section, "\n")
		found[name] = replacer.Replace(sql)
	}
	if want := map[uint]int{2: 32, 3: 67, 4: 107}[version]; len(found) != want {
		t.Fatalf("%d statements of version %d, want %d", len(found), version, want)
	}
	return found
}

// Every statement of the programs for a version means the same on the next one: the same parameters, the same columns in the answer.
func TestEachVersionTakesTheStatementsOfTheOneBefore(t *testing.T) {
	for version := uint(oldestKept); version < migrations.Latest; version++ {
		t.Run(fmt.Sprintf("%d on %d", version, version+1), func(t *testing.T) {
			statements := programs(t, version)
			prepare := func(pool *pgxpool.Pool) map[string]string {
				t.Helper()
				conn, err := pgx.ConnectConfig(testContext(t), pool.Config().ConnConfig)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close(context.Background()) }()
				shapes := map[string]string{}
				for name, sql := range statements {
					prepared, err := conn.Prepare(testContext(t), "", sql)
					if err != nil {
						t.Errorf("%s: %v", name, err)
						continue
					}
					shape := fmt.Sprint(prepared.ParamOIDs)
					for _, field := range prepared.Fields {
						shape += fmt.Sprintf(" %s %d", field.Name, field.DataTypeOID)
					}
					shapes[name] = shape
				}
				return shapes
			}
			pool := at(t, version)
			before := prepare(pool)
			upTo(t, pool, version+1)
			for name, shape := range prepare(pool) {
				if shape != before[name] {
					t.Errorf("%s was %s and is %s", name, before[name], shape)
				}
			}
		})
	}
}

// fleet are programs at work with the statements of a version.
type fleet struct {
	version    uint
	statements map[string]string
	stop       chan struct{}
	over       sync.WaitGroup
	enqueued   atomic.Int64

	mutex   sync.Mutex
	longest map[string]time.Duration
	count   map[string]int
	errors  []error
}

// startFleet starts workers and producers, each with a connection of its own.
func startFleet(t *testing.T, pool *pgxpool.Pool, version uint, workers, producers int) *fleet {
	t.Helper()
	f := &fleet{version: version, statements: programs(t, version), stop: make(chan struct{}), longest: map[string]time.Duration{}, count: map[string]int{}}
	for i := range workers + producers {
		conn, err := pgx.ConnectConfig(testContext(t), pool.Config().ConnConfig)
		if err != nil {
			t.Fatal(err)
		}
		act := f.work
		if i >= workers {
			act = f.produce
		}
		f.over.Go(func() {
			defer func() { _ = conn.Close(context.Background()) }()
			for round := 0; ; round++ {
				select {
				case <-f.stop:
					return
				default:
				}
				if err := act(testContext(t), conn, round); err != nil {
					f.mutex.Lock()
					f.errors = append(f.errors, err)
					f.mutex.Unlock()
					return
				}
			}
		})
	}
	return f
}

// end stops the fleet.
func (f *fleet) end() {
	close(f.stop)
	f.over.Wait()
}

// exec runs one statement and keeps how long it took.
func (f *fleet) exec(ctx context.Context, conn *pgx.Conn, name string, args ...any) ([]claimed, error) {
	start := time.Now()
	rows, err := conn.Query(ctx, f.statements[name], args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var got []claimed
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if name != "claim" || values[0] == nil { // its envelope
			continue
		}
		got = append(got, claimed{values[0].(int64), values[1].(int32)})
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.longest[name] = max(f.longest[name], time.Since(start))
	f.count[name]++
	if rows.Err() != nil {
		return nil, fmt.Errorf("%s: %w", name, rows.Err())
	}
	return got, nil
}

// claimed is a job under a claim.
type claimed struct {
	id      int64
	attempt int32
}

// claims says how many claims there were.
func (f *fleet) claims() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.count["claim"]
}

// work is one round of a worker: claim, renew, and a success for most; upkeep now and then.
func (f *fleet) work(ctx context.Context, conn *pgx.Conn, round int) error {
	var past pgtype.Timestamptz
	past.Valid, past.InfinityModifier = true, pgtype.NegativeInfinity
	jobs, err := f.exec(ctx, conn, "claim", "q", 8, int64(30_000_000), "old", nil, []int16{1, 2, 3, 4},
		[]pgtype.Timestamptz{past, past, past, past}, []int64{0, 0, 0, 0})
	if err != nil {
		return err
	}
	var ids []int64
	var attempts []int32
	for _, job := range jobs {
		ids, attempts = append(ids, job.id), append(attempts, job.attempt)
	}
	if _, err := f.exec(ctx, conn, "renew", "q", ids, attempts, int64(30_000_000)); err != nil {
		return err
	}
	if len(ids) > 1 { // the first is tried again, once
		args := []any{"q", ids[:1], attempts[:1], []string{"retry"}, []int64{0}, []string{"code"}, []string{"message"}, []*string{nil}, []string{"full"}, []*int32{nil}}
		for _, name := range []string{"finish", "put_back"} {
			if _, err := f.exec(ctx, conn, name, args...); err != nil {
				return err
			}
		}
		ids, attempts = ids[1:], attempts[1:]
	}
	if _, err := f.exec(ctx, conn, "complete", "q", ids, attempts, false); err != nil {
		return err
	}
	if round%20 != 0 {
		return nil
	}
	for name, args := range map[string][]any{"reap": {"q", 100, past}, "ensure_history": {14}, "drop_history": {float64(7 * 86400)},
		"expire_attention": {float64(90 * 86400), 100}, "look": {"q", []int64{1}}} {
		if _, err := f.exec(ctx, conn, name, args...); err != nil {
			return err
		}
	}
	return nil
}

// produce is one round of a producer.
func (f *fleet) produce(ctx context.Context, conn *pgx.Conn, round int) error {
	if _, err := f.exec(ctx, conn, "enqueue_one_hint", "q", "k", "{}", "{}", []string{}, int16(1+round%4), nil, nil, int16(10), "pgqueue"); err != nil {
		return err
	}
	f.enqueued.Add(1)
	return nil
}

// check wants no error, no statement that took longer than most, and every job somewhere.
func (f *fleet) check(t *testing.T, pool *pgxpool.Pool, most time.Duration) {
	t.Helper()
	for _, err := range f.errors {
		t.Errorf("a program of version %d: %v", f.version, err)
	}
	for name, took := range f.longest {
		if took > most {
			t.Errorf("%s took %v at most, want less than %v", name, took, most)
		}
	}
	if n := value[int64](t, pool, `SELECT (SELECT count(*) FROM pgqueue.jobs WHERE queue = 'q') + (SELECT count(*) FROM pgqueue.history WHERE queue = 'q')`); n != f.enqueued.Load() {
		t.Errorf("%d jobs were enqueued and %d are there", f.enqueued.Load(), n)
	}
	for _, name := range []string{"claim", "renew", "finish", "put_back", "complete", "reap", "enqueue_one_hint"} {
		if f.count[name] == 0 {
			t.Errorf("%s was never run: %v", name, f.count)
		}
	}
	var lines []string
	for name, n := range f.count {
		lines = append(lines, fmt.Sprintf("%s %d times, %v at most", name, n, f.longest[name].Round(time.Millisecond)))
	}
	slices.Sort(lines)
	t.Log(strings.Join(lines, "; "))
}
