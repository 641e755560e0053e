package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/runner"
)

// The retry policy on the database's clock: 30 s, 2 min, 8 min, 32 min, ±15 %, and the fifth send is the last.
func TestFiveSendsWithGrowingDelays(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{Logger: quiet()})
	insert(t, db.Pool, 1, 1)
	sends := 0
	w := newWorker(t, q, func(context.Context, *task) error {
		sends++
		return runner.Coded("provider_down", runner.Safef("answered 503"))
	})
	for i, want := range []time.Duration{30 * time.Second, 2 * time.Minute, 8 * time.Minute, 32 * time.Minute} {
		if got := drain(t, w); got.Outcomes.Retrying != 1 {
			t.Fatalf("send %d: %+v", i+1, got)
		}
		seconds := one[float64](t, db.Pool, `SELECT extract(epoch FROM next_attempt_at - attempted_at)::float8 FROM app.deliveries`)
		// The delay counts from the report, which is later than the claim.
		if got := time.Duration(seconds * float64(time.Second)); got < want*84/100 || got > want*116/100+10*time.Second {
			t.Errorf("after send %d the row waits %v, want %v ± 15 %%", i+1, got, want)
		}
		if label, err := q.Label(t.Context(), 1); err != nil || label != "retrying" {
			t.Errorf("it is %q, %v", label, err)
		}
		if got := drain(t, w); got.Claimed != 0 {
			t.Errorf("it was sent again before its time: %+v", got)
		}
		exec(t, db.Pool, `UPDATE app.deliveries SET next_attempt_at = now()`)
	}
	if got := drain(t, w); got.Outcomes.Dead != 1 || sends != 5 {
		t.Errorf("the fifth send: %+v, %d sends", got, sends)
	}
	if got := one[string](t, db.Pool, `SELECT concat_ws(' ', status, attempts, error_code, last_error, finished_at IS NOT NULL) FROM app.deliveries`); got !=
		"dead 5 provider_down answered 503 t" {
		t.Errorf("the row is %q", got)
	}
}

// Failed and dead are different answers, and both can be resumed, one or by filter, with a whole budget.
func TestFailedAndDeadAreDifferentAndCanBeResumed(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{MaxAttempts: 1, Logger: quiet()})
	insert(t, db.Pool, 1, 6)
	bad := true
	w := newWorker(t, q, func(_ context.Context, task *task) error {
		switch {
		case !bad:
			return nil
		case strings.HasSuffix(task.Payload.Name, "1"):
			return runner.Permanent(errors.New("no such address"))
		}
		return errors.New("down")
	})
	if got := drain(t, w); got.Outcomes.Failed != 1 || got.Outcomes.Dead != 5 {
		t.Fatalf("%+v", got)
	}
	stats, err := q.Stats(t.Context())
	if err != nil || stats.Failed != 1 || stats.Dead != 5 || stats.Ready != 0 {
		t.Errorf("stats %+v, %v", stats, err)
	}
	for _, key := range []any{1, "2"} {
		if ok, err := q.Resume(t.Context(), key); err != nil || !ok {
			t.Errorf("resume %v: %v, %v", key, ok, err)
		}
	}
	if ok, err := q.Resume(t.Context(), 1); err != nil || ok {
		t.Errorf("resume of a pending row: %v, %v", ok, err)
	}
	if _, err := q.Resume(t.Context(), 1, 2); err == nil {
		t.Error("a key with too many values was taken")
	}
	if n, err := q.ResumeWhere(t.Context(), "t.id > $1 AND t.status = 'dead'", 4); err != nil || n != 2 {
		t.Errorf("resume by filter: %d, %v", n, err)
	}
	if got := one[string](t, db.Pool, `SELECT string_agg(concat_ws(' ', id, status, attempts), ', ' ORDER BY id) FROM app.deliveries`); got !=
		"1 pending 0, 2 pending 0, 3 dead 1, 4 dead 1, 5 pending 0, 6 pending 0" {
		t.Errorf("the rows are %s", got)
	}
	bad = false
	if got := drain(t, w); got.Outcomes.Succeeded != 4 {
		t.Errorf("%+v", got)
	}
	if n, err := q.ResumeWhere(t.Context(), ""); err != nil || n != 2 {
		t.Errorf("resume of all: %d, %v", n, err)
	}
}

