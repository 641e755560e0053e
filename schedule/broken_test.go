package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/codec"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// What no scheduler could read does not get into the table.
func TestTheTableRefusesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	w.exec("INSERT INTO pgqueue.schedules (name, spec, kind) VALUES ('s', '@daily', 'k')")
	for value, constraint := range map[string]string{
		"tags = '{a,NULL}'": "schedules_tags_check", "tags = '{{a,b},{c,d}}'": "schedules_tags_check", "time_zone = ''": "schedules_time_zone_check",
		"next_run_at = '-infinity'": "schedules_next_run_at_check",
		"last_run_at = 'infinity'":  "schedules_times_check", "last_run_at = '-infinity'": "schedules_times_check",
		"retry_at = 'infinity'": "schedules_times_check", "retired_at = 'infinity'": "schedules_times_check", "seen_at = '-infinity'": "schedules_times_check",
		"created_at = '-infinity'": "schedules_times_check", "updated_at = 'infinity'": "schedules_times_check",
	} {
		_, err := w.db.Pool.Exec(t.Context(), "UPDATE pgqueue.schedules SET "+value)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.ConstraintName != constraint {
			t.Errorf("%s: %v", value, err)
		}
	}
	w.exec("UPDATE pgqueue.schedules SET tags = '{a,b}', next_run_at = 'infinity', last_run_at = NULL, retry_at = NULL, retired_at = NULL, seen_at = NULL")
	if got := w.stored("s"); !got.Ended || len(got.Tags) != 2 {
		t.Errorf("%+v", got)
	}
}

// unguarded lets rows into the table that cannot be read, as a later version might.
func (w *world) unguarded() {
	w.t.Helper()
	w.exec("ALTER TABLE pgqueue.schedules DROP CONSTRAINT schedules_tags_check, DROP CONSTRAINT schedules_next_run_at_check, DROP CONSTRAINT schedules_times_check")
}

func TestC104_ARowThatCannotBeReadIsWrittenDownAndLeftAloneForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	w.unguarded()
	columns := map[string]string{"null tag": "tags", "last run": "last_run_at", "next run": "next_run_at"}
	w.exec(`INSERT INTO pgqueue.schedules (name, spec, kind, tags, last_run_at, next_run_at, failures, updated_at) VALUES
		('null tag', '* * * * *', 'k', '{a,NULL}', NULL, NULL, 0, '2021-01-01 00:00:30Z'),
		('last run', '* * * * *', 'k', '{}', 'infinity', NULL, 0, '2021-01-01 00:00:30Z'),
		('next run', '* * * * *', 'k', '{}', NULL, '-infinity', 2, '2021-01-01 00:00:30Z')`)
	s := w.scheduler(Config{})
	result, err := s.Tick(t.Context())
	if err != nil || len(result.Failed) != 3 {
		t.Fatalf("%+v %v", result, err)
	}
	for name, column := range columns {
		failures, wait := 1, "00:00:01"
		if name == "next run" {
			failures, wait = 3, "00:00:04"
		}
		got := value[string](w, `SELECT concat_ws(' | ', failures, retry_at - '2021-01-01 00:00:30Z', last_error) FROM pgqueue.schedules WHERE name = $1`, name)
		if want := fmt.Sprintf("%d | %s | the row cannot be read: ", failures, wait); !strings.HasPrefix(got, want) || !strings.Contains(got, "read: "+column+": ") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if result, err = s.Tick(t.Context()); err != nil || len(result.Failed) != 0 {
		t.Errorf("at once again: %+v %v", result, err)
	}
	w.exec("UPDATE pgqueue.schedules SET tags = '{}', last_run_at = NULL, next_run_at = '2021-01-01 00:00:00Z', failures = 0, retry_at = NULL")
	if got := len(tick(t, s).Ticks); got != 3 {
		t.Errorf("mended: %d ticks", got)
	}
}

