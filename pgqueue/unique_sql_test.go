package pgqueue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Each rule has one identity, whether SQL enqueues first or Go does, and one effect.
func TestEnqueueUniqueFromSQLAgreesWithGo(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	const century, inSQL = 100 * 365 * day, "'36500 days'"
	for name, c := range map[string]struct {
		sql     string
		options []pgqueue.EnqueueOption
		outcome pgqueue.EnqueueOutcome
	}{
		"idempotency":  {"idempotency_key => 'é k', keep => '1 day'", []pgqueue.EnqueueOption{pgqueue.WithIdempotencyKey("é k", day)}, pgqueue.Duplicate},
		"live":         {"unique_by => 'args'", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{})}, pgqueue.Duplicate},
		"kept":         {"unique_by => 'args', keep => '2 days'", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Keep: day})}, pgqueue.Duplicate},
		"period":       {"unique_by => 'args', period => " + inSQL, []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Period: century})}, pgqueue.Duplicate},
		"members":      {"unique_by => 'args', members => '{/name}'", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Args: []string{"name"}})}, pgqueue.Duplicate},
		"kind":         {"unique_by => 'kind'", []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{IgnoreArgs: true})}, pgqueue.Duplicate},
		"kind, period": {"unique_by => 'kind', period => " + inSQL, []pgqueue.EnqueueOption{pgqueue.WithThrottle(century)}, pgqueue.Duplicate},
		"throttle":     {"throttle => " + inSQL, []pgqueue.EnqueueOption{pgqueue.WithThrottle(century)}, pgqueue.Duplicate},
		"throttle, key": {"key => 'k', throttle => " + inSQL,
			[]pgqueue.EnqueueOption{pgqueue.WithKey("k"), pgqueue.WithThrottle(century)}, pgqueue.Duplicate},
		"debounce": {"key => 'k', debounce => '1 hour', debounce_max => '1 day'",
			[]pgqueue.EnqueueOption{pgqueue.WithKey("k"), pgqueue.WithDebounce(time.Hour, day)}, pgqueue.Replaced},
	} {
		for _, sqlFirst := range []bool{true, false} {
			queue := name
			if sqlFirst {
				queue += ", from SQL first"
			}
			ways := []func() pgqueue.Enqueued{
				func() pgqueue.Enqueued {
					return enqueueSQL(t, db.Pool, `kind => 'greet', payload => '{"name":"ada"}', queue => $1, `+c.sql, queue)
				},
				func() pgqueue.Enqueued {
					return enqueue(t, client, db.Pool, greet{"ada"}, append(c.options, pgqueue.OnQueue(queue))...)
				},
			}
			if !sqlFirst {
				ways[0], ways[1] = ways[1], ways[0]
			}
			first := ways[0]()
			shape := func() string {
				return one[string](t, db.Pool, `SELECT concat_ws(' ', (SELECT string_agg(concat_ws(' ', key, revision, date_trunc('minute', run_at - created_at)), ',') FROM pgqueue.jobs WHERE queue = $1),
					(SELECT string_agg(key, ',') FROM pgqueue.unique_keys WHERE queue = $1))`, queue)
			}
			before := shape()
			second := ways[1]()
			if first.Outcome != pgqueue.Inserted || second.Outcome != c.outcome || second.ID != first.ID {
				t.Errorf("%s: %+v, then %+v", queue, first, second)
			}
			if after := shape(); after != before {
				t.Errorf("%s: %q became %q", queue, before, after)
			}
		}
	}
}

