package pgqueue_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// refused enqueues one job in both ways in one transaction, and checks that both are refused with the field named, that
// no statement was sent and that the transaction goes on.
func refused(t *testing.T, client *pgqueue.Client, tx pgx.Tx, counter *statementCounter, field string, args pgqueue.Args, options ...pgqueue.EnqueueOption) {
	t.Helper()
	before := counter.n.Load()
	_, err := client.Enqueue(testContext(t), tx, args, options...)
	requireInvalid(t, err, field)
	_, err = client.EnqueueMany(testContext(t), tx, []pgqueue.NewJob{{Args: greet{}}, {Args: args, Options: options}})
	requireInvalid(t, err, "jobs[1]."+field)
	if sent := counter.n.Load() - before; sent != 0 {
		t.Fatalf("%s: %d statements were sent before the refusal", field, sent)
	}
	exec(t, tx, "SELECT 1")
}

func counted(t *testing.T, db *pgqueuetest.DB) (*pgxpool.Pool, *statementCounter) {
	t.Helper()
	counter := &statementCounter{}
	return poolLike(t, db.Pool, func(c *pgxpool.Config) { c.ConnConfig.Tracer = counter }), counter
}

func TestC07_EmptyBatch(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool, counter := counted(t, db)
	client := newClient(t, pool)
	tx := begin(t, pool, pgx.TxOptions{})
	before := counter.n.Load()
	for _, jobs := range [][]pgqueue.NewJob{nil, {}} {
		enqueued, err := client.EnqueueMany(testContext(t), tx, jobs)
		if err != nil || enqueued == nil || len(enqueued) != 0 {
			t.Fatalf("%v, %v, want an empty answer that is not nil", enqueued, err)
		}
	}
	if sent := counter.n.Load() - before; sent != 0 {
		t.Fatalf("%d statements for no jobs", sent)
	}
	enqueue(t, client, tx, greet{})
}

type nested struct {
	Items []map[string]any `json:"items"`
}

func (nested) Kind() string { return "nested" }

func TestC08_NUL(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool, counter := counted(t, db)
	client := newClient(t, pool)
	tx := begin(t, pool, pgx.TxOptions{})
	refused(t, client, tx, counter, "payload.name", greet{Name: "a\x00b"})
	refused(t, client, tx, counter, `payload.items[1]["a\u0000b"]`, nested{Items: []map[string]any{{}, {"a\x00b": 1}}})
	refused(t, client, tx, counter, "payload.items[0].list[2]", nested{Items: []map[string]any{{"list": []any{1, "x", "\x00"}}}})
	refused(t, client, tx, counter, "payload.a", rawJob(`{"a":"\\\u0000"}`))
	refused(t, client, tx, counter, "tags[1]", greet{}, pgqueue.WithTags("ok", "a\x00"))
	refused(t, client, tx, counter, "queue", greet{}, pgqueue.OnQueue("a\x00"))
	refused(t, client, tx, counter, "kind", pgqueue.Raw{Name: "a\x00"})
	refused(t, client, tx, counter, "key", greet{}, pgqueue.WithKey("a\x00"))
	refused(t, client, tx, counter, "revision", greet{}, pgqueue.WithKey("a"), pgqueue.WithRevision("a\x00"))
	refused(t, client, tx, counter, "metadata.a", greet{}, pgqueue.WithMetadata(map[string]any{"a": "\x00"}))

	// The six characters of the escape are text like any other.
	id := enqueue(t, client, tx, greet{Name: `\u0000`}).ID
	if got := one[string](t, tx, "SELECT payload->>'name' FROM pgqueue.jobs WHERE id = $1", id); got != `\u0000` {
		t.Fatalf("stored %q", got)
	}
}

func TestC09_InvalidUTF8(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool, counter := counted(t, db)
	client := newClient(t, pool)
	tx := begin(t, pool, pgx.TxOptions{})
	sum := sha256.Sum256([]byte("input"))
	refused(t, client, tx, counter, "kind", pgqueue.Raw{Name: "a\xff"})
	refused(t, client, tx, counter, "queue", greet{}, pgqueue.OnQueue("q\xff"))
	refused(t, client, tx, counter, "key", greet{}, pgqueue.WithKey(string(sum[:])))
	refused(t, client, tx, counter, "tags[0]", greet{}, pgqueue.WithTags("\xff"))
	refused(t, client, tx, counter, "payload.name", greet{Name: "a\xff"})
	refused(t, client, tx, counter, "payload.a[0]", rawJob("{\"a\":[\"\xff\"]}"))
	refused(t, client, tx, counter, "payload.items[0].raw", nested{Items: []map[string]any{{"raw": json.RawMessage("\"\xff\"")}}})
	refused(t, client, tx, counter, "payload.items[0].bad", nested{Items: []map[string]any{{"bad": "\xff", "raw": json.RawMessage(`"\ufffd"`)}}})
	refused(t, client, tx, counter, "metadata.a", greet{}, pgqueue.WithMetadata(map[string]any{"a": "\xff"}))
	refused(t, client, tx, counter, "payload.a", rawJob(`{"a":"\ud800"}`))
	refused(t, client, tx, counter, "payload.a", rawJob(`{"a":"\udc00\ud800"}`))
	refused(t, client, tx, counter, "payload.a", rawJob(`{"a":"\ud800A"}`))

	// U+FFFD itself, a whole pair, and an escape that raw JSON brought along are fine.
	for _, args := range []pgqueue.Args{
		greet{Name: "\uFFFD"}, rawJob(`{"name":"\ufffd"}`), rawJob(`{"name":"\ud83d\ude00"}`), greet{Name: "😀"},
		nested{Items: []map[string]any{{"raw": json.RawMessage(`"\ufffd"`), "ok": "\uFFFD"}}},
	} {
		enqueue(t, client, tx, args)
	}
}