// More of them than there are trials, whose failures cannot even be written down, so that they are due all the time.
func TestC104_WhatWasMendedIsTriedInTimeAlthoughOthersKeepFailing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z") // its clock is not used here
	w.unguarded()
	w.exec(`INSERT INTO pgqueue.schedules (name, spec, kind, next_run_at, tags) SELECT 'bad' || i, '@every 1s', 'k', '2020-01-01Z', '{a,NULL}' FROM generate_series(1, 6) i`)
	w.exec(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not to be written'; END $$`)
	w.exec(`CREATE TRIGGER refuse BEFORE UPDATE ON pgqueue.schedules FOR EACH ROW WHEN (OLD.name LIKE 'bad%') EXECUTE FUNCTION public.refuse()`)
	w.exec(`INSERT INTO pgqueue.schedules (name, spec, kind, next_run_at, tags) VALUES ('edited', '@every 1s', 'k', now(), '{""}')`)
	var mended atomic.Bool
	counted := &counter{}
	start(t, newTestScheduler(t, w.client, Config{Poll: 50 * time.Millisecond, Observer: counted, Schedules: []Schedule{{
		Name: "code", Spec: "@every 1s", Args: invoices{}, ArgsFunc: func(context.Context, Tick) (pgqueue.Args, error) {
			if mended.Load() {
				return invoices{}, nil
			}
			return nil, errors.New("not yet")
		},
	}}}, databaseNow))
	until(t, "failures of all", func() bool {
		for _, name := range []string{"bad1", "bad2", "bad3", "bad4", "bad5", "bad6", "edited", "code"} {
			if len(counted.errors(name)) == 0 {
				return false
			}
		}
		return true
	})
	mended.Store(true)
	w.exec("UPDATE pgqueue.schedules SET tags = '{x}' WHERE name = 'edited'")
	until(t, "ticks of those that were mended", func() bool { return counted.ticks("edited") > 1 && counted.ticks("code") > 1 })
}

// Those that fail come by the time of their next attempt, and apart, however many they are.
func TestC104_HoweverManyFailTheOthersAreSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	w.exec(`INSERT INTO pgqueue.schedules (name, spec, kind, next_run_at, failures, retry_at)
		SELECT 'bad' || i, '@daily', 'k', '2020-01-01Z'::timestamptz + i * interval '1 s', 1, '2021-01-01 00:00:00Z'::timestamptz - i * interval '1 ms' FROM generate_series(1, $1) i`, dueLimit+50)
	w.exec("INSERT INTO pgqueue.schedules (name, spec, kind, next_run_at) VALUES ('good', '@daily', 'k', '2021-01-01Z')")
	s := w.scheduler(Config{})
	found, err := s.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names, trials := s.order(found)
	if len(names) != dueLimit+1 || names[0] != "good" || names[1] != fmt.Sprint("bad", dueLimit+50) || len(trials) != dueLimit || trials["good"] {
		t.Errorf("%d: %v; %d trials", len(names), names[:2], len(trials))
	}
	// An edit makes one well, also for a process in which it has failed.
	s.noteFailure("bad7", true)
	w.exec("UPDATE pgqueue.schedules SET queue = 'q' WHERE name = 'bad7'")
	if found, err = s.look(t.Context()); err != nil || !slices.Contains(found.names, "bad7") {
		t.Fatalf("%v %v", found.names, err)
	}
	if _, trials = s.order(found); trials["bad7"] {
		t.Error("edited, and still on trial")
	}
}

// A time by hand that no calculation with durations can hold.
func TestTimesFarAwayDoNoHarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	for _, far := range []string{"2600-01-01Z", "4000-01-01Z", "9999-12-31Z", "200000-01-01Z"} {
		w.exec("DELETE FROM pgqueue.schedules")
		w.exec("INSERT INTO pgqueue.schedules (name, spec, kind, next_run_at) VALUES ('s', '@daily', 'k', $1::text::timestamptz)", far)
		if found, err := w.scheduler(Config{}).look(t.Context()); err != nil || found.wait != maxWait || len(found.names) != 0 {
			t.Errorf("%s: %+v %v", far, found, err)
		}
	}
	w.exec("DELETE FROM pgqueue.schedules")
	w.exec(`INSERT INTO pgqueue.schedules (name, spec, kind, next_run_at, catch_up, catch_up_limit) VALUES
		('once', '@at 2031-01-01T00:00:00Z', 'k', '1066-10-14Z', 'latest', 1), ('yearly', '@yearly', 'k', '0001-01-01Z', 'all', 350)`)
	ticks := tick(t, w.scheduler(Config{})).Ticks
	if n := len(ticks); n != 1+350+1 { // the one, of which no other is known, and catch_up_limit, and the line for what was skipped
		t.Errorf("%d ticks", n)
	}
}