// Bad arguments of the function name the argument.
func TestEnqueueUniqueFromSQLRefuses(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	for arguments, field := range map[string]string{
		"'', idempotency_key => 'k', keep => '1 day'":                                "kind",
		"'k', NULL, idempotency_key => 'k', keep => '1 day'":                         "payload",
		"'k', queue => '', idempotency_key => 'k', keep => '1 day'":                  "queue",
		"'k', key => '', throttle => '1 day'":                                        "key",
		"'k', key => 'k', unique_by => 'args'":                                       "key",
		"'k', debounce => '1 s', debounce_max => '1 s'":                              "key",
		"'k', revision => 'r', throttle => '1 day'":                                  "revision",
		"'k', key => 'k', revision => 'r', debounce => '1 s', debounce_max => '1 s'": "revision",
		"'k', key => 'k', run_at => now(), debounce => '1 s', debounce_max => '1 s'": "run_at",
		"'k', run_at => 'infinity', throttle => '1 s'":                               "run_at",
		"'k', priority => 5, throttle => '1 s'":                                      "priority",
		"'k', max_attempts => 0, throttle => '1 s'":                                  "max_attempts",
		"'k', tags => '{\"\"}', throttle => '1 s'":                                   "tags",
		"'k', metadata => '[]', throttle => '1 s'":                                   "metadata",
		"'k', hint_channel => '', throttle => '1 s'":                                 "hint_channel",
		"'k'": "idempotency_key",
		"'k', idempotency_key => 'k', keep => '1 s', throttle => '1 s'":                             "idempotency_key",
		"'k', unique_by => 'payload'":                                                               "unique_by",
		"'k', unique_by => 'kind', members => '{a}'":                                                "members",
		"'k', unique_by => 'args', members => '{}'":                                                 "members",
		"'k', unique_by => 'args', members => '{a,NULL}'":                                           "members",
		"'k', unique_by => 'args', members => '{/a~2}'":                                             "members",
		"'k', unique_by => 'args', members => '{/a/-1}'":                                            "members",
		"'k', unique_by => 'args', members => '{\" 1\"}'":                                           "members",
		"'k', unique_by => 'args', members => array_fill('a'::text, '{33}')":                        "members",
		"'k', unique_by => 'args', members => ARRAY[repeat('a', 256)]":                              "members",
		"'k', idempotency_key => 'k'":                                                               "keep",
		"'k', idempotency_key => 'k', keep => '0'":                                                  "keep",
		"'k', idempotency_key => 'k', keep => '200 years'":                                          "keep",
		"'k', throttle => '1 s', keep => '1 s'":                                                     "keep",
		"'k', unique_by => 'args', keep => '1 s', period => '1 s'":                                  "period",
		"'k', idempotency_key => 'k', keep => '1 s', period => '1 s'":                               "period",
		"'k', unique_by => 'args', period => '-1 s'":                                                "period",
		"'k', throttle => '0'":                                                                      "throttle",
		"'k', key => 'k', debounce => '0', debounce_max => '1 s'":                                   "debounce",
		"'k', key => 'k', debounce => '1 s'":                                                        "debounce_max",
		"'k', key => 'k', debounce => '2 s', debounce_max => '1 s'":                                 "debounce_max",
		"'k', key => 'k', throttle => '2 s', debounce_max => '1 s'":                                 "debounce_max",
		"'k', key => 'k', debounce => '2 s', debounce_max => '200 years'":                           "debounce_max",
		"'k', key => 'k', debounce => '2 s', debounce_max => '1 day', idempotency_key => 'k'":       "idempotency_key",
		"'k', key => 'k', idempotency_key => repeat('k', 513), keep => '1 day'":                     "idempotency_key",
		"'k', key => repeat('k', 513), idempotency_key => 'k', keep => '1 day'":                     "key",
		"'k', key => 'k', revision => repeat('k', 513), idempotency_key => 'k', keep => '1 day'":    "revision",
		"repeat('k', 129), idempotency_key => 'k', keep => '1 day'":                                 "kind",
		"'k', queue => repeat('k', 129), idempotency_key => 'k', keep => '1 day'":                   "queue",
		"'k', tags => array_fill('a'::text, '{101}'), idempotency_key => 'k', keep => '1 day'":      "tags",
		"'k', hint_channel => repeat('k', 64), idempotency_key => 'k', keep => '1 day'":             "hint_channel",
		"'k', tags => NULL, unique_by => 'args', members => '{{a},{b}}'":                            "tags",
		"'k', unique_by => 'args', members => '{{a},{b}}'":                                          "members",
		"'k', unique_by => 'args', members => '{1,/a/0,b1}', keep => '1 day', period => '1 second'": "period",
	} {
		_, err := db.Pool.Exec(testContext(t), "SELECT pgqueue.enqueue_unique("+arguments+")")
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "22023" || refused.ColumnName != field || !strings.HasPrefix(refused.Message, "enqueue_unique: "+field+" ") {
			t.Errorf("%s: %v, want 22023 of %s", arguments, err, field)
		}
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs"); n != 0 {
		t.Errorf("%d jobs", n)
	}
}

