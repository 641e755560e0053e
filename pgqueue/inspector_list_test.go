package pgqueue_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// zoo fills both tables with n jobs of all sorts, in few values, so that every filter finds some.
func zoo(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	const made = `
		SELECT g AS id, (ARRAY['a', 'b', 'c'])[1 + g % 3] AS queue, (ARRAY['k1', 'k2'])[1 + g % 2] AS kind,
		       (ARRAY['pending', 'running', 'succeeded', 'cancelled', 'failed', 'dead'])[1 + (g / 7 + g) % 6] AS state,
		       CASE WHEN g % 5 = 0 THEN 'key ' || g % 20 END AS key, 1 + g % 4 AS priority,
		       now() - (g % 50) * interval '20 minutes' AS run_at, now() - ($1::int - g) * interval '1 minute' AS created_at,
		       now() - (g % 17) * interval '1 hour' AS finished_at, g % 3 AS errors,
		       jsonb_build_object('n', g % 10, 'user', jsonb_build_object('id', 9007199254740993 + g % 2)) AS payload,
		       CASE WHEN g % 4 = 0 THEN ARRAY['red', 'blue'] WHEN g % 4 = 1 THEN ARRAY['red'] ELSE '{}' END AS tags,
		       (ARRAY['w1', 'w2'])[1 + g % 2] AS worker
		FROM generate_series(1, $1::int) g`
	exec(t, pool, `INSERT INTO pgqueue.jobs (id, queue, kind, state, key, priority, run_at, created_at, payload, tags, claimed_by, claimed_at,
			lease_expires_at, error_count, errors, attempt)
		SELECT id, queue, kind, state, key || id, priority, run_at, created_at, payload, tags, worker, now() - id * interval '1 s',
			now() + interval '1 h', errors, CASE WHEN errors > 0 THEN jsonb_build_array(jsonb_build_object('code', 'code' || errors, 'message', 'm')) END, 1
		FROM (`+made+`) z WHERE state IN ('pending', 'running')`, n)
	exec(t, pool, `INSERT INTO pgqueue.history (id, queue, kind, state, key, priority, run_at, created_at, payload, tags, claimed_by, claimed_at,
			error_count, errors, attempt, finished_at, day, generation, failures, max_attempts, metadata)
		SELECT id, queue, kind, state, key, priority, run_at, created_at, payload, tags, worker, now(), errors,
			CASE WHEN errors > 0 THEN jsonb_build_array(jsonb_build_object('code', 'code' || errors, 'message', 'm')) END, 1, finished_at,
			CASE WHEN state IN ('failed', 'dead') THEN 'infinity' -- some from a transaction that was open across midnight
				ELSE greatest((finished_at AT TIME ZONE 'UTC')::date - (id % 11 = 0)::int, (now() AT TIME ZONE 'UTC')::date - 1) END, 1, 0, 3, '{}'
		FROM (`+made+`) z WHERE state NOT IN ('pending', 'running')`, n)
	exec(t, pool, `SELECT setval('pgqueue.jobs_id_seq', $1)`, n)
}

// animal is a job of the zoo as a plain query shows it.
type animal struct {
	pgqueue.JobSummary
	hasFinished bool
	payload     map[string]any
	code        string
	key         string
}

