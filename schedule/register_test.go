package schedule

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func daily(names ...string) []Schedule {
	var all []Schedule
	for _, name := range names {
		all = append(all, Schedule{Name: name, Spec: "@daily", Args: invoices{}})
	}
	return all
}

// pass lets time pass on the database's clock, with one round of each scheduler a quarter of a minute.
func (w *world) pass(d time.Duration, all ...*Scheduler) {
	w.t.Helper()
	now := value[time.Time](w, "SELECT now FROM public.test_clock")
	for end := now.Add(d); now.Before(end); {
		now = now.Add(15 * time.Second)
		w.setClock(now)
		for _, s := range all {
			tick(w.t, s)
		}
	}
}

// Two services: each serves the schedules of both, whoever is there.
func TestC103_EveryProcessServesTheSchedulesOfAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:00Z")
	a := func() *Scheduler {
		return w.scheduler(Config{Source: "a", Schedules: []Schedule{{Name: "a", Spec: "@every 2s", Args: invoices{}, CatchUp: All}}})
	}
	b := func() *Scheduler {
		return w.scheduler(Config{Source: "b", Schedules: []Schedule{{Name: "b", Spec: "@every 2s", Args: invoices{}, CatchUp: All}}})
	}
	tick(t, a())
	tick(t, b())
	now := at("2021-01-01T00:00:00Z")
	for i := range 30 { // now this one is there, now that one
		now = now.Add(2 * time.Second)
		w.setClock(now)
		if i%10 < 5 {
			tick(t, a())
		} else {
			tick(t, b())
		}
	}
	for _, name := range []string{"a", "b"} {
		if n := len(w.ticksInDatabase(name)); n != 30 {
			t.Errorf("%s: %d ticks", name, n)
		}
	}
}

// The rule of a rolling deployment: a schedule lives as long as a process lives that has it in its code, and a minute longer.
func TestC103_WhatCodeNoLongerHasStopsWhenTheLastProcessThatHadItIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:00Z")
	old := w.scheduler(Config{Source: "a", Schedules: daily("kept", "removed", "shared")})
	other := w.scheduler(Config{Source: "b", Schedules: daily("of b")})
	tick(t, old)
	tick(t, other)
	fresh := w.scheduler(Config{Source: "a", Schedules: daily("kept")})
	retired := func() map[string]bool {
		found := map[string]bool{}
		for _, name := range []string{"kept", "removed", "shared", "of b"} {
			found[name] = !w.stored(name).RetiredAt.IsZero()
		}
		return found
	}
	// An hour with both, as of a canary; and the old one starts anew once.
	w.pass(30*time.Minute, old, fresh, other)
	old = w.scheduler(Config{Source: "a", Schedules: daily("kept", "removed", "shared")})
	w.pass(30*time.Minute, fresh, old, other)
	if got := retired(); got["removed"] || got["kept"] || got["shared"] || got["of b"] {
		t.Errorf("while both are there: %v", got)
	}
	// The other program has it too: it stays.
	other = w.scheduler(Config{Source: "b", Schedules: daily("of b", "shared")})
	w.exec("UPDATE pgqueue.schedules SET source = 'a' WHERE name = 'shared'")
	w.pass(45*time.Second, fresh, other)
	if got := retired(); got["removed"] {
		t.Errorf("too early: %v", got)
	}
	w.pass(time.Minute, fresh, other)
	if got := retired(); !got["removed"] || got["kept"] || got["shared"] || got["of b"] {
		t.Errorf("when the last one is gone: %v", got)
	}
	// It rests.
	w.setClock(at("2021-01-02T00:00:30Z"))
	tick(t, fresh)
	if n := len(w.ticksInDatabase("removed")); n != 0 {
		t.Errorf("%d ticks of what was removed", n)
	}
	if n := len(w.ticksInDatabase("kept")); n != 1 {
		t.Errorf("%d ticks of what was kept", n)
	}
	// A rollback: it is back, with the next tick from then.
	old = w.scheduler(Config{Source: "a", Schedules: daily("kept", "removed")})
	w.pass(time.Minute, old)
	if got := w.stored("removed"); !got.RetiredAt.IsZero() || !got.NextRunAt.Equal(at("2021-01-03T00:00:00Z")) {
		t.Errorf("after the rollback: %+v", got)
	}
	// All processes of a program are gone: nobody is there to say so, and its schedules go on.
	w.setClock(at("2021-03-01T00:00:10Z"))
	tick(t, w.scheduler(Config{Source: "c", Schedules: daily("of c")}))
	if n := len(w.ticksInDatabase("removed")); n != 1 {
		t.Errorf("%d ticks", n)
	}
}

func TestC103_WhatHasBeenRetiredForAMonthIsDeletedAndWhatWasMadeByHandNever(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:00Z")
	w.exec("INSERT INTO pgqueue.schedules (name, spec, kind) VALUES ('by hand', '@daily', 'invoices')")
	tick(t, w.scheduler(Config{Source: "a", Schedules: daily("removed")}))
	w.setClock(at("2021-01-01T00:02:00Z"))
	s := w.scheduler(Config{Source: "a"})
	tick(t, s)
	w.setClock(at("2021-01-30T00:02:00Z"))
	tick(t, s)
	if w.stored("removed").RetiredAt.IsZero() {
		t.Error("not retired")
	}
	w.setClock(at("2021-02-01T00:02:00Z"))
	tick(t, s)
	names := value[[]string](w, "SELECT array_agg(name) FROM pgqueue.schedules")
	wantTexts(t, "schedules", names, "by hand")
}