// pointerKind has its Kind on the pointer.
type pointerKind struct {
	N int `json:"n"`
}

func (*pointerKind) Kind() string { return "pointer" }

func TestC12_NothingIsTheEmptyObject(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool, counter := counted(t, db)
	client := newClient(t, pool)
	refused(t, client, begin(t, pool, pgx.TxOptions{}), counter, "args", nil)
	for _, args := range []pgqueue.Args{
		(*greet)(nil), greet{}, &greet{}, (*pointerKind)(nil), (mapArgs)(nil), mapArgs{},
		rawJob(""), rawJob("null"), rawJob(" null\n"), rawJob("{}"), pgqueue.Raw{Name: "greet"}, &pgqueue.Raw{Name: "greet"},
	} {
		single := enqueue(t, client, pool, args, pgqueue.WithMetadata(nil))
		many, err := client.EnqueueMany(testContext(t), pool, []pgqueue.NewJob{
			{Args: args, Options: []pgqueue.EnqueueOption{pgqueue.WithMetadata(json.RawMessage("null"))}}, {Args: args},
		})
		if err != nil {
			t.Fatalf("%#v: %v", args, err)
		}
		for _, id := range []int64{single.ID, many[0].ID, many[1].ID} {
			if got := one[string](t, pool, "SELECT payload::text || metadata::text || tags::text FROM pgqueue.jobs WHERE id = $1", id); got != "{}{}{}" {
				t.Fatalf("%#v: stored %s, want {}{}{}", args, got)
			}
		}
	}
}

type mapArgs map[string]int

func (mapArgs) Kind() string { return "map" }

func TestC16_PayloadSize(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool, counter := counted(t, db)
	client := newClient(t, pool)
	hints := listen(t, db.Pool, "pgqueue")
	for i, name := range []string{
		strings.Repeat("x", 7_999), strings.Repeat("x", 8_000), strings.Repeat("x", 100_000), strings.Repeat("😀", 3_000),
		strings.Repeat("x", 1<<20-len(`{"name":""}`)),
	} {
		queue := fmt.Sprintf("q%d", i)
		id := enqueue(t, client, pool, greet{Name: name}, pgqueue.OnQueue(queue)).ID
		if got := one[string](t, pool, "SELECT payload->>'name' FROM pgqueue.jobs WHERE id = $1", id); got != name {
			t.Fatalf("%d bytes came back as %d", len(name), len(got))
		}
		if got := hints.until(t, db.Pool, "pgqueue"); !slices.Equal(got, []string{queue}) {
			t.Fatalf("hints %q, want only the queue's name", got)
		}
	}
	tx := begin(t, pool, pgx.TxOptions{})
	refused(t, client, tx, counter, "payload", greet{Name: strings.Repeat("x", 1<<20)})
	refused(t, client, tx, counter, "metadata", greet{}, pgqueue.WithMetadata(map[string]any{"x": strings.Repeat("x", 1<<20)}))
	// Eight bytes that Postgres would write out as 131,072.
	refused(t, client, tx, counter, "payload", rawJob("["+strings.Repeat("1e131071,", 9)+"1]"))

	large := newClient(t, pool, pgqueue.WithMaxPayload(32<<20))
	id := enqueue(t, large, pool, greet{Name: strings.Repeat("x", 20<<20)}).ID
	if n := one[int](t, pool, "SELECT length(payload->>'name') FROM pgqueue.jobs WHERE id = $1", id); n != 20<<20 {
		t.Fatalf("%d characters", n)
	}
	// The densest JSON of the largest size is still below jsonb's own limit.
	dense := "[" + strings.Repeat("1,", 16<<20-2) + "1]"
	enqueue(t, large, begin(t, pool, pgx.TxOptions{}), rawJob(dense))
}