func animals(t testing.TB, pool *pgxpool.Pool) []animal {
	t.Helper()
	const columns = `id, queue, kind, state, coalesce(key, ''), priority, run_at, created_at, payload::text, tags, claimed_by, coalesce(errors->-1->>'code', '')`
	rows, err := pool.Query(testContext(t), `SELECT `+columns+`, NULL::timestamptz FROM pgqueue.jobs UNION ALL SELECT `+columns+`, finished_at FROM pgqueue.history`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a animal, err error) {
		var finished *time.Time
		var payload string
		err = row.Scan(&a.ID, &a.Queue, &a.Kind, &a.State, &a.key, &a.Priority, &a.RunAt, &a.CreatedAt, &payload, &a.Tags, &a.ClaimedBy, &a.code, &finished)
		if finished != nil {
			a.FinishedAt, a.hasFinished = *finished, true
		}
		if err == nil {
			err = json.Unmarshal([]byte(payload), &a.payload)
		}
		return a, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// matches is the filter once more, in Go.
func matches(f *pgqueue.Filter, a *animal) bool {
	in := func(r pgqueue.TimeRange, at time.Time) bool {
		return (r.From.IsZero() || !at.Before(r.From)) && (r.To.IsZero() || at.Before(r.To))
	}
	for _, tag := range f.Tags {
		if !slices.Contains(a.Tags, tag) {
			return false
		}
	}
	if len(f.Payload) > 0 {
		var want map[string]any
		if json.Unmarshal(f.Payload, &want) != nil || fmt.Sprint(want["n"]) != fmt.Sprint(a.payload["n"]) {
			return false
		}
	}
	return (len(f.States) == 0 || slices.Contains(f.States, a.State)) &&
		(f.Queue == "" || f.Queue == a.Queue) && (f.Kind == "" || f.Kind == a.Kind) && (f.Key == "" || f.Key == a.key) &&
		(f.Priority == 0 || f.Priority == a.Priority) && f.MinID <= a.ID && (f.MaxID == 0 || a.ID <= f.MaxID) &&
		(f.IDs == nil || slices.Contains(f.IDs, a.ID)) && in(f.Created, a.CreatedAt) && in(f.Due, a.RunAt) &&
		(f.Finished == pgqueue.TimeRange{} || a.hasFinished && in(f.Finished, a.FinishedAt)) &&
		(f.ErrorCode == "" || f.ErrorCode == a.code) && (f.ClaimedBy == "" || f.ClaimedBy == a.ClaimedBy)
}

// randomFilter sets each field now and then.
func randomFilter(r *rand.Rand, n int) (f pgqueue.Filter) {
	maybe := func(share int) bool { return r.IntN(share) == 0 }
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	span := func() (t pgqueue.TimeRange) {
		if maybe(2) {
			t.From = time.Now().Add(-time.Duration(r.IntN(1000)) * time.Minute)
		}
		if maybe(2) {
			t.To = time.Now().Add(-time.Duration(r.IntN(1000)) * time.Minute)
		}
		if !t.From.IsZero() && !t.To.IsZero() && !t.From.Before(t.To) {
			t.From, t.To = t.To, t.From.Add(time.Second)
		}
		return t
	}
	if maybe(2) {
		all := []pgqueue.JobState{"pending", "running", "succeeded", "cancelled", "failed", "dead"}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		f.States = all[:1+r.IntN(3)]
	}
	if maybe(3) {
		f.Queue = pick("a", "b", "c")
	}
	if maybe(5) {
		f.Kind = pick("k1", "k2")
	}
	if maybe(10) {
		f.Key = "key 0"
	}
	if maybe(6) {
		f.Tags = [][]string{{"red"}, {"blue", "red"}}[r.IntN(2)]
	}
	if maybe(6) {
		f.Priority = 1 + r.IntN(4)
	}
	if maybe(6) {
		f.MinID = int64(r.IntN(n))
	}
	if maybe(6) {
		f.MaxID = f.MinID + int64(r.IntN(n))
	}
	if maybe(8) {
		for range 1 + r.IntN(50) {
			f.IDs = append(f.IDs, int64(1+r.IntN(n)))
		}
	}
	if maybe(6) {
		f.Created = span()
	}
	if maybe(6) {
		f.Finished = span()
	}
	if maybe(6) {
		f.Due = span()
	}
	if maybe(6) {
		f.ErrorCode = pick("code1", "code2")
	}
	if maybe(6) {
		f.Payload = json.RawMessage(fmt.Sprintf(`{"n": %d}`, r.IntN(10)))
	}
	if maybe(8) {
		f.ClaimedBy = pick("w1", "w2")
	}
	return f
}

// Whatever is asked, in whatever order and however little is looked at for a page: paging sees exactly what matches, in order,
// forward and back.
func TestListFindsWhatMatches(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	n := size(400, 2000)
	zoo(t, db.Pool, n)
	all := animals(t, db.Pool)
	inspector := newInspector(t, db.Pool)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	found := 0
	for round := range size(250, 2000) {
		filter := randomFilter(r, n)
		options := pgqueue.ListOptions{Limit: 1 + r.IntN(40), Scan: 1 + r.IntN(120), Order: pgqueue.OrderNewest}
		less := func(a, b *animal) bool { return a.ID < b.ID }
		switch round % 5 {
		case 1:
			options.Order = pgqueue.OrderOldest
		case 2, 3:
			options.Order = []pgqueue.ListOrder{pgqueue.OrderLatestEnded, pgqueue.OrderFirstEnded}[round%5-2]
			filter.States = []pgqueue.JobState{pgqueue.JobDead, pgqueue.JobFailed}[r.IntN(2):]
			less = func(a, b *animal) bool {
				if !a.FinishedAt.Equal(b.FinishedAt) {
					return a.FinishedAt.Before(b.FinishedAt)
				}
				return a.ID < b.ID
			}
		case 4:
			options.Order = pgqueue.OrderNextDue
			filter.States, filter.Queue = []pgqueue.JobState{pgqueue.JobPending}, "b"
			less = func(a, b *animal) bool {
				switch {
				case a.Priority != b.Priority:
					return a.Priority < b.Priority
				case !a.RunAt.Equal(b.RunAt):
					return a.RunAt.Before(b.RunAt)
				default:
					return a.ID < b.ID
				}
			}
		}
		if round%3 == 0 {
			options.Scan = 0
		}
		var wanted []animal
		for i := range all {
			if matches(&filter, &all[i]) {
				wanted = append(wanted, all[i])
			}
		}
		slices.SortFunc(wanted, func(a, b animal) int {
			switch {
			case a.ID == b.ID:
				return 0
			case less(&a, &b):
				return -1
			default:
				return 1
			}
		})
		if options.Order == pgqueue.OrderNewest || options.Order == pgqueue.OrderLatestEnded {
			slices.Reverse(wanted)
		}
		var want []int64
		for i := range wanted {
			want = append(want, wanted[i].ID)
		}
		found += len(want)
		seen, last := walk(t, inspector, filter, options)
		if !equal(seen, want) {
			t.Fatalf("seed %d: %+v %+v\n saw %v\nwant %v", seed, filter, options, seen, want)
		}
		// And back again.
		back := slices.Clone(ids(last.Jobs))
		for options.Cursor = last.Prev; options.Cursor != ""; {
			page := list(t, inspector, filter, options)
			back = append(slices.Clone(ids(page.Jobs)), back...)
			options.Cursor = page.Prev
		}
		if !equal(back, want) {
			t.Fatalf("seed %d: %+v %+v\nback, saw %v\n      want %v", seed, filter, options, back, want)
		}
	}
	if found < 1000 {
		t.Errorf("only %d jobs were found in all: the filters are too narrow", found)
	}
}
