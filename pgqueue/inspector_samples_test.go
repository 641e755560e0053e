package pgqueue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func samplesOf(t *testing.T, inspector *pgqueue.Inspector, filter pgqueue.SampleFilter) ([]pgqueue.Sample, pgqueue.SampleSummary) {
	t.Helper()
	var all []pgqueue.Sample
	summary, err := inspector.Samples(testContext(t), filter, func(sample pgqueue.Sample) error {
		all = append(all, sample)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if summary.Count != len(all) {
		t.Errorf("the summary says %d samples, %d came", summary.Count, len(all))
	}
	return all, summary
}

func TestSamplesAreTheLatestFirst(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := newInspector(t, db.Pool)
	if none, summary := samplesOf(t, inspector, pgqueue.SampleFilter{}); len(none) != 0 || summary.More {
		t.Errorf("of nothing: %v %+v", none, summary)
	}
	insertRun(t, db.Pool, 1, 100, "mail", "succeeded", time.Second)
	insertRun(t, db.Pool, 1_001, 20, "other", "dead", time.Second)
	all, summary := samplesOf(t, inspector, pgqueue.SampleFilter{})
	if len(all) != 120 || summary.More || !summary.Since.IsZero() {
		t.Fatalf("%d samples, %+v", len(all), summary)
	}
	for n, sample := range all {
		outcome := pgqueue.SampleSucceeded
		if n >= 100 {
			outcome = pgqueue.SampleDead
		}
		if sample.Outcome != outcome || sample.Wait != time.Second || sample.Run != 2*time.Second || sample.Kind != "task" || sample.Attempt != 1 {
			t.Fatalf("sample %d: %+v", n, sample)
		}
	}
	if newest, oldest := all[0].FinishedAt, all[99].FinishedAt; newest.Before(oldest) {
		t.Errorf("%s comes before %s", newest, oldest)
	}
}

// What failed is read of the same time as what succeeded: otherwise a bound would show a day of failures beside a minute of successes.
func TestABoundOfSamplesIsOneOfTime(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := newInspector(t, db.Pool)
	insertRun(t, db.Pool, 0, 1_000, "mail", "succeeded", time.Second)
	insertRun(t, db.Pool, 2_000, 50, "mail", "failed", 20*time.Second)
	all, summary := samplesOf(t, inspector, pgqueue.SampleFilter{Limit: 200})
	if !summary.More || len(all) > 200 || summary.Since.IsZero() {
		t.Fatalf("%d samples, %+v", len(all), summary)
	}
	failed := 0
	for _, sample := range all {
		if sample.FinishedAt.Before(summary.Since) {
			t.Errorf("a sample of %s, the others reach back to %s", sample.FinishedAt, summary.Since)
		}
		if sample.Outcome == pgqueue.SampleFailed {
			failed++
		}
	}
	// 150 successes of a second each: in that time 8 failed, one each 20 s.
	if got := len(all) - failed; got != 150 || failed < 7 || failed > 9 {
		t.Errorf("%d succeeded and %d failed", got, failed)
	}
}

// An earlier attempt that failed is a sample of its own, whose wait nobody has stored; what was cancelled before it began is none.
func TestSamplesOfEarlierAttempts(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	insertRun(t, db.Pool, 1, 3, "mail", "succeeded", time.Second)
	insertRun(t, db.Pool, 4, 1, "mail", "cancelled", time.Second)
	exec(t, db.Pool, `UPDATE pgqueue.history SET claimed_at = NULL, attempt = 0 WHERE id = 4`)
	exec(t, db.Pool, `UPDATE pgqueue.history SET attempt = 3, error_count = 4, errors = '[
		{"attempt": 1, "started": "2026-01-02T03:04:05Z", "at": "2026-01-02T03:04:07Z", "code": "x"},
		{"attempt": 2, "at": "2026-01-02T03:05:07Z", "code": "x"},
		{"attempt": 7, "at": "2026-01-02T03:05:07Z"}, {"code": "of an older version"}]' WHERE id = 3`)
	exec(t, db.Pool, `UPDATE pgqueue.history SET error_count = 1, errors = '{"no": "list"}' WHERE id = 2`)
	all, _ := samplesOf(t, newInspector(t, db.Pool), pgqueue.SampleFilter{})
	var got []string
	for _, sample := range all {
		got = append(got, fmt.Sprintf("%d %s %v %s", sample.Attempt, sample.Outcome, sample.Wait >= 0, sample.Run))
	}
	want := []string{"1 succeeded true 2s", "1 succeeded true 2s", "1 retried false 2s", "2 retried false -1ns", "3 succeeded true 2s"}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("samples %q, want %q", got, want)
	}
}

func TestSamplesOfAFilter(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := newInspector(t, db.Pool)
	insertRun(t, db.Pool, 0, 60, "mail", "succeeded", time.Second)
	insertRun(t, db.Pool, 100, 60, "it's", "succeeded", time.Minute)
	insertRun(t, db.Pool, 200, 60, "it's", "dead", time.Minute)
	for name, test := range map[string]struct {
		filter pgqueue.SampleFilter
		want   int
	}{
		"queue":           {pgqueue.SampleFilter{Queue: "it's"}, 120},
		"kind":            {pgqueue.SampleFilter{Kind: "task"}, 180},
		"no such kind":    {pgqueue.SampleFilter{Kind: "other"}, 0},
		"since":           {pgqueue.SampleFilter{Queue: "it's", Since: time.Now().Add(-150 * time.Second)}, 6},
		"since, infinite": {pgqueue.SampleFilter{Since: time.Now().Add(time.Hour)}, 0},
	} {
		if all, _ := samplesOf(t, inspector, test.filter); len(all) != test.want {
			t.Errorf("%s: %d samples, want %d", name, len(all), test.want)
		}
	}
	for field, filter := range map[string]pgqueue.SampleFilter{
		"queue": {Queue: strings.Repeat("q", 129)}, "kind": {Kind: "\xff"}, "limit": {Limit: -1}, "since": {Since: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		_, err := inspector.Samples(testContext(t), filter, nil)
		if invalid, ok := errors.AsType[*pgqueue.ValidationError](err); !ok || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// An error of who takes the samples ends the reading, is returned as it is, and leaves the pool usable.
func TestSamplesEndWithTheErrorOfWhoTakesThem(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := newInspector(t, db.Pool)
	insertRun(t, db.Pool, 0, 5_000, "mail", "succeeded", time.Millisecond)
	enough, taken := errors.New("enough"), 0
	_, err := inspector.Samples(testContext(t), pgqueue.SampleFilter{}, func(pgqueue.Sample) error {
		if taken++; taken == 7 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || taken != 7 {
		t.Errorf("after %d: %v", taken, err)
	}
	if all, _ := samplesOf(t, inspector, pgqueue.SampleFilter{}); len(all) != 5_000 {
		t.Errorf("%d samples afterwards", len(all))
	}
}

// Statistics that know nothing, and a filter that matches almost nothing: no table may be read whole, and a window must not read what is
// before it.
func TestSamplesReadNoMoreThanTheyMust(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := newInspector(t, db.Pool)
	// Four rows a page, so that there are many pages.
	exec(t, db.Pool, `INSERT INTO pgqueue.history (id, queue, kind, state, attempt, finished_at, claimed_at, day, `+endedColumns+`)
		SELECT g, 'mail', 'task', 'succeeded', 1, x.at, x.at, (x.at AT TIME ZONE 'UTC')::date, x.at, now(), 1, 0, 1, 0, 3,
		       jsonb_build_object('text', repeat('x', 1700)), '{}', '{}'
		FROM generate_series(1, 20000) g, LATERAL (SELECT now() - (20000 - g) * interval '10 ms' AS at) x`)
	insertRun(t, db.Pool, 100_000, 2_000, "mail", "dead", time.Second)
	read := func(filter pgqueue.SampleFilter) (whole, rows int) {
		t.Helper()
		whole, rows = scans(t, db.Pool)
		samplesOf(t, inspector, filter)
		wholeAfter, rowsAfter := scans(t, db.Pool)
		return wholeAfter - whole, rowsAfter - rows
	}
	for name, test := range map[string]struct {
		filter pgqueue.SampleFilter
		most   int // rows
	}{
		"a few":              {pgqueue.SampleFilter{Limit: 10}, 3_000},
		"a window":           {pgqueue.SampleFilter{Since: time.Now().Add(-10 * time.Second), Kind: "none"}, 10_000},
		"a kind that is not": {pgqueue.SampleFilter{Kind: "none"}, 25_000},
		"a queue":            {pgqueue.SampleFilter{Queue: "mail"}, 25_000},
	} {
		if whole, rows := read(test.filter); whole != 0 || rows > test.most {
			t.Errorf("%s: %d tables were read whole, and %d rows, where %d should do", name, whole, rows, test.most)
		}
	}
}

// scans is how often a partition of history was read whole, and how many rows were read by the pages or by an index.
func scans(t *testing.T, pool *pgxpool.Pool) (whole, rows int) {
	t.Helper()
	pool.Reset() // what a session has counted is told at its end
	row := pool.QueryRow(testContext(t), `
		SELECT coalesce(sum(seq_scan), 0), coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)
		FROM pg_stat_user_tables WHERE schemaname = 'pgqueue' AND relname ~ '^history_'`)
	if err := row.Scan(&whole, &rows); err != nil {
		t.Fatal(err)
	}
	return whole, rows
}