// A restart that says the same again changes nothing that people have edited; a deployment that says something else does, but for what is
// theirs.
func TestC103_EditsSurviveRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:00Z")
	config := Config{Source: "a", Schedules: daily("s")}
	tick(t, w.scheduler(config))
	w.exec(`UPDATE pgqueue.schedules SET spec = '0 5 * * *', queue = 'slow', enabled = false, next_run_at = '2021-01-04 07:00:00Z' WHERE name = 's'`)
	for range 2 {
		tick(t, w.scheduler(config))
		got := w.stored("s")
		if got.Spec != "0 5 * * *" || got.Queue != "slow" || got.Enabled || !got.NextRunAt.Equal(at("2021-01-04T07:00:00Z")) {
			t.Errorf("after a restart: %+v", got)
		}
	}
	config.Schedules[0].Options = []pgqueue.EnqueueOption{pgqueue.WithPriority(3)}
	tick(t, w.scheduler(config))
	got := w.stored("s")
	if got.Spec != "@daily" || got.Queue != "default" || got.Priority != 3 || got.Enabled {
		t.Errorf("after a deployment: %+v", got)
	}
	// A new payload, say, leaves the next tick where it is.
	if err := w.editor.Enable(t.Context(), w.db.Pool, "s"); err != nil {
		t.Fatal(err)
	}
	tick(t, w.scheduler(config))
	w.setClock(at("2021-01-02T00:00:20Z"))
	config.Schedules[0].Args = invoices{Month: "february"}
	wantTexts(t, "the tick that was due", events(tick(t, w.scheduler(config)).Ticks), "2021-01-02T00:00:00Z")
}

// A schedule that somebody has locked keeps no other from being registered.
func TestC103_ALockedScheduleIsRegisteredLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:00Z")
	tick(t, w.scheduler(Config{Source: "a", Schedules: daily("a locked one")}))
	psql, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = psql.Rollback(context.Background()) }()
	if _, err := psql.Exec(t.Context(), "SELECT 1 FROM pgqueue.schedules FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	changed := daily("a locked one", "another")
	changed[0].Spec = "@hourly"
	s := w.scheduler(Config{Source: "a", Schedules: changed, Timeout: 200 * time.Millisecond})
	if _, err := s.Tick(t.Context()); err == nil {
		t.Error("it was not locked")
	}
	if got := w.stored("another"); got.Spec != "@daily" {
		t.Errorf("%+v", got)
	}
	if err := psql.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	tick(t, s)
	if got := w.stored("a locked one"); got.Spec != "@hourly" {
		t.Errorf("%+v", got)
	}
}

// Only a program that has the function enqueues what needs it.
func TestOnlyAProgramWithTheFunctionRunsWhatNeedsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	var asked []Tick
	with := w.scheduler(Config{Source: "a", Schedules: []Schedule{{
		Name: "s", Spec: "* * * * *", Args: keyed{}, CatchUp: All, CatchUpLimit: 3,
		ArgsFunc: func(_ context.Context, tick Tick) (pgqueue.Args, error) {
			asked = append(asked, tick)
			if tick.At.Minute() == 2 {
				return nil, ErrSkip
			}
			return keyed{Tenant: tick.At.Format("15:04")}, nil
		},
	}}})
	without := w.scheduler(Config{Source: "b"})
	tick(t, with)
	w.setClock(at("2021-01-01T00:03:00Z"))
	wantTexts(t, "without", events(tick(t, without).Ticks))
	if got := w.stored("s"); got.LastError != "" || !got.Dynamic {
		t.Errorf("%+v", got)
	}
	wantTexts(t, "with", events(tick(t, with).Ticks), "2021-01-01T00:01:00Z", "2021-01-01T00:02:00Z skipped", "2021-01-01T00:03:00Z")
	if len(asked) != 3 || asked[0] != (Tick{Schedule: "s", At: at("2021-01-01T00:01:00Z")}) {
		t.Errorf("asked %v", asked)
	}
	// The type's own options are asked for with each value.
	wantTexts(t, "keys", value[[]string](w, "SELECT array_agg(key ORDER BY id) FROM pgqueue.jobs WHERE queue = 'tenants'"), "00:01", "00:03")
}

// keyed gives itself a key and a queue.
type keyed struct {
	Tenant string `json:"tenant"`
}

func (keyed) Kind() string { return "keyed" }

func (k keyed) EnqueueOptions() []pgqueue.EnqueueOption {
	if k.Tenant == "" {
		return []pgqueue.EnqueueOption{pgqueue.OnQueue("tenants")}
	}
	return []pgqueue.EnqueueOption{pgqueue.OnQueue("tenants"), pgqueue.WithKey(k.Tenant)}
}

func TestOldTicksAreDeletedAndTheLastHundredStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-03-01 00:00:30Z")
	w.exec(`INSERT INTO pgqueue.schedule_ticks (name, tick, job_id)
		SELECT n.name, s.tick, 1 FROM (VALUES ('busy', interval '1 min'), ('rare', interval '1 month'), ('gone', interval '5 min')) n (name, every),
			LATERAL generate_series('2021-03-01 00:00:00Z'::timestamptz, '2021-02-20 00:00:00Z', - n.every) s (tick)`)
	s := w.scheduler(Config{})
	tick(t, s)
	if got := value[int](w, "SELECT count(*) FROM pgqueue.schedule_ticks WHERE name = 'busy'"); got != 7*24*60 {
		t.Errorf("busy: %d", got)
	}
	if got := value[int](w, "SELECT count(*) FROM pgqueue.schedule_ticks WHERE name = 'rare'"); got != 1 {
		t.Errorf("rare: %d", got)
	}
	w.setClock(at("2022-01-01T00:00:00Z"))
	tick(t, s)
	tick(t, s)
	rows, err := w.db.Pool.Query(t.Context(), "SELECT name || ' ' || count(*) FROM pgqueue.schedule_ticks GROUP BY name ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "left", left, "busy 100", "gone 100", "rare 1")
}
