package pgqueue_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// insertRun writes n jobs that ended a second apart, the last one now, each due 3 s, claimed 2 s before its end.
func insertRun(t testing.TB, pool *pgxpool.Pool, first int64, n int, queue, state string, every time.Duration) {
	t.Helper()
	exec(t, pool, `INSERT INTO pgqueue.history (id, queue, kind, state, attempt, finished_at, claimed_at, day, `+endedColumns+`)
		SELECT $1::bigint + g, $3, 'task', $4::text, 1, x.at, x.at - interval '2 s',
		       CASE WHEN $4::text IN ('failed', 'dead') THEN 'infinity' ELSE (x.at AT TIME ZONE 'UTC')::date END,
		       x.at - interval '3 s', now(), 1, 0, 1, 0, 3, '{}', '{}', '{}'
		FROM generate_series($2::int - 1, 0, -1) g, LATERAL (SELECT now() - g * $5::float8 * interval '1 s' AS at) x`, first, n, queue, state, every.Seconds())
}

func TestActivityTellsWhatEnded(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	ctx, inspector := testContext(t), newInspector(t, db.Pool)

	none, err := inspector.Activity(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if none.Total.Ended() != 0 || len(none.Queues) != 0 || none.More || len(none.Total.Series) != pgqueue.ActivityBuckets {
		t.Errorf("of nothing: %+v", none)
	}
	if span := none.Until.Sub(none.Since); span != pgqueue.DefaultActivityWindow {
		t.Errorf("the window is %s", span)
	}

	insertRun(t, db.Pool, 0, 100, "mail", "succeeded", time.Second)
	insertRun(t, db.Pool, 1_000, 10, "mail", "dead", time.Second)
	insertRun(t, db.Pool, 2_000, 5, "other", "cancelled", time.Second)
	insertRun(t, db.Pool, 3_000, 3, "other", "failed", time.Second)
	exec(t, db.Pool, `UPDATE pgqueue.history SET run_at = '-infinity', claimed_at = NULL WHERE id = 2000`)

	activity, err := inspector.Activity(ctx, 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	total := activity.Total
	if total.Succeeded != 100 || total.Dead != 10 || total.Cancelled != 5 || total.Failed != 3 || activity.More {
		t.Errorf("all: %+v", total)
	}
	if want := 118.0 / 600; math.Abs(total.PerSecond-want) > 1e-6 {
		t.Errorf("per second: %f instead of %f", total.PerSecond, want)
	}
	if total.Wait != (pgqueue.Durations{P50: time.Second, P95: time.Second, Max: time.Second}) || total.Run.P50 != 2*time.Second {
		t.Errorf("wait %+v, run %+v", total.Wait, total.Run)
	}
	if len(activity.Queues) != 2 || activity.Queues[0].Queue != "mail" {
		t.Fatalf("queues: %+v", activity.Queues)
	}
	mail, other := activity.Queue("mail"), activity.Queue("other")
	if mail.Ended() != 110 || other.Ended() != 8 || other.Failed != 3 {
		t.Errorf("by queue: %+v %+v", mail, other)
	}
	done, bad := 0, 0
	for _, bucket := range mail.Series {
		done, bad = done+bucket.Done, bad+bucket.Bad
	}
	if done != 100 || bad != 10 || mail.Series[29].Done == 0 || mail.Series[0].Done != 0 {
		t.Errorf("series: %+v", mail.Series)
	}
	if nobody := activity.Queue("nobody"); nobody.Ended() != 0 || len(nobody.Series) != pgqueue.ActivityBuckets {
		t.Errorf("a queue without any: %+v", nobody)
	}
}

func TestActivityRefusesWindows(t *testing.T) {
	t.Parallel()
	inspector := newInspector(t, pgqueuetest.New(t).Pool)
	for _, window := range []time.Duration{-1, time.Millisecond, 25 * time.Hour} {
		_, err := inspector.Activity(testContext(t), window)
		var invalid *pgqueue.ValidationError
		if !errors.As(err, &invalid) || invalid.Field != "window" {
			t.Errorf("%s: %v", window, err)
		}
	}
}

// A backlog with old numbers that is drained now is what happens now; the highest numbers would not show it.
func TestActivitySeesAnOldBacklogDrained(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	ctx, inspector := testContext(t), newInspector(t, db.Pool)
	// The highest numbers ended hours ago, if today is that old: they are many pages.
	n := 40_000
	exec(t, db.Pool, `INSERT INTO pgqueue.history (id, queue, kind, state, attempt, finished_at, claimed_at, day, `+endedColumns+`)
		SELECT 1000000 + g, 'trickle', 'task', 'succeeded', 1, now() - interval '1 hour', now() - interval '1 hour', (now() AT TIME ZONE 'UTC')::date, `+endedValues+`
		FROM generate_series(1, $1::int) g`, n)
	insertRun(t, db.Pool, 0, 200, "backlog", "succeeded", time.Second)
	activity, err := inspector.Activity(ctx, 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if activity.Total.Succeeded != 200 || activity.Queue("trickle").Ended() != 0 {
		t.Errorf("%+v", activity.Total)
	}
}

// More is said where the window holds more than is looked at, and the rate is that of the part that was.
func TestActivityIsBounded(t *testing.T) {
	t.Parallel()
	record := &sent{}
	db := pgqueuetest.New(t)
	pool := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = record })
	ctx, inspector := testContext(t), newInspector(t, pool)
	n := 60_000
	if os.Getenv("PGQUEUE_TEST_FULL") != "" {
		n = 1_000_000
	}
	exec(t, db.Pool, `INSERT INTO pgqueue.history (id, queue, kind, state, attempt, finished_at, claimed_at, day, `+endedColumns+`)
		SELECT g, 'busy', 'task', 'succeeded', 1, now() - ($1::int - g) * interval '1 ms', now() - ($1::int - g) * interval '1 ms', (now() AT TIME ZONE 'UTC')::date, `+endedValues+`
		FROM generate_series(1, $1::int) g`, n)
	insertDead(t, db.Pool, 2_000_000, 20_000)

	started := time.Now()
	activity, err := inspector.Activity(ctx, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("activity of %d took %s: %+v", n, time.Since(started), activity.Total.Ended())
	if !activity.More || activity.Total.Ended() >= 45_000 || activity.Total.Ended() < 1_000 {
		t.Errorf("more %v, %d ended", activity.More, activity.Total.Ended())
	}
	if busy := activity.Queue("busy"); busy.PerSecond < 500 || busy.PerSecond > 1_500 {
		t.Errorf("a thousand a second are %f", busy.PerSecond)
	}
	requireIndexed(t, db.Pool, record, "activity", 75_000, func() {
		if _, err := inspector.Activity(ctx, time.Hour); err != nil {
			t.Fatal(err)
		}
	})
}

// Out of a day's partition much was deleted, and its first pages are filled anew: the last pages are not the latest any more.
func TestActivityAfterAPurge(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	ctx, inspector := testContext(t), newInspector(t, db.Pool)
	exec(t, db.Pool, `INSERT INTO pgqueue.history (id, queue, kind, state, attempt, finished_at, claimed_at, day, `+endedColumns+`)
		SELECT g, 'old', 'task', 'succeeded', 1, now() - interval '2 hours', now() - interval '2 hours', (now() AT TIME ZONE 'UTC')::date, `+endedValues+`
		FROM generate_series(1, 60000) g`)
	exec(t, db.Pool, `DELETE FROM pgqueue.history WHERE id <= 30000`)
	exec(t, db.Pool, `VACUUM pgqueue.history`)
	insertRun(t, db.Pool, 100_000, 200, "now", "succeeded", time.Second)
	activity, err := inspector.Activity(ctx, 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if now := activity.Queue("now"); now.Succeeded != 200 {
		t.Errorf("%s", fmt.Sprintf("%+v", activity.Total))
	}
}