func TestC19_RunAt(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool, counter := counted(t, db)
	client := newClient(t, pool)
	kathmandu, err := time.LoadLocation("Asia/Kathmandu")
	if err != nil {
		kathmandu = time.FixedZone("Asia/Kathmandu", 5*3600+45*60) // no zone data on this machine
	}
	now := time.Now()
	for name, at := range map[string]time.Time{
		"past": now.Add(-time.Hour), "soon": now.Add(100 * time.Millisecond), "local": now.In(kathmandu),
		"first": time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC), "last": time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
	} {
		single := enqueue(t, client, pool, greet{}, pgqueue.WithRunAt(at))
		many, err := client.EnqueueMany(testContext(t), pool, []pgqueue.NewJob{{Args: greet{}}, {Args: greet{}, Options: []pgqueue.EnqueueOption{pgqueue.WithRunAt(at)}}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, id := range []int64{single.ID, many[1].ID} {
			if got := one[time.Time](t, pool, "SELECT run_at FROM pgqueue.jobs WHERE id = $1", id); !got.Equal(at.Truncate(time.Microsecond)) {
				t.Fatalf("%s: stored %s, want %s", name, got, at)
			}
		}
	}
	// The zero time is now, on the database's clock, and so is no time at all.
	for _, options := range [][]pgqueue.EnqueueOption{nil, {pgqueue.WithRunAt(time.Time{})}, {pgqueue.WithDelay(0)}} {
		before := one[time.Time](t, pool, "SELECT clock_timestamp()")
		single := enqueue(t, client, pool, greet{}, options...)
		many, err := client.EnqueueMany(testContext(t), pool, []pgqueue.NewJob{{Args: greet{}, Options: options}, {Args: greet{}, Options: options}})
		if err != nil {
			t.Fatal(err)
		}
		after := one[time.Time](t, pool, "SELECT clock_timestamp()")
		for _, id := range []int64{single.ID, many[0].ID, many[1].ID} {
			if got := one[time.Time](t, pool, "SELECT run_at FROM pgqueue.jobs WHERE id = $1", id); got.Before(before) || got.After(after) {
				t.Fatalf("run_at %s, want between %s and %s", got, before, after)
			}
		}
	}
	id := enqueue(t, client, pool, greet{}, pgqueue.WithDelay(90*time.Minute)).ID
	if got := one[float64](t, pool, "SELECT extract(epoch FROM run_at - created_at)::float8 FROM pgqueue.jobs WHERE id = $1", id); got != 5400 {
		t.Fatalf("delayed by %v s, want 5400", got)
	}
	tx := begin(t, pool, pgx.TxOptions{})
	refused(t, client, tx, counter, "run_at", greet{}, pgqueue.WithRunAt(time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)))
	refused(t, client, tx, counter, "run_at", greet{}, pgqueue.WithRunAt(time.Date(10000, 1, 1, 0, 0, 0, 0, kathmandu).AddDate(0, 0, 1)))
	refused(t, client, tx, counter, "run_at", greet{}, pgqueue.WithRunAt(time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC)))
	refused(t, client, tx, counter, "delay", greet{}, pgqueue.WithDelay(-1))
	refused(t, client, tx, counter, "delay", greet{}, pgqueue.WithDelay(1<<63-1))
	refused(t, client, tx, counter, "delay", greet{}, pgqueue.WithDelay(1), pgqueue.WithRunAt(now))
}

func TestC109_EmptyKeys(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool, counter := counted(t, db)
	client := newClient(t, pool)
	tx := begin(t, pool, pgx.TxOptions{})
	refused(t, client, tx, counter, "key", greet{}, pgqueue.WithKey(""))
	refused(t, client, tx, counter, "key", greet{}, pgqueue.WithKey(strings.Repeat("k", 1<<20)))
	refused(t, client, tx, counter, "revision", greet{}, pgqueue.WithRevision("1"))
	for range 5 {
		many, err := client.EnqueueMany(testContext(t), pool, []pgqueue.NewJob{{Args: greet{}}, {Args: greet{}, Options: []pgqueue.EnqueueOption{pgqueue.WithKey(" ")}}})
		if err != nil || len(many) != 2 {
			t.Fatal(many, err)
		}
		enqueue(t, client, pool, greet{})
		enqueue(t, client, pool, greet{}, pgqueue.WithKey(" "))
	}
	if n := one[int](t, pool, "SELECT count(*) FROM pgqueue.jobs WHERE key IS NULL"); n != 10 {
		t.Fatalf("%d jobs without a key, want 10", n)
	}
	if n := one[int](t, pool, "SELECT count(*) FROM pgqueue.jobs WHERE key = ' '"); n != 1 {
		t.Fatalf("%d jobs of one key", n)
	}
	// The longest that is accepted fits into the index.
	enqueue(t, client, pool, pgqueue.Raw{Name: strings.Repeat("😀", 32)}, pgqueue.OnQueue(strings.Repeat("😀", 32)),
		pgqueue.WithKey(strings.Repeat("😀", 128)), pgqueue.WithRevision(strings.Repeat("😀", 128)))
}
