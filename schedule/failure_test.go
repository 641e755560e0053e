package schedule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Three processes, whose connections are ended by the server all the time, and live for two seconds at most: each tick once.
func TestC101_EachTickIsEnqueuedOnceWhoeverIsThere(t *testing.T) {
	t.Parallel()
	const processes = 3
	w := newWorld(t, "2021-01-01 00:00:00Z") // its clock is not used here
	ticks, every := 6, 700*time.Millisecond
	if full() {
		ticks, every = 60, 3*time.Second
	}
	config := Config{
		Source: "app", Poll: 200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Schedules: []Schedule{{Name: "every second", Spec: "@every 1s", CatchUp: All, Args: invoices{}}},
	}
	for range processes {
		pool := newPool(t, w.db, func(c *pgxpool.Config) { c.MaxConnLifetime = 2 * time.Second })
		client, err := pgqueue.NewClient(pool, pgqueue.WithLogger(config.Logger))
		if err != nil {
			t.Fatal(err)
		}
		start(t, newTestScheduler(t, client, config, databaseNow))
	}
	// The sessions that are ended may be a pooler's, which anybody gets: the test looks past it.
	w.db = past(w.db)
	w.db.Pool = newPool(t, w.db, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "onlooker" })
	ended := 0
	pause := time.NewTicker(every)
	defer pause.Stop()
	for {
		ended += value[int](w, `SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name = 'scheduler' AND datname = current_database()) x`)
		if value[int](w, "SELECT count(*) FROM pgqueue.schedule_ticks") >= ticks {
			break
		}
		<-pause.C
	}
	all := w.ticksInDatabase("every second") // one job for each
	for i := 1; i < len(all); i++ {
		if all[i].Sub(all[i-1]) != time.Second {
			t.Errorf("after %s comes %s", all[i-1], all[i])
		}
	}
	if ended == 0 {
		t.Error("no connection was ended")
	}
}

// past is a database whose URL leads past a pooler, if there is one.
func past(db *pgqueuetest.DB) *pgqueuetest.DB {
	direct := *db
	direct.URL = db.DirectURL
	return &direct
}

// newPool is a pool of a process of its own.
func newPool(t testing.TB, db *pgqueuetest.DB, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 4
	config.ConnConfig.RuntimeParams["application_name"] = "scheduler"
	change(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// A process that is stopped in the midst of a tick holds it up for the bound of a transaction, and writes nothing when it goes on.
func TestC101_AStoppedProcessHoldsUpItsTickNoLongerThanATransactionAndWritesNothingLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	config := Config{Timeout: 300 * time.Millisecond, Schedules: []Schedule{{Name: "s", Spec: "* * * * *", Args: invoices{}}}}
	stopped := w.scheduler(config)
	tick(t, stopped)
	w.setClock(at("2021-01-01T00:01:00Z"))
	held, goOn := make(chan struct{}), make(chan struct{})
	stopped.hook = func(a *attempt) {
		a.beforeCommit = func() { close(held); <-goOn }
	}
	result := make(chan TickResult, 1)
	go func() {
		r, _ := stopped.Tick(context.Background())
		result <- r
	}()
	receive(t, held, "the tick to be written")
	other := w.scheduler(config)
	wantTexts(t, "while it is locked", events(tick(t, other).Ticks))
	until(t, "the server to end the transaction", func() bool { return len(tick(t, other).Ticks) == 1 })
	close(goOn)
	if r := receive(t, result, "the stopped one to end"); r.Failed["s"] == nil || len(r.Ticks) != 0 {
		t.Errorf("%+v", r)
	}
	wantTexts(t, "ticks", texts(w.ticksInDatabase("s")), "2021-01-01T00:01:00Z")
	if stored := w.stored("s"); stored.LastError != "" || stored.Failures != 0 {
		t.Errorf("what failed late was written over what had gone well: %+v", stored)
	}
}

func TestC102_TheClockGoesBackAnHourAndAheadADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 11:55:10Z")
	config := Config{Schedules: []Schedule{
		{Name: "minute", Spec: "* * * * *", Args: invoices{}},
		{Name: "edited", Spec: "* * * * *", Args: invoices{}},
		{Name: "all", Spec: "* * * * *", Args: invoices{}, CatchUp: All, CatchUpLimit: 20},
	}}
	s := w.scheduler(config)
	tick(t, s)
	now := at("2021-01-01T11:55:30Z")
	for ; !now.After(at("2021-01-01T12:00:30Z")); now = now.Add(30 * time.Second) {
		w.setClock(now)
		tick(t, s)
	}
	back := at("2021-01-01T11:00:00Z")
	for now = back; !now.After(back.Add(2 * time.Hour)); now = now.Add(30 * time.Second) {
		w.setClock(now)
		if now.Equal(at("2021-01-01T11:30:00Z")) {
			// Worked out anew while the clock is wrong: the ticks that have been still count.
			w.exec("UPDATE pgqueue.schedules SET next_run_at = NULL WHERE name = 'edited'")
		}
		tick(t, s)
		if now.Equal(at("2021-01-01T11:45:00Z")) {
			// Even a hand that sets it back repeats none: a tick has an identity.
			w.exec("UPDATE pgqueue.schedules SET next_run_at = '2021-01-01 11:56:00Z' WHERE name = 'minute'")
		}
		if now.Equal(at("2021-01-01T11:56:00Z")) && value[int](w, "SELECT count(*) FROM pgqueue.schedule_ticks WHERE name = 'minute' AND tick = '2021-01-01 11:56:00Z'") != 1 {
			t.Error("the tick has lost its identity")
		}
	}
	for _, name := range []string{"minute", "edited", "all"} {
		ticks := w.ticksInDatabase(name) // each has one job
		for i := 1; i < len(ticks); i++ {
			if name != "minute" && ticks[i].Sub(ticks[i-1]) != time.Minute {
				t.Errorf("%s: after %s comes %s", name, ticks[i-1], ticks[i])
			}
		}
		if !ticks[0].Equal(at("2021-01-01T11:56:00Z")) {
			t.Errorf("%s: the first is %s", name, ticks[0])
		}
		if last := ticks[len(ticks)-1]; !last.Equal(at("2021-01-01T13:00:00Z")) {
			t.Errorf("%s: the last is %s", name, last)
		}
	}
	before := map[string]int{"minute": len(w.ticksInDatabase("minute")), "all": len(w.ticksInDatabase("all"))}
	w.setClock(now.Add(24 * time.Hour))
	tick(t, s)
	for name, most := range map[string]int{"minute": 1, "all": 20} {
		if got := len(w.ticksInDatabase(name)) - before[name]; got != most {
			t.Errorf("%s: %d ticks after a day", name, got)
		}
	}
}

