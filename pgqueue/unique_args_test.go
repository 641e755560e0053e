package pgqueue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// payload is a job of arguments by hand.
func payload(text string) pgqueue.Raw {
	return pgqueue.Raw{Name: "pay", Payload: json.RawMessage(text)}
}

// wordy is the same arguments as a struct.
type wordy struct {
	B int    `json:"b"`
	A int    `json:"a"`
	X *int   `json:"x,omitempty"`
	S string `json:"s,omitempty"`
}

func (wordy) Kind() string { return "pay" }

// mapped is the same arguments as a map.
type mapped map[string]int

func (mapped) Kind() string { return "pay" }

// producers are the ways to enqueue one job that is unique by its arguments.
func producers(t *testing.T, db *pgqueuetest.DB, client *pgqueue.Client) map[string]func(queue string, args pgqueue.Args) pgqueue.Enqueued {
	rule := pgqueue.WithUnique(pgqueue.Unique{Keep: day})
	return map[string]func(string, pgqueue.Args) pgqueue.Enqueued{
		"Enqueue": func(queue string, args pgqueue.Args) pgqueue.Enqueued {
			return enqueue(t, client, db.Pool, args, rule, pgqueue.OnQueue(queue))
		},
		"EnqueueMany": func(queue string, args pgqueue.Args) pgqueue.Enqueued {
			many, err := client.EnqueueMany(testContext(t), db.Pool, []pgqueue.NewJob{{Args: args, Options: []pgqueue.EnqueueOption{rule, pgqueue.OnQueue(queue)}}})
			if err != nil {
				t.Fatal(err)
			}
			return many[0]
		},
		"SQL": func(queue string, args pgqueue.Args) pgqueue.Enqueued {
			text, err := json.Marshal(args)
			if raw, ok := args.(pgqueue.Raw); ok {
				text = raw.Payload
			}
			if err != nil {
				t.Fatal(err)
			}
			return enqueueSQL(t, db.Pool, "kind => 'pay', unique_by => 'args', keep => '1 day', queue => $1, payload => $2", queue, string(text))
		},
	}
}

// enqueueSQL calls the function of the schema.
func enqueueSQL(t testing.TB, q interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, arguments string, args ...any) pgqueue.Enqueued {
	t.Helper()
	rows, err := q.Query(testContext(t), "SELECT id, outcome, coalesce(state, '') FROM pgqueue.enqueue_unique("+arguments+")", args...)
	if err != nil {
		t.Fatal(err)
	}
	var got pgqueue.Enqueued
	var outcome, state string
	if _, err := pgx.ForEachRow(rows, []any{&got.ID, &outcome, &state}, func() error { return nil }); err != nil {
		t.Fatalf("%s: %v", arguments, err)
	}
	for _, known := range []pgqueue.EnqueueOutcome{pgqueue.Inserted, pgqueue.Replaced, pgqueue.Same, pgqueue.Duplicate} {
		if known.String() == outcome {
			got.Outcome = known
		}
	}
	got.State = pgqueue.JobState(state)
	return got
}

// C108: what is the same and what is not, in both orders, whoever enqueues first and second.
func TestC108_UniqueByArgsHasOneVerdict(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	twenty := mapped{}
	for i := range 20 {
		twenty[fmt.Sprint("key", i)] = i
	}
	pairs := []struct {
		a, b  pgqueue.Args
		equal bool
	}{
		{payload(`{"a":1,"b":2}`), payload(`{"b":2,"a":1}`), true},
		{payload(`{"a":1,"b":2}`), payload(" {\n\"b\" : 2 , \"a\":1}"), true},
		{wordy{A: 1, B: 2}, mapped{"a": 1, "b": 2}, true},
		{twenty, twenty, true},
		{payload(`{"s":"<é>"}`), payload(`{"s":"\u003c\u00e9\u003E"}`), true},
		{payload(`{"n":100}`), payload(`{"n":1e2}`), true},
		{payload(`{"a":1,"a":2}`), payload(`{"a":2}`), true},
		{payload(``), payload(`null`), true},
		{payload(`{}`), payload(`null`), true},

		{payload(`{"id":1}`), payload(`{"id":1,"x":null}`), false},
		{payload(`{"id":1}`), payload(`{"id":"1"}`), false},
		{payload(`{"id":1}`), payload(`{"id":1.0}`), false}, // documented
		{payload(`{"id":9007199254740992}`), payload(`{"id":9007199254740993}`), false},
		{payload(`[1,2]`), payload(`[2,1]`), false},
		{payload(`{"a":{"b":1}}`), payload(`{"a.b":1}`), false},
		{payload(`{"a":[]}`), payload(`{"a":{}}`), false},
		{payload(`{"a":""}`), payload(`{"a":null}`), false},
		{payload(`{"a":"é"}`), payload(`{"a":"e\u0301"}`), false},
	}
	ways := producers(t, db, client)
	round := 0
	for i, pair := range pairs {
		for first, by1 := range ways {
			for second, by2 := range ways {
				for _, swapped := range []bool{false, true} {
					a, b := pair.a, pair.b
					if swapped {
						a, b = b, a
					}
					if (first == "SQL" || second == "SQL") && (emptyText(a) || emptyText(b)) {
						continue // no JSON
					}
					round++
					queue := fmt.Sprint("q", round)
					one, two := by1(queue, a), by2(queue, b)
					if one.Outcome != pgqueue.Inserted || (two.Outcome == pgqueue.Duplicate) != pair.equal || (two.ID == one.ID) != pair.equal {
						t.Errorf("pair %d: %s by %s, then %s by %s: %s, want equal %t", i, show(a), first, show(b), second, two.Outcome, pair.equal)
					}
				}
			}
		}
	}
	for range 100 {
		enqueue(t, client, db.Pool, twenty, pgqueue.WithUnique(pgqueue.Unique{Keep: day}), pgqueue.OnQueue("a hundred"))
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs WHERE queue = 'a hundred'"); n != 1 {
		t.Errorf("a map gave %d identities in 100 runs", n)
	}
}

