package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// What a DBA writes takes effect, with any scheduler that runs.
func TestPlainSQLTakesEffectWithinAPoll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	start(t, w.scheduler(Config{Poll: 50 * time.Millisecond}))
	w.exec(`INSERT INTO pgqueue.schedules (name, spec, time_zone, kind, payload, updated_at) VALUES ('s', '0 3 * * *', 'Europe/Copenhagen', 'invoices', '{"month": "may"}', '2021-01-01 00:00:30Z')`)
	next := func(want string) {
		t.Helper()
		until(t, "next_run_at "+want, func() bool { return w.stored("s").NextRunAt.Equal(at(want)) })
	}
	next("2021-01-01T02:00:00Z")
	w.exec("UPDATE pgqueue.schedules SET spec = '0 4 * * *' WHERE name = 's'")
	next("2021-01-01T03:00:00Z")
	w.exec("UPDATE pgqueue.schedules SET time_zone = 'America/New_York' WHERE name = 's'")
	next("2021-01-01T09:00:00Z")
	// What makes no sense is told, and nothing else is disturbed.
	w.exec("UPDATE pgqueue.schedules SET time_zone = 'Mars/Base' WHERE name = 's'")
	w.exec("INSERT INTO pgqueue.schedules (name, spec, kind) VALUES ('bad spec', '61 * * * *', 'invoices'), ('bad range', '0 0 30 2 *', 'invoices')")
	for name, want := range map[string]string{"s": `time_zone "Mars/Base" is no time zone`, "bad spec": "is out of range", "bad range": "matches no day"} {
		until(t, "last_error of "+name, func() bool { return strings.Contains(w.stored(name).LastError, want) })
	}
	w.exec("UPDATE pgqueue.schedules SET time_zone = 'UTC', spec = '1 0 * * *' WHERE name = 's'") // mended: at once
	next("2021-01-01T00:01:00Z")
	if got := w.stored("s"); got.LastError != "" || got.Failures != 0 {
		t.Errorf("%+v", got)
	}
	w.setClock(at("2021-01-01T00:01:00Z"))
	until(t, "the job", func() bool { return len(pgqueuetest.Enqueued[invoices](t, w.db.Pool)) == 1 })
	pgqueuetest.RequireEnqueued[invoices](t, w.db.Pool, pgqueuetest.WithArgs(invoices{Month: "may"}))
	// Now, and it counts as a tick; the ones of the specification stay.
	w.setClock(at("2021-01-01T00:01:30Z"))
	w.exec("UPDATE pgqueue.schedules SET next_run_at = '2021-01-01 00:01:29.5Z' WHERE name = 's'")
	until(t, "the tick", func() bool { return w.stored("s").LastRunAt.Equal(at("2021-01-01T00:01:29.5Z")) })
	next("2021-01-02T00:01:00Z")
	if n := len(pgqueuetest.Enqueued[invoices](t, w.db.Pool)); n != 2 {
		t.Errorf("%d jobs", n)
	}
}

// A bad payload by SQL, on a kind or queue that an enqueue refuses.
func TestWhatAnEnqueueRefusesIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	w.exec(`INSERT INTO pgqueue.schedules (name, spec, kind, tags, updated_at) VALUES ('bad', '* * * * *', 'invoices', '{""}', '2021-01-01 00:00:30Z'), ('good', '* * * * *', 'invoices', '{}', '2021-01-01 00:00:30Z')`)
	s := w.scheduler(Config{})
	tick(t, s)
	w.setClock(at("2021-01-01T00:01:00Z"))
	result, err := s.Tick(t.Context())
	if err != nil || len(result.Ticks) != 1 || result.Ticks[0].Schedule != "good" || !errors.Is(result.Failed["bad"], pgqueue.ErrInvalid) {
		t.Errorf("%+v %v", result, err)
	}
	if got := w.stored("bad"); !strings.Contains(got.LastError, "tags[0] must not be empty") || got.Failures != 1 {
		t.Errorf("%+v", got)
	}
	// Later, by its backoff, and not before.
	result, err = s.Tick(t.Context())
	if err != nil || len(result.Failed) != 0 {
		t.Errorf("%+v %v", result, err)
	}
	w.setClock(at("2021-01-01T00:01:01Z"))
	result, err = s.Tick(t.Context())
	if err != nil || len(result.Failed) != 1 || w.stored("bad").Failures != 2 {
		t.Errorf("%+v %v", result, err)
	}
	w.exec("UPDATE pgqueue.schedules SET tags = '{x}' WHERE name = 'bad'")
	wantTexts(t, "mended", events(tick(t, s).Ticks), "2021-01-01T00:01:00Z")
}