// The five of the failure case, in one process: what blocks, panics, fails and is locked is told of; what is well is on time.
func TestC104_WhatIsStuckOrFailsDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:00Z") // its clock is not used here
	counted := &counter{}
	release := make(chan struct{})
	var once sync.Once
	letGo := func() { once.Do(func() { close(release) }) }
	t.Cleanup(letGo)
	fn := func(f func() (pgqueue.Args, error)) func(context.Context, Tick) (pgqueue.Args, error) {
		return func(context.Context, Tick) (pgqueue.Args, error) { return f() }
	}
	one := func(name string, f func() (pgqueue.Args, error)) Schedule {
		return Schedule{Name: name, Spec: "@every 1s", Args: invoices{}, ArgsFunc: fn(f)}
	}
	s := newTestScheduler(t, w.client, Config{
		Observer: pgqueue.Observers(counted), Poll: 100 * time.Millisecond, Timeout: 400 * time.Millisecond,
		Schedules: []Schedule{
			one("blocks", func() (pgqueue.Args, error) { <-release; return invoices{}, nil }),
			one("panics", func() (pgqueue.Args, error) { panic("secret") }),
			one("ends its goroutine", func() (pgqueue.Args, error) { runtime.Goexit(); return nil, nil }),
			one("fails", func() (pgqueue.Args, error) { return nil, errors.New("secret") }),
			one("returns nil", func() (pgqueue.Args, error) { return nil, nil }),
			one("another kind", func() (pgqueue.Args, error) { return pgqueue.Raw{Name: "other"}, nil }),
			{Name: "locked", Spec: "@every 1s", Args: invoices{}, Options: []pgqueue.EnqueueOption{pgqueue.WithKey("k"), pgqueue.OnQueue("q")}},
			{Name: "well", Spec: "@every 1s", Args: invoices{}},
		},
	}, databaseNow)
	// The row of the key, held by a psql.
	if _, err := w.client.Enqueue(t.Context(), w.db.Pool, invoices{}, pgqueue.OnQueue("q"), pgqueue.WithKey("k")); err != nil {
		t.Fatal(err)
	}
	psql, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = psql.Rollback(context.Background()) }()
	if _, err := psql.Exec(t.Context(), "SELECT 1 FROM pgqueue.jobs WHERE key = 'k' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	stop := start(t, s)
	ticks := 5
	if full() {
		ticks = 60
	}
	bad := []string{"blocks", "panics", "ends its goroutine", "fails", "returns nil", "another kind", "locked"}
	until(t, "ticks of the one that is well, and failures of the others", func() bool {
		for _, name := range bad {
			if len(counted.errors(name)) == 0 {
				return false
			}
		}
		return counted.ticks("well") >= ticks
	})
	all := w.ticksInDatabase("well")
	for i := 1; i < len(all); i++ {
		if all[i].Sub(all[i-1]) > 2*time.Second { // latest: one that was late by a second would leave this much out
			t.Errorf("after %s comes %s", all[i-1], all[i])
		}
	}
	for _, name := range bad {
		stored := w.stored(name)
		if stored.LastError == "" || stored.Failures == 0 || !stored.RetryAt.After(stored.NextRunAt) || strings.Contains(stored.LastError, "secret") {
			t.Errorf("%s: %+v", name, stored)
		}
		if counted.ticks(name) != 0 {
			t.Errorf("%s: ticked", name)
		}
	}
	// What was in the way is gone: they go on.
	letGo()
	if err := psql.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"blocks", "locked"} {
		until(t, name+" to go on", func() bool { return counted.ticks(name) > 0 })
		if stored := w.stored(name); stored.LastError != "" || stored.Failures != 0 {
			t.Errorf("%s: %+v", name, stored)
		}
	}
	stop()
}