// The same key for each delivery of a row, and another for a row that is made again under its key.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	db := database(t)
	s := plain()
	s.create(t, db.Pool)
	insert(t, db.Pool, 1, 2)
	keys := map[string][]string{}
	deliver := func(table outbox.Table[row, result]) {
		q, err := outbox.New(db.Pool, table, outbox.Config{Backoff: runner.Exponential{Base: time.Nanosecond, Max: time.Nanosecond}, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		w := newWorker(t, q, func(_ context.Context, task *task) error {
			keys[task.Payload.Name] = append(keys[task.Payload.Name], outbox.IdempotencyKey(task.Token))
			return errors.New("again")
		})
		for range 2 {
			exec(t, db.Pool, `UPDATE app.deliveries SET next_attempt_at = statement_timestamp()`)
			drain(t, w)
		}
	}
	deliver(s.table())
	first := keys["row 1"]
	if len(first) != 2 || first[0] != first[1] || !strings.HasPrefix(first[0], "app.deliveries/1/") || first[0] == keys["row 2"][0] {
		t.Errorf("keys %v", keys)
	}
	exec(t, db.Pool, `DELETE FROM app.deliveries`)
	insert(t, db.Pool, 1, 1)
	keys = map[string][]string{}
	deliver(s.table())
	if keys["row 1"][0] == first[0] {
		t.Error("a row that was made again has the key of the old one")
	}
	table := s.table()
	table.IdempotencyKey = "'delivery-' || t.id"
	keys = map[string][]string{}
	deliver(table)
	if got := keys["row 1"]; got[0] != "delivery-1" {
		t.Errorf("an expression gave %v", got)
	}
}

// The lease must exceed the worst case of a batch, which follows from handlers, batch and workers.
func TestNewRefusesALeaseThatDoesNotCoverABatch(t *testing.T) {
	t.Parallel()
	db := database(t)
	config := outbox.Config{Workers: 4, Batch: 20, Timeout: 10 * time.Second, CleanUp: 2 * time.Second, StorageTimeout: 5 * time.Second}
	// ⌈20/4⌉+1 rounds of 12 s and 10 s of storage are 82 s; with the margin 91.1 s.
	config.Lease = 91 * time.Second
	_, err := outbox.New(db.Pool, plain().table(), config)
	var refused *outbox.ConfigError
	if !errors.As(err, &refused) || refused.Field != "Lease" || !strings.Contains(err.Error(), "1m31s") || !strings.Contains(err.Error(), "1m31.112s") {
		t.Errorf("a lease of 91 s: %v", err)
	}
	config.Lease = 92 * time.Second
	if _, err := outbox.New(db.Pool, plain().table(), config); err != nil {
		t.Errorf("a lease of 92 s: %v", err)
	}
	leased := plain()
	leased.lease = true
	config.Lease, config.StorageTimeout = 30*time.Second, 0
	if _, err := outbox.New(db.Pool, leased.table(), config); err != nil {
		t.Errorf("with a column for the lease: %v", err)
	}
	config.Lease = 0
	config.Batch, config.Timeout = 10_000, 2*time.Hour
	if q, err := outbox.New(db.Pool, plain().table(), config); err != nil || q.RunnerConfig().Lease < 2501*2*time.Hour {
		t.Errorf("the largest batch: %v", err)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	db := database(t)
	for field, change := range map[string]func(*outbox.Table[row, result], *outbox.Config){
		"Table.Name":           func(t *outbox.Table[row, result], _ *outbox.Config) { t.Name = nil },
		"Table.Key":            func(t *outbox.Table[row, result], _ *outbox.Config) { t.Key = nil },
		"Table.Key[0].Type":    func(t *outbox.Table[row, result], _ *outbox.Config) { t.Key[0].Type = "bigint; DROP TABLE x" },
		"Table.Attempts":       func(t *outbox.Table[row, result], _ *outbox.Config) { t.Attempts = "" },
		"Table.CreatedAt":      func(t *outbox.Table[row, result], _ *outbox.Config) { t.CreatedAt = strings.Repeat("x", 64) },
		"Table.Failures":       func(t *outbox.Table[row, result], _ *outbox.Config) { t.Failures = "attempts" },
		"Table.Status.Dead":    func(t *outbox.Table[row, result], _ *outbox.Config) { t.Status.Dead = "failed" },
		"Table.Status.Pending": func(t *outbox.Table[row, result], _ *outbox.Config) { t.Status.Pending = "" },
		"Table.Columns":        func(t *outbox.Table[row, result], _ *outbox.Config) { t.Columns = nil },
		"Table.Scan":           func(t *outbox.Table[row, result], _ *outbox.Config) { t.Scan = nil },
		"Kinds":                func(_ *outbox.Table[row, result], c *outbox.Config) { c.Kinds = []runner.KindConfig{{Name: "a"}} },
		"Classes":              func(_ *outbox.Table[row, result], c *outbox.Config) { c.Classes = []runner.Class{1} },
		"Batch":                func(_ *outbox.Table[row, result], c *outbox.Config) { c.Batch = -1 },
		"Timeout":              func(_ *outbox.Table[row, result], c *outbox.Config) { c.Timeout = -1 },
		"StopTimeout":          func(_ *outbox.Table[row, result], c *outbox.Config) { c.StopTimeout = 1 << 62 },
	} {
		table, config := plain().table(), outbox.Config{}
		change(&table, &config)
		var refused *outbox.ConfigError
		if _, err := outbox.New(db.Pool, table, config); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// A join that finds nothing, or several rows, fails that row alone, and so do an error and a panic of Scan.
func TestUndecodableRowsFailAlone(t *testing.T) {
	t.Parallel()
	db := database(t)
	s := plain()
	s.join = true
	s.create(t, db.Pool)
	insert(t, db.Pool, 1, 5)
	exec(t, db.Pool, `INSERT INTO app.notes VALUES ('row 1', 'fine'), ('row 3', 'one'), ('row 3', 'two'), ('row 4', 'panic'), ('row 5', NULL)`)
	table := s.table()
	table.Scan = func(from pgx.CollectableRow) (row, error) {
		r, err := pgx.RowToStructByName[row](from)
		if r.Body == "panic" {
			panic("in Scan")
		}
		return r, err
	}
	q, err := outbox.New(db.Pool, table, outbox.Config{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker(t, q, func(_ context.Context, task *task) error {
		if task.Payload.Body != "fine" {
			return fmt.Errorf("handled %+v", task.Payload)
		}
		return nil
	})
	drain(t, w)
	if got := one[string](t, db.Pool, `SELECT string_agg(concat_ws(' ', id, status, error_code), ', ' ORDER BY id) FROM app.deliveries`); got !=
		"1 delivered, 2 pending undecodable, 3 pending undecodable, 4 pending undecodable, 5 pending undecodable" {
		t.Errorf("the rows are %s", got)
	}
}