func emptyText(args pgqueue.Args) bool {
	raw, ok := args.(pgqueue.Raw)
	return ok && len(bytes.TrimSpace(raw.Payload)) == 0
}

func show(args pgqueue.Args) string {
	if raw, ok := args.(pgqueue.Raw); ok {
		return string(raw.Payload)
	}
	text, err := json.Marshal(args)
	return fmt.Sprint(string(text), err)
}

// Members that are named are all that counts, and the first job keeps the rest of its payload.
func TestUniqueByMembers(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	for i, c := range []struct {
		members []string
		a, b    string
		equal   bool
	}{
		{[]string{"id"}, `{"id":1,"at":1}`, `{"at":2,"id":1}`, true},
		{[]string{"id"}, `{"id":1}`, `{"id":2}`, false},
		{[]string{"id", "at"}, `{"id":1,"at":1}`, `{"id":1,"at":2}`, false},
		{[]string{"/user/id"}, `{"user":{"id":1,"x":1}}`, `{"user":{"id":1,"x":2}}`, true},
		{[]string{"/user/id"}, `{"user":{"id":1}}`, `{"user":{"id":2}}`, false},
		{[]string{"/user/id"}, `{"user":{"id":1}}`, `{"/user/id":1}`, false},
		{[]string{"/items/0"}, `{"items":[1,2]}`, `{"items":[1,3]}`, true},
		{[]string{"/items/1"}, `{"items":[1,2]}`, `{"items":[1,3]}`, false},
		{[]string{"x"}, `{"x":null}`, `{}`, false},
		{[]string{"x"}, `{"y":1}`, `{"y":2}`, true}, // both have none
		{[]string{"a.b"}, `{"a.b":1,"a":{"b":1}}`, `{"a.b":1,"a":{"b":2}}`, true},
		{[]string{"a/b"}, `{"a~1b":1,"a/b":1}`, `{"a~1b":2,"a/b":1}`, true},
		{[]string{"x"}, `[1]`, `"text"`, true},
	} {
		for name, keep := range map[string]pgqueue.Unique{"live": {Args: c.members}, "kept": {Args: c.members, Keep: day}} {
			for _, sqlFirst := range []bool{false, true} {
				queue := fmt.Sprint(name, i, sqlFirst)
				inGo := func(text string) pgqueue.Enqueued {
					return enqueue(t, client, db.Pool, payload(text), pgqueue.WithUnique(keep), pgqueue.OnQueue(queue))
				}
				inSQL := func(text string) pgqueue.Enqueued {
					var kept *string
					if keep.Keep != 0 {
						kept = ptr("1 day")
					}
					return enqueueSQL(t, db.Pool, "kind => 'pay', unique_by => 'args', members => $1, keep => $2::text::interval, queue => $3, payload => $4",
						c.members, kept, queue, text)
				}
				first, second := inGo, inSQL
				if sqlFirst {
					first, second = inSQL, inGo
				}
				a := first(c.a)
				b := second(c.b)
				if (b.Outcome == pgqueue.Duplicate) != c.equal || (a.ID == b.ID) != c.equal {
					t.Errorf("%s, members %q of %s and %s: %+v, %+v", queue, c.members, c.a, c.b, a, b)
				}
				if stored := one[string](t, db.Pool, "SELECT (payload = $2::jsonb)::text FROM pgqueue.jobs WHERE id = $1", a.ID, c.a); stored != "true" {
					t.Errorf("%s: the first job has another payload now", queue)
				}
			}
		}
	}
}