// A trigger may use it: one job for a thousand rows of one statement.
func TestEnqueueUniqueInATrigger(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	exec(t, db.Pool, `CREATE TABLE orders (id int, customer int);
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pgqueue.enqueue_unique('sync', jsonb_build_object('customer', NEW.customer), unique_by => 'args'); RETURN NULL; END $$;
		CREATE TRIGGER note AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION note();
		INSERT INTO orders SELECT n, n % 3 FROM generate_series(1, 300) n`)
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs"); n != 3 {
		t.Errorf("%d jobs of 3 customers", n)
	}
}

// An operator frees a key by hand; the audit log knows of which job, and can refuse.
func TestReleaseKey(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	ctx := testContext(t)
	first := enqueue(t, client, db.Pool, greet{}, pgqueue.WithIdempotencyKey("k", day))
	exec(t, db.Pool, "DELETE FROM pgqueue.jobs")
	var told []pgqueue.AuditEntry
	refusal := errors.New("not today")
	inspector, err := pgqueue.NewInspector(db.Pool, pgqueue.InspectorConfig{Audit: func(_ context.Context, _ pgx.Tx, entry pgqueue.AuditEntry) error {
		told = append(told, entry)
		if len(told) == 1 {
			return refusal
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	inspector = inspector.As("ada")
	if _, err := inspector.ReleaseKey(ctx, "default", "greet", "k"); !errors.Is(err, refusal) {
		t.Errorf("%v, want the refusal", err)
	}
	requireDuplicate(t, enqueue(t, client, db.Pool, greet{}, pgqueue.WithIdempotencyKey("k", day)), first.ID, "")
	id, err := inspector.ReleaseKey(ctx, "default", "greet", "k")
	if err != nil || id != first.ID {
		t.Fatal(id, err)
	}
	last := told[len(told)-1]
	if last.Action != pgqueue.ActionReleaseKey || last.Actor != "ada" || last.Queue != "default" || !equal(last.Jobs, []int64{first.ID}) || last.Detail != "key k of kind greet" {
		t.Errorf("%+v", last)
	}
	if id, err := inspector.ReleaseKey(ctx, "default", "greet", "k"); id != 0 || err != nil || len(told) != 2 {
		t.Errorf("a key that is free: %d, %v, %d entries", id, err, len(told))
	}
	requireOutcome(t, enqueue(t, client, db.Pool, greet{}, pgqueue.WithIdempotencyKey("k", day)), pgqueue.Inserted)
	for field, call := range map[string][3]string{"queue": {"", "greet", "k"}, "kind": {"default", "", "k"}, "key": {"default", "greet", ""}} {
		_, err := inspector.ReleaseKey(ctx, call[0], call[1], call[2])
		requireInvalid(t, err, field)
	}
	// In a transaction of the caller's it becomes true with the COMMIT.
	tx := begin(t, db.Pool, pgx.TxOptions{})
	if id, err := inspector.On(tx).ReleaseKey(ctx, "default", "greet", "k"); id == 0 || err != nil {
		t.Fatal(id, err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if got := enqueue(t, client, db.Pool, greet{}, pgqueue.WithIdempotencyKey("k", day)); got.Outcome != pgqueue.Duplicate {
		t.Error(got)
	}
}