// More of them than there are slots.
func TestC104_FailingSchedulesGetHalfOfTheSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	s := w.scheduler(Config{Concurrency: 4})
	found := dueNow{failing: map[string]bool{}}
	for i := range 6 {
		name := fmt.Sprint("bad", i)
		found.names = append(found.names, name)
		if i%2 == 0 {
			found.failing[name] = true // as its row says
		} else {
			s.noteFailure(name, false) // as is known here alone
		}
	}
	found.names = append(found.names, "good")
	names, trials := s.order(found)
	if names[0] != "good" {
		t.Errorf("in the order %v", names)
	}
	begun := 0
	for _, name := range names[1:] {
		if release, _ := s.begin(name, trials[name]); release != nil {
			begun++
		}
	}
	if release, _ := s.begin("good", trials["good"]); release == nil || begun != 2 {
		t.Errorf("%d of those that fail at a time", begun)
	}
	if release, _ := s.begin("good", trials["good"]); release != nil {
		t.Error("twice at a time")
	}
}

func TestAFunctionThatNeverReturnsIsNamedWhenRunEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	release := make(chan struct{})
	defer close(release)
	counted := &counter{}
	s := w.scheduler(Config{Timeout: 100 * time.Millisecond, Poll: 20 * time.Millisecond, Observer: counted, Schedules: []Schedule{{
		Name: "hangs", Spec: "* * * * *", Args: invoices{}, ArgsFunc: func(context.Context, Tick) (pgqueue.Args, error) { <-release; return nil, nil },
	}}})
	tick(t, s)
	w.setClock(at("2021-01-01T00:01:00Z"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	until(t, "the failure", func() bool { return len(counted.errors("hangs")) == 1 })
	if err := s.Run(ctx); !errors.Is(err, ErrRunning) {
		t.Errorf("twice: %v", err)
	}
	cancel()
	if err := receive(t, done, "the end"); err == nil || !strings.Contains(err.Error(), `"hangs"`) {
		t.Errorf("run: %v", err)
	}
}

func TestRunSaysWhatWaitingDoesNotMend(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
	s := newTestScheduler(t, db.Client(t), Config{}, databaseNow)
	if err := s.Run(t.Context()); !errors.Is(err, pgqueue.ErrSchema) {
		t.Errorf("run: %v", err)
	}
	if _, err := s.Tick(t.Context()); !errors.Is(err, pgqueue.ErrSchema) {
		t.Errorf("tick: %v", err)
	}
}

// The rights that docs/schedules.md names, and no other.
func TestTheGrantsOfASchedulerAreEnough(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	role := "scheduler_" + strings.TrimPrefix(value[string](w, "SELECT md5(current_database())"), "x")
	w.exec("CREATE ROLE " + role + " NOLOGIN")
	t.Cleanup(func() {
		_, err := w.db.Pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		if err != nil {
			t.Error(err)
		}
	})
	w.exec("GRANT USAGE ON SCHEMA pgqueue TO " + role + "; GRANT SELECT, INSERT, UPDATE ON pgqueue.jobs TO " + role +
		"; GRANT USAGE ON SEQUENCE pgqueue.jobs_id_seq TO " + role + "; GRANT SELECT ON public.test_clock TO " + role +
		"; GRANT SELECT, INSERT, UPDATE, DELETE ON pgqueue.schedules, pgqueue.schedule_ticks TO " + role)
	// SET ROLE belongs to a session: past a pooler.
	pool := newPool(t, past(w.db), func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET ROLE "+role)
			return err
		}
	})
	client, err := pgqueue.NewClient(pool)
	if err != nil {
		t.Fatal(err)
	}
	s := newTestScheduler(t, client, Config{Schedules: []Schedule{{Name: "s", Spec: "* * * * *", Args: invoices{}}}}, movable)
	tick(t, s)
	w.setClock(at("2021-01-01T00:01:00Z"))
	wantTexts(t, "ticks", events(tick(t, s).Ticks), "2021-01-01T00:01:00Z")
}
