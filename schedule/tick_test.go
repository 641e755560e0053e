package schedule

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func TestATickIsEnqueuedOnceWithAllThatTheScheduleSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-31 01:29:30Z")
	s := w.scheduler(Config{Schedules: []Schedule{{
		Name: "monthly invoices", Spec: "30 2 31 * *", TimeZone: "Europe/Copenhagen", Args: invoices{Month: "january"},
		Options: []pgqueue.EnqueueOption{
			pgqueue.OnQueue("billing"), pgqueue.WithPriority(4), pgqueue.WithTags("money"), pgqueue.WithMaxAttempts(7),
			pgqueue.WithMetadata(map[string]int{"tenant": 7}), pgqueue.WithKey("invoices"),
		},
	}}})
	if got := tick(t, s).Ticks; len(got) != 0 {
		t.Errorf("too early: %v", got)
	}
	if got := w.stored("monthly invoices").NextRunAt; !got.Equal(at("2021-01-31T01:30:00Z")) {
		t.Errorf("next %s", got)
	}
	w.setClock(at("2021-01-31T01:30:00Z"))
	wantTexts(t, "first", events(tick(t, s).Ticks), "2021-01-31T01:30:00Z")
	wantTexts(t, "second", events(tick(t, s).Ticks))

	job := pgqueuetest.RequireEnqueued[invoices](t, w.db.Pool, pgqueuetest.OnQueue("billing"), pgqueuetest.WithPriority(4), pgqueuetest.WithTag("money"),
		pgqueuetest.WithKey("invoices"), pgqueuetest.WithArgs(invoices{Month: "january"}))
	metadata := value[string](w, "SELECT metadata::text FROM pgqueue.jobs WHERE id = $1 AND max_attempts = 7 AND metadata->>'tenant' = '7'", job.ID)
	if got, ok := TickOf(json.RawMessage(metadata)); !ok || got.Schedule != "monthly invoices" || !got.At.Equal(at("2021-01-31T01:30:00Z")) {
		t.Errorf("tick of the job: %v %v", got, ok)
	}
	stored := w.stored("monthly invoices")
	if stored.LastJobID != job.ID || !stored.LastRunAt.Equal(at("2021-01-31T01:30:00Z")) || !stored.NextRunAt.Equal(at("2021-03-31T00:30:00Z")) {
		t.Errorf("%+v", stored)
	}
}

func TestAnIntervalIsCountedFromTheBeginningAndNotFromARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-02 12:00:07.25Z")
	config := Config{Schedules: []Schedule{{Name: "s", Spec: "@every 10m", Args: invoices{}}, {Name: "weekly", Spec: "@weekly", Args: invoices{}}}}
	now, end := at("2021-01-02T12:00:07Z"), at("2021-01-03T00:00:10Z")
	step := 7 * time.Minute
	for ; now.Before(end); now = now.Add(step) {
		w.setClock(now)
		tick(t, w.scheduler(config)) // a process that lives no longer than this
		step = 2*time.Minute + (step*31)%(17*time.Minute)
	}
	w.setClock(end)
	tick(t, w.scheduler(config))
	all := w.ticksInDatabase("s")
	for _, tick := range all {
		if tick.Sub(at("2021-01-02T12:00:07Z"))%(10*time.Minute) != 0 {
			t.Errorf("off the grid: %s", tick)
		}
	}
	if len(all) < 30 {
		t.Errorf("%d ticks in twelve hours", len(all))
	}
	wantTexts(t, "weekly", texts(w.ticksInDatabase("weekly")), "2021-01-03T00:00:00Z")
}

func TestASingleInstantHappensOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:00Z")
	config := Config{Schedules: []Schedule{{Name: "once", Spec: "@at 2021-01-01T12:00:00+01:00", Args: invoices{}}, {Name: "past", Spec: "@at 2020-12-31T23:00:00Z", Args: invoices{}}}}
	s := w.scheduler(config)
	tick(t, s)
	w.setClock(at("2021-01-01T13:00:00Z")) // nobody was there at the time
	wantTexts(t, "ticks", events(tick(t, s).Ticks), "2021-01-01T11:00:00Z")
	for _, later := range []string{"2021-01-01T14:00:00Z", "2023-01-01T14:00:00Z"} {
		w.setClock(at(later))
		wantTexts(t, "again", events(tick(t, w.scheduler(config)).Ticks))
	}
	for _, name := range []string{"once", "past"} {
		if stored := w.stored(name); !stored.Ended || !stored.NextRunAt.IsZero() {
			t.Errorf("%+v", stored)
		}
	}
	// Another instant is another specification: it begins anew.
	config.Schedules[0].Spec = "@at 2023-01-02T00:00:00Z"
	tick(t, w.scheduler(config))
	w.setClock(at("2023-01-02T00:00:01Z"))
	wantTexts(t, "the new one", events(tick(t, w.scheduler(config)).Ticks), "2023-01-02T00:00:00Z")
}

func TestCatchUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	var all []Schedule
	for _, one := range []Schedule{
		{Name: "skip", CatchUp: Skip}, {Name: "latest"}, {Name: "all", CatchUp: All}, {Name: "capped", CatchUp: All, CatchUpLimit: 3},
		{Name: "many", CatchUp: All, CatchUpLimit: 1000},
	} {
		one.Spec, one.Args = "*/10 * * * *", invoices{}
		all = append(all, one)
	}
	s := w.scheduler(Config{Schedules: all})
	tick(t, s)
	w.setClock(at("2021-01-01T01:05:00Z"))
	got := map[string][]string{}
	for _, e := range tick(t, s).Ticks {
		got[e.Schedule] = append(got[e.Schedule], events([]TickEvent{e})[0])
	}
	wantTexts(t, "skip", got["skip"], "2021-01-01T01:00:00Z skipped")
	wantTexts(t, "latest", got["latest"], "2021-01-01T01:00:00Z")
	wantTexts(t, "all", got["all"], "2021-01-01T00:10:00Z", "2021-01-01T00:20:00Z", "2021-01-01T00:30:00Z", "2021-01-01T00:40:00Z", "2021-01-01T00:50:00Z", "2021-01-01T01:00:00Z")
	wantTexts(t, "capped", got["capped"], "2021-01-01T00:30:00Z skipped", "2021-01-01T00:40:00Z", "2021-01-01T00:50:00Z", "2021-01-01T01:00:00Z")
	// What is hardly late is not missed.
	w.setClock(at("2021-01-01T01:10:30Z"))
	for _, e := range tick(t, s).Ticks {
		if e.Skipped || !e.At.Equal(at("2021-01-01T01:10:00Z")) || e.Late != 30*time.Second {
			t.Errorf("%+v", e)
		}
	}
	// More than one transaction takes.
	w.setClock(at("2021-01-04T01:10:30Z"))
	many := 0
	for _, e := range tick(t, s).Ticks {
		if e.Schedule == "many" {
			many++
		}
	}
	if len(w.ticksInDatabase("many")) != 7+3*144 || many != 3*144 {
		t.Errorf("%d of %d", many, len(w.ticksInDatabase("many")))
	}
}

func TestJitterIsTheSameForATickAndDiffersBetweenThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	s := w.scheduler(Config{Schedules: []Schedule{{Name: "s", Spec: "@hourly", Args: invoices{}, Jitter: 10 * time.Minute, CatchUp: All}}})
	tick(t, s)
	w.setClock(at("2021-01-03T00:00:30Z"))
	tick(t, s)
	if n := value[int](w, `SELECT count(DISTINCT run_at - (metadata->>'tick')::timestamptz) FROM pgqueue.jobs
		WHERE run_at - (metadata->>'tick')::timestamptz BETWEEN interval '0' AND interval '10 min'`); n != 48 {
		t.Errorf("%d delays of 48 jobs", n)
	}
	r := &row{name: "s", jitter: (10 * time.Minute).Microseconds()}
	first := r.jitterOf(at("2021-01-01T01:00:00Z"))
	if again := r.jitterOf(at("2021-01-01T01:00:00Z")); again != first {
		t.Errorf("%s and %s", first, again)
	}
	below := 0
	for hour := range 1000 {
		if r.jitterOf(at("2021-01-01T01:00:00Z").Add(time.Duration(hour)*time.Hour)) < 5*time.Minute {
			below++
		}
	}
	if below < 400 || below > 600 {
		t.Errorf("%d of 1000 in the first half", below)
	}
}