func ptr[T any](value T) *T { return &value }

// The first of a batch counts, and an old snapshot changes nothing either, where the payloads differ in what does not count.
func TestADuplicateNeverChangesTheFirst(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	rule := []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Args: []string{"id"}}), pgqueue.WithPriority(3)}
	many, err := client.EnqueueMany(testContext(t), db.Pool, []pgqueue.NewJob{
		{Args: payload(`{"id":1,"n":1}`), Options: rule}, {Args: payload(`{"id":1,"n":2}`), Options: rule},
	})
	if err != nil {
		t.Fatal(err)
	}
	requireOutcome(t, many[0], pgqueue.Inserted)
	requireDuplicate(t, many[1], many[0].ID, pgqueue.JobPending)
	tx := begin(t, db.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	requireDuplicate(t, enqueue(t, client, tx, payload(`{"id":1,"n":3}`), pgqueue.WithUnique(pgqueue.Unique{Args: []string{"id"}}), pgqueue.WithPriority(1),
		pgqueue.WithTags("x"), pgqueue.WithMetadata(map[string]int{"x": 1}), pgqueue.WithMaxAttempts(9)), many[0].ID, pgqueue.JobPending)
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if stored := one[string](t, db.Pool, "SELECT concat_ws(' ', payload->>'n', priority, tags::text, metadata::text, max_attempts, generation) FROM pgqueue.jobs"); stored != "1 3 {} {} 3 1" {
		t.Error(stored)
	}
}

// A job that was asked to stop is no reason to drop the next one: it runs again after it has stopped.
func TestALiveJobThatIsBeingCancelledRunsAgain(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	first := enqueue(t, client, db.Pool, greet{}, pgqueue.WithUnique(pgqueue.Unique{}))
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_generation = 1, claimed_at = now(), lease_expires_at = now() + interval '1 hour', cancel_requested_at = now()")
	again := enqueue(t, client, db.Pool, greet{}, pgqueue.WithUnique(pgqueue.Unique{}))
	if again.ID != first.ID || again.Outcome != pgqueue.Replaced {
		t.Errorf("%+v", again)
	}
	if generation := one[int](t, db.Pool, "SELECT generation FROM pgqueue.jobs WHERE cancel_requested_at IS NULL"); generation != 2 {
		t.Errorf("generation %d", generation)
	}
	requireDuplicate(t, enqueue(t, client, db.Pool, greet{}, pgqueue.WithUnique(pgqueue.Unique{})), first.ID, pgqueue.JobRunning)
}

// IgnoreArgs is one job of the kind; a type may say so for all of its jobs, and a call may say otherwise.
func TestTheTypesRuleAndTheCalls(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	first := enqueue(t, client, db.Pool, nightly{1})
	requireDuplicate(t, enqueue(t, client, db.Pool, nightly{2}), first.ID, pgqueue.JobPending)
	requireOutcome(t, enqueue(t, client, db.Pool, nightly{2}, pgqueue.WithIdempotencyKey("k", day)), pgqueue.Inserted)
	requireOutcome(t, enqueue(t, client, db.Pool, nightly{2}, pgqueue.WithUnique(pgqueue.Unique{})), pgqueue.Inserted)
	_, err := client.Enqueue(testContext(t), db.Pool, nightly{2}, pgqueue.WithIdempotencyKey("k", day), pgqueue.WithThrottle(day))
	requireInvalid(t, err, "unique")

	// The same through middleware, which sees all options as one.
	wrapped := newClient(t, db.Pool, pgqueue.WithEnqueueMiddleware(func(next pgqueue.EnqueueFunc) pgqueue.EnqueueFunc { return next }))
	requireDuplicate(t, enqueue(t, wrapped, db.Pool, nightly{3}), first.ID, pgqueue.JobPending)
	requireOutcome(t, enqueue(t, wrapped, db.Pool, nightly{3}, pgqueue.WithIdempotencyKey("l", day)), pgqueue.Inserted)
}

type nightly struct{ N int }

func (nightly) Kind() string { return "nightly" }
func (nightly) EnqueueOptions() []pgqueue.EnqueueOption {
	return []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{IgnoreArgs: true})}
}