// afterFailure is told when a failure was tried to be written down.
type afterFailure struct {
	statement string
	first     func()
}

func (f *afterFailure) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, f, data.SQL == f.statement)
}

func (f *afterFailure) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(f) == true {
		f.first()
	}
}

// The server may not have ended the transaction yet when its client has given it up.
func TestAFailureIsWrittenDownAlthoughTheRowIsLockedForAMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	w.exec("INSERT INTO pgqueue.schedules (name, spec, kind) VALUES ('s', '@daily', 'k')")
	lock, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), "SELECT FROM pgqueue.schedules FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	unlock := func() { once.Do(func() { _ = lock.Rollback(context.Background()) }) }
	defer unlock()
	tracer := &afterFailure{statement: newStore(w.db.Schema, movable).texts["fail"], first: unlock}
	client, err := pgqueue.NewClient(newPool(t, w.db, func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer }))
	if err != nil {
		t.Fatal(err)
	}
	a := &attempt{Scheduler: newTestScheduler(t, client, Config{}, movable), name: "s", row: &row{}}
	if written, err := a.writeDown(t.Context(), "why", time.Second); !written || err != nil || w.stored("s").LastError != "why" {
		t.Errorf("%t %v", written, err)
	}
}

// As docs/schedules.md has it.
func TestAnInstantThatHasPassedNeverHappens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	if _, err := w.editor.Put(t.Context(), w.db.Pool, Schedule{Name: "s", Spec: "@at 2020-01-01T00:00:00Z", Args: invoices{}}); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "ticks", events(tick(t, w.scheduler(Config{})).Ticks))
	if got := w.stored("s"); !got.Ended || !got.NextRunAt.IsZero() || !got.LastRunAt.IsZero() {
		t.Errorf("%+v", got)
	}
}

// What pgqueue says is told; what code of the user's says is not.
func TestLastErrorSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:30Z")
	w.exec(`INSERT INTO pgqueue.schedules (name, spec, kind, payload, next_run_at) VALUES
		('plain', '* * * * *', 'k', '{"secret": "secret"}', '2021-01-01Z'), ('malformed', '* * * * *', 'k', '{"$pgqueue": 1}', '2021-01-01Z')`)
	aes := func(id string) pgqueue.Codec {
		keys, err := codec.AESGCM(codec.Key{ID: id, Secret: bytes.Repeat([]byte(id[:1]), codec.KeySize)})
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	other := &Editor{client: w.db.Client(t, pgqueue.WithCodec(aes("theirs"))), store: w.editor.store}
	if _, err := other.Put(t.Context(), w.db.Pool, Schedule{Name: "key", Spec: "* * * * *", Args: invoices{}}); err != nil {
		t.Fatal(err)
	}
	w.exec("UPDATE pgqueue.schedules SET next_run_at = '2021-01-01Z' WHERE name = 'key'")
	refuse := func(pgqueue.EnqueueFunc) pgqueue.EnqueueFunc {
		return func(context.Context, pgqueue.Querier, []pgqueue.NewJob) ([]pgqueue.Enqueued, error) {
			return nil, errors.New("secret of a tenant")
		}
	}
	closed := w.db.Client(t)
	if err := closed.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		client *pgqueue.Client
		want   map[string]string
	}{
		{w.db.Client(t, pgqueue.WithCodec(aes("ours")), pgqueue.WithStrictCodec()), map[string]string{
			"key": "the key is not known here", "plain": "the value is not encoded", "malformed": "the stored form is malformed",
		}},
		{closed, map[string]string{"plain": "the client is closed"}},
		{w.db.Client(t, pgqueue.WithEnqueueMiddleware(refuse)), map[string]string{"plain": "an error of type *errors.errorString, whose text is in the log, at debug level"}},
	} {
		w.exec("UPDATE pgqueue.schedules SET failures = 0, retry_at = NULL, last_error = NULL")
		if _, err := newTestScheduler(t, c.client, Config{}, movable).Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, want := range c.want {
			if got := value[string](w, "SELECT coalesce(last_error, '') FROM pgqueue.schedules WHERE name = $1", name); !strings.Contains(got, want) || strings.Contains(got, "secret") {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	pgqueuetest.RequireNotEnqueued[invoices](t, w.db.Pool)
}
