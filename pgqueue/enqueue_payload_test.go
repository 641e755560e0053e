package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// payloadSeeds are texts at the edges of what JSON, encoding/json and jsonb take.
func payloadSeeds() []string {
	seeds := []string{
		``, `null`, `{}`, `[]`, `""`, `0`, `-0`, `true`, ` {"a" : [1, 2 , {"b":null}]} `, `{"a":1,"a":2}`, `{"":0}`,
		`{"a":"\u0000"}`, `{"a\u0000":1}`, `"\\u0000"`, `"\\\u0000"`, `"\\\\u0000"`, `"\u0001\u001f\u007f"`,
		`"\ud800"`, `"\udc00"`, `"\ud800\udc00"`, `"\ud800\ud800"`, `"\ud83d\ude00"`, `"\uD800x"`, `"\ud800\n"`, `"\ud800\\udc00"`,
		`"\udbff\udfff"`, `"\ufffd"`, `"\uffff\ufffe"`, "\"\uFFFD\"", "\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"", "\"\xf4\x90\x80\x80\"",
		"\"\x00\"", "\"\n\"", `"`, `{`, `[1,]`, `{"a"}`, `nul`, `01`, `1.`, `.5`, `+1`, `1e`, `NaN`, `Infinity`, `"\x"`, `"\u12"`,
		`1e131071`, `1e131072`, `-9e131071`, `1e-16383`, `1e-16384`, `12e-16382`, `1.5e-16382`, `1.5e-16383`, `10e131071`, `0e131071`, `0e400000`, `1e400000`,
		`1e-400000`, `1E+5`, `1e99999999999999999999`, `1e-99999999999999999999`, `0.000e131075`, `9007199254740993`,
		"1" + strings.Repeat("0", 131_071), "1" + strings.Repeat("0", 131_072),
		"0." + strings.Repeat("0", 16_382) + "1", "0." + strings.Repeat("0", 16_383) + "1",
		"\ufeff{}", "\u00a0{}", "{}\x00",
	}
	for _, depth := range []int{9_999, 10_000, 10_001, 12_000} {
		seeds = append(seeds, strings.Repeat("[", depth)+strings.Repeat("]", depth),
			strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth))
	}
	return seeds
}

// tryPayload enqueues a payload in both ways; whatever is accepted, Postgres must store, and the transaction must go on.
func tryPayload(t *testing.T, client *pgqueue.Client, tx pgx.Tx, payload []byte) (accepted bool) {
	t.Helper()
	args := pgqueue.Raw{Name: "fuzz", Payload: payload}
	var invalid *pgqueue.ValidationError
	_, err := client.Enqueue(testContext(t), tx, args)
	if err != nil && !errors.As(err, &invalid) {
		t.Fatalf("accepted here and refused by Postgres: %.200q: %v", payload, err)
	}
	_, many := client.EnqueueMany(testContext(t), tx, []pgqueue.NewJob{{Args: args}, {Args: greet{}}})
	if (err == nil) != (many == nil) {
		t.Fatalf("the two ways differ on %.200q: %v, %v", payload, err, many)
	}
	// As metadata, the same rules hold for an object.
	_, asMetadata := client.Enqueue(testContext(t), tx, greet{}, pgqueue.WithMetadata(args.Payload))
	if asMetadata != nil && !errors.As(asMetadata, &invalid) {
		t.Fatalf("metadata: accepted here and refused by Postgres: %.200q: %v", payload, asMetadata)
	}
	return err == nil
}