func TestEditor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	ctx, pool, e := t.Context(), w.db.Pool, w.editor
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s := w.scheduler(Config{})
	put := Schedule{Name: "s", Spec: "@daily", Args: invoices{Month: "june"}, CatchUp: All, Jitter: time.Minute, Options: []pgqueue.EnqueueOption{pgqueue.WithKey("k"), pgqueue.WithTags("a", "b")}}
	if inserted, err := e.Put(ctx, pool, put); err != nil || !inserted {
		t.Fatal(inserted, err)
	}
	tick(t, s)
	got := w.stored("s")
	if got.Spec != "@daily" || got.TimeZone != "UTC" || got.Kind != "invoices" || got.Queue != "default" || got.Key != "k" || got.Priority != 1 || got.MaxAttempts != 3 ||
		string(got.Payload) != `{"month": "june"}` || got.CatchUp != All || got.CatchUpLimit != 100 || got.Jitter != time.Minute || !got.Enabled || got.Source != "" ||
		strings.Join(got.Tags, " ") != "a b" || !got.NextRunAt.Equal(at("2021-01-02T00:00:00Z")) {
		t.Errorf("%+v", got)
	}
	must(e.Disable(ctx, pool, "s"))
	put.Spec = "@hourly"
	w.setClock(at("2021-01-01T00:00:31Z"))
	if inserted, err := e.Put(ctx, pool, put); err != nil || inserted {
		t.Fatal(inserted, err)
	}
	w.setClock(at("2021-01-05T12:30:00Z"))
	tick(t, s)
	if got := w.stored("s"); got.Enabled || got.Spec != "@hourly" || !got.NextRunAt.IsZero() {
		t.Errorf("it rests: %+v", got)
	}
	// In a transaction of the caller's: true with its commit.
	tx, err := pool.Begin(ctx)
	must(err)
	must(e.Enable(ctx, tx, "s"))
	w.setClock(at("2021-01-05T12:30:01Z"))
	must(e.SetSpec(ctx, tx, "s", "15 * * * *", "Asia/Kathmandu"))
	wantTexts(t, "before the commit", events(tick(t, s).Ticks))
	must(tx.Commit(ctx))
	wantTexts(t, "what it rested through is not caught up", events(tick(t, s).Ticks))
	if got := w.stored("s"); !got.NextRunAt.Equal(at("2021-01-05T13:30:00Z")) {
		t.Errorf("%+v", got)
	}
	// A job beside the ticks.
	tx, err = pool.Begin(ctx)
	must(err)
	if _, err := e.TriggerNow(ctx, tx, "s"); err != nil {
		t.Fatal(err)
	}
	must(tx.Rollback(ctx))
	pgqueuetest.RequireNotEnqueued[invoices](t, pool)
	triggered, err := e.TriggerNow(ctx, pool, "s")
	must(err)
	pgqueuetest.RequireEnqueued[invoices](t, pool, pgqueuetest.WithKey("k"), pgqueuetest.WithTag("b"))
	if metadata := value[string](w, "SELECT metadata::text FROM pgqueue.jobs WHERE id = $1", triggered.ID); metadata != `{"schedule": "s"}` {
		t.Errorf("metadata %s", metadata)
	} else if _, ok := TickOf(json.RawMessage(metadata)); ok {
		t.Error("it has a tick")
	}
	if got := w.stored("s"); !got.NextRunAt.Equal(at("2021-01-05T13:30:00Z")) || !got.LastRunAt.IsZero() {
		t.Errorf("%+v", got)
	}
	w.setClock(at("2021-01-05T14:31:00Z"))
	tick(t, s)
	past, err := e.Ticks(ctx, pool, "s", time.Time{}, 0)
	if err != nil || len(past) != 2 || !past[0].At.Equal(at("2021-01-05T14:30:00Z")) || past[0].JobID == 0 {
		t.Errorf("%v %v", past, err)
	}
	if past, err = e.Ticks(ctx, pool, "s", at("2021-01-05T14:30:00Z"), 1); err != nil || len(past) != 1 || !past[0].At.Equal(at("2021-01-05T13:30:00Z")) {
		t.Errorf("%v %v", past, err)
	}
	must(e.Delete(ctx, pool, "s"))
	for what, err := range map[string]error{
		"get": func() error { _, err := e.Get(ctx, pool, "s"); return err }(), "delete": e.Delete(ctx, pool, "s"), "enable": e.Enable(ctx, pool, "s"),
		"set spec": e.SetSpec(ctx, pool, "s", "@daily", ""), "trigger": func() error { _, err := e.TriggerNow(ctx, pool, "s"); return err }(),
	} {
		if !errors.Is(err, ErrNoSchedule) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestEditorRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	ctx, pool, e := t.Context(), w.db.Pool, w.editor
	fn := func(context.Context, Tick) (pgqueue.Args, error) { return invoices{}, nil }
	var refused *ConfigError
	for field, s := range map[string]Schedule{
		"spec": {Name: "s", Spec: "@every 0s", Args: invoices{}}, "time_zone": {Name: "s", Spec: "@daily", TimeZone: "Mars/Base", Args: invoices{}},
		"args_func": {Name: "s", Spec: "@daily", Args: invoices{}, ArgsFunc: fn},
	} {
		if _, err := e.Put(ctx, pool, s); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, err := range []error{e.SetSpec(ctx, pool, "s", "* *", ""), e.SetSpec(ctx, pool, "s", "@daily", "Mars/Base"), e.Delete(ctx, pool, "")} {
		if !errors.As(err, &refused) {
			t.Errorf("%v", err)
		}
	}
	tick(t, w.scheduler(Config{Source: "a", Schedules: []Schedule{{Name: "f", Spec: "@daily", Args: invoices{}, ArgsFunc: fn}}}))
	if _, err := e.TriggerNow(ctx, pool, "f"); !errors.Is(err, ErrNeedsProgram) {
		t.Errorf("%v", err)
	}
}

// What is wrong with a call is told before any SQL: no querier, names that Postgres does not take, pages of less than nothing.
func TestEditorRefusesCallsThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	ctx, e := t.Context(), w.editor
	var none *pgxpool.Pool
	nul := "a\x00b"
	calls := map[string]func(q pgqueue.Querier, name string, limit int) error{
		"put": func(q pgqueue.Querier, name string, _ int) error {
			_, err := e.Put(ctx, q, Schedule{Name: name, Spec: "@daily", Args: invoices{}})
			return err
		},
		"get":      func(q pgqueue.Querier, name string, _ int) error { _, err := e.Get(ctx, q, name); return err },
		"trigger":  func(q pgqueue.Querier, name string, _ int) error { _, err := e.TriggerNow(ctx, q, name); return err },
		"set spec": func(q pgqueue.Querier, name string, _ int) error { return e.SetSpec(ctx, q, name, "@daily", "") },
		"enable":   func(q pgqueue.Querier, name string, _ int) error { return e.Enable(ctx, q, name) },
		"disable":  func(q pgqueue.Querier, name string, _ int) error { return e.Disable(ctx, q, name) },
		"delete":   func(q pgqueue.Querier, name string, _ int) error { return e.Delete(ctx, q, name) },
		"ticks": func(q pgqueue.Querier, name string, limit int) error {
			_, err := e.Ticks(ctx, q, name, time.Time{}, limit)
			return err
		},
		"list after": func(q pgqueue.Querier, name string, limit int) error {
			_, err := e.List(ctx, q, ListFilter{After: name, Limit: limit})
			return err
		},
		"list source": func(q pgqueue.Querier, name string, limit int) error {
			_, err := e.List(ctx, q, ListFilter{Source: &name, Limit: limit})
			return err
		},
	}
	want := func(what, field string, err error) {
		t.Helper()
		var refused *ConfigError
		if !errors.As(err, &refused) || refused.Field != field || !errors.Is(err, pgqueue.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, call := range calls {
		want(what+" nil", "querier", call(nil, "s", 0))
		want(what+" nil pool", "querier", call(none, "s", 0))
		_, field, ok := strings.Cut(what, "list ")
		if !ok {
			field = "name"
		}
		want(what+" NUL", field, call(w.db.Pool, nul, 0))
		if ok || what == "ticks" {
			want(what+" limit", "limit", call(w.db.Pool, "s", -1))
		}
	}
}

func TestListGoesByPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	w.exec("INSERT INTO pgqueue.schedules (name, spec, kind, source) SELECT 's' || lpad(i::text, 3, '0'), '@daily', 'k', CASE WHEN i % 2 = 0 THEN 'even' ELSE '' END FROM generate_series(1, 250) i")
	w.exec("UPDATE pgqueue.schedules SET next_run_at = 'infinity' WHERE name = 's001'")
	even := "even"
	for source, want := range map[*string]int{nil: 250, &even: 125} {
		got, after := 0, ""
		for {
			page, err := w.editor.List(t.Context(), w.db.Pool, ListFilter{After: after, Source: source, Limit: 60})
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			got, after = got+len(page), page[len(page)-1].Name
		}
		if got != want {
			t.Errorf("%d of %d", got, want)
		}
	}
}

// Behind a pooler nothing is prepared.
func TestEveryModeOfPgxWorks(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec} {
		w := newWorld(t, "2021-01-01 00:00:30Z")
		pool := newPool(t, w.db, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
		client, err := pgqueue.NewClient(pool)
		if err != nil {
			t.Fatal(err)
		}
		s := newTestScheduler(t, client, Config{Schedules: []Schedule{{Name: "s", Spec: "* * * * *", Args: invoices{Month: "july"}, CatchUp: All, Options: []pgqueue.EnqueueOption{pgqueue.WithTags("a,b", `"`)}}}}, movable)
		tick(t, s)
		w.setClock(at("2021-01-01T00:03:00Z"))
		if got := len(tick(t, s).Ticks); got != 3 {
			t.Errorf("%s: %d ticks", mode, got)
		}
		editor := &Editor{client: client, store: newStore(w.db.Schema, movable)}
		if _, err := editor.Put(t.Context(), pool, Schedule{Name: "t", Spec: "@daily", Args: invoices{}}); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if all, err := editor.List(t.Context(), pool, ListFilter{}); err != nil || len(all) != 2 || string(all[0].Payload) != `{"month": "july"}` {
			t.Errorf("%s: %+v %v", mode, all, err)
		}
		if past, err := editor.Ticks(t.Context(), pool, "s", time.Time{}, 0); err != nil || len(past) != 3 {
			t.Errorf("%s: %v %v", mode, past, err)
		}
	}
}