// The seeds run against Postgres with the ordinary tests; with -fuzz=FuzzPayload others are looked for.
func FuzzPayload(f *testing.F) {
	for _, seed := range payloadSeeds() {
		f.Add([]byte(seed))
	}
	db := pgqueuetest.New(f)
	client := newClient(f, db.Pool, pgqueue.WithoutHints())
	f.Fuzz(func(t *testing.T, payload []byte) {
		tx, err := db.Pool.Begin(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		tryPayload(t, client, tx, payload)
	})
}

// The edges are where they are said to be: not only safe, but no narrower than needed.
func TestPayloadEdges(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	tx := begin(t, db.Pool, pgx.TxOptions{})
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for payload, want := range map[string]bool{
		`1e131071`: true, `1e131072`: false, `1e-16383`: true, `1e-16384`: false, `12e-16382`: true, `1.5e-16382`: true, `1.5e-16383`: false,
		"1" + strings.Repeat("0", 131_071): true, "1" + strings.Repeat("0", 131_072): false,
		deep(10_000): true, deep(10_001): false, `"\ud83d\ude00"`: true, `"\ud83d"`: false, `"\\u0000"`: true, `"\u0000"`: false, "\u00a0{}": false,
	} {
		if got := tryPayload(t, client, tx, []byte(payload)); got != want {
			t.Errorf("%.40q: accepted %t, want %t", payload, got, want)
		}
		if !want && len(payload) < 100_000 && payload != deep(10_001) && payload != "\u00a0{}" {
			// What is refused, Postgres refuses too.
			sub, err := tx.Begin(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sub.Exec(testContext(t), "SELECT $1::text::jsonb", payload); err == nil {
				t.Errorf("%.40q: refused here and accepted by Postgres", payload)
			}
			if err := sub.Rollback(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
	}

	// Depth that only Go values have: json.Marshal writes it, no handler could read it.
	var value any = 1
	for range 10_001 {
		value = []any{value}
	}
	_, err := client.Enqueue(testContext(t), tx, nested{Items: []map[string]any{{"deep": value}}})
	requireInvalid(t, err, "payload")
	_, err = client.Enqueue(testContext(t), tx, nested{Items: []map[string]any{{"f": func() {}}}})
	requireInvalid(t, err, "payload")
	for _, metadata := range []any{[]int{1}, "x", 1, []byte("{}")} {
		_, err = client.Enqueue(testContext(t), tx, greet{}, pgqueue.WithMetadata(metadata))
		requireInvalid(t, err, "metadata")
	}
}

// withDefaults gives options to all its jobs.
type withDefaults struct {
	ID int `json:"id"`
}

func (withDefaults) Kind() string { return "with_defaults" }
func (d withDefaults) EnqueueOptions() []pgqueue.EnqueueOption {
	return []pgqueue.EnqueueOption{
		pgqueue.OnQueue("typed"), pgqueue.WithKey(fmt.Sprint(d.ID)), pgqueue.WithPriority(pgqueue.PriorityCatchUp), pgqueue.WithDelay(100), nil,
	}
}

func TestDefaultOptions(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	const row = "SELECT queue || '|' || key || '|' || priority FROM pgqueue.jobs WHERE id = $1"
	id := enqueue(t, client, db.Pool, withDefaults{ID: 7}).ID
	if got := one[string](t, db.Pool, row, id); got != "typed|7|4" {
		t.Fatalf("stored %s", got)
	}
	id = enqueue(t, client, db.Pool, (*withDefaults)(nil), pgqueue.WithPriority(2), pgqueue.WithRunAt(one[time.Time](t, db.Pool, "SELECT now()"))).ID
	if got := one[string](t, db.Pool, row, id); got != "typed|0|2" {
		t.Fatalf("stored %s", got)
	}
}

func TestValidation(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool, counter := counted(t, db)
	client := newClient(t, pool)
	tx := begin(t, pool, pgx.TxOptions{})
	many := make([]string, 101)
	for i := range many {
		many[i] = "tag"
	}
	for _, c := range []struct {
		field  string
		option pgqueue.EnqueueOption
	}{
		{"queue", pgqueue.OnQueue("")},
		{"queue", pgqueue.OnQueue(strings.Repeat("q", 129))},
		{"priority", pgqueue.WithPriority(0)},
		{"priority", pgqueue.WithPriority(5)},
		{"priority", pgqueue.WithPriority(1 + 1<<16)},
		{"max_attempts", pgqueue.WithMaxAttempts(0)},
		{"max_attempts", pgqueue.WithMaxAttempts(32_768)},
		{"max_attempts", pgqueue.WithMaxAttempts(1 + 1<<16)},
		{"tags", pgqueue.WithTags(many...)},
		{"tags[1]", pgqueue.WithTags("ok", "")},
		{"tags[0]", pgqueue.WithTags(strings.Repeat("t", 256))},
		{"key", pgqueue.WithKey(strings.Repeat("k", 513))},
	} {
		refused(t, client, tx, counter, c.field, greet{}, c.option)
	}
	refused(t, client, tx, counter, "revision", greet{}, pgqueue.WithKey("k"), pgqueue.WithRevision(""))
	refused(t, client, tx, counter, "revision", greet{}, pgqueue.WithKey("k"), pgqueue.WithRevision(strings.Repeat("r", 513)))
	refused(t, client, tx, counter, "kind", pgqueue.Raw{})
	refused(t, client, tx, counter, "kind", pgqueue.Raw{Name: strings.Repeat("k", 129)})
}
