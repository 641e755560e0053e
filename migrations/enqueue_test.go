package migrations_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// job describes the one live job of a key.
func job(t *testing.T, pool *pgxpool.Pool, key string) string {
	t.Helper()
	return value[string](t, pool, `SELECT format('%s gen %s claimed %s failures %s revision %s payload %s priority %s', state, generation, claimed_generation, failures,
		coalesce(revision, '-'), payload, priority) FROM pgqueue.jobs WHERE key = $1`, key)
}

func TestEnqueue_FillsEveryColumn(t *testing.T) {
	pool := installed(t, "")
	id := value[int64](t, pool, `SELECT pgqueue.enqueue('mail', '{"n": 1}', queue => 'slow', key => 'k', revision => 'r', run_at => '2031-02-03 04:05:06+00',
		priority => 4, max_attempts => 7, tags => ARRAY['a', 'b'], metadata => '{"m": 2}')`)
	got := value[string](t, pool, `SELECT format('%s %s %s %s %s %s %s %s %s %s %s %s', kind, payload, queue, key, revision, to_char(run_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'),
		priority, max_attempts, tags, metadata, state, attempt) FROM pgqueue.jobs WHERE id = $1`, id)
	if want := `mail {"n": 1} slow k r 2031-02-03 04:05:06 4 7 {a,b} {"m": 2} pending 0`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	id = value[int64](t, pool, `SELECT pgqueue.enqueue('mail')`)
	got = value[string](t, pool, `SELECT format('%s %s %s %s %s %s %s %s %s', kind, payload, queue, key IS NULL, run_at <= now(), priority, max_attempts, tags, metadata) FROM pgqueue.jobs WHERE id = $1`, id)
	if want := `mail {} default t t 1 3 {} {}`; got != want {
		t.Errorf("defaults: got %s, want %s", got, want)
	}
}

func TestEnqueue_KeysAndRevisions(t *testing.T) {
	pool := installed(t, "")
	enqueue := func(args string) int64 {
		return value[int64](t, pool, `SELECT pgqueue.enqueue('k', key => 'a', `+args+`)`)
	}

	id := enqueue(`payload => '1', revision => 'r1', run_at => '2031-01-01'`)
	steps := []struct{ what, args, before, want string }{
		{"same revision: nothing changes", `payload => '2', revision => 'r1', priority => 3`, ``, `pending gen 1 claimed 0 failures 0 revision r1 payload 1 priority 1`},
		{"new revision: replaced, a new budget", `payload => '3', revision => 'r2', priority => 2`, `failures = 2`, `pending gen 2 claimed 0 failures 0 revision r2 payload 3 priority 2`},
		{"no revision: always replaced", `payload => '4'`, ``, `pending gen 3 claimed 0 failures 0 revision - payload 4 priority 1`},
		{"no revision again", `payload => '4'`, ``, `pending gen 4 claimed 0 failures 0 revision - payload 4 priority 1`},
		{"running: superseded", `payload => '5', revision => 'r5'`, `state = 'running', attempt = 1, claimed_generation = 4, claimed_at = now(), lease_expires_at = now()`,
			`running gen 5 claimed 4 failures 0 revision r5 payload 5 priority 1`},
		{"running, same revision", `payload => '6', revision => 'r5'`, ``, `running gen 5 claimed 4 failures 0 revision r5 payload 5 priority 1`},
		{"asked to cancel, same revision: a new input", `payload => '7', revision => 'r5'`, `cancel_requested_at = now()`, `running gen 6 claimed 4 failures 0 revision r5 payload 7 priority 1`},
	}
	for _, s := range steps {
		if s.before != "" {
			run(t, pool, `UPDATE pgqueue.jobs SET `+s.before)
		}
		if got := enqueue(s.args); got != id {
			t.Errorf("%s: job %d, want %d", s.what, got, id)
		}
		if got := job(t, pool, "a"); got != s.want {
			t.Errorf("%s:\ngot  %s\nwant %s", s.what, got, s.want)
		}
	}
	if value[bool](t, pool, `SELECT bool_or(cancel_requested_at IS NOT NULL) FROM pgqueue.jobs`) {
		t.Error("the request to cancel outlived the input it was for")
	}
	if other := value[int64](t, pool, `SELECT pgqueue.enqueue('other', key => 'a')`); other == id {
		t.Error("the key of another kind is the same job")
	}
}

func TestEnqueue_AReplacedJobKeepsItsPlaceInLine(t *testing.T) {
	pool := installed(t, "")
	due := func() string {
		return value[string](t, pool, `SELECT to_char(run_at AT TIME ZONE 'UTC', 'YYYY') FROM pgqueue.jobs WHERE key = 'a'`)
	}
	for _, s := range []struct{ before, at, want string }{
		{``, `2031`, `2031`}, {``, `2032`, `2031`}, {``, `2030`, `2030`},
		{`UPDATE pgqueue.jobs SET state = 'running', claimed_at = now(), lease_expires_at = now()`, `2033`, `2033`},
	} {
		if s.before != "" {
			run(t, pool, s.before)
		}
		run(t, pool, `SELECT pgqueue.enqueue('k', key => 'a', run_at => '`+s.at+`-06-01')`)
		if got := due(); got != s.want {
			t.Errorf("enqueued for %s: due %s, want %s", s.at, got, s.want)
		}
	}
}

func TestEnqueue_InAnOldSnapshotTakesNoShortcut(t *testing.T) {
	pool := installed(t, "")
	run(t, pool, `SELECT pgqueue.enqueue('k', key => 'a', revision => 'r')`)
	tx, err := pool.BeginTx(testContext(t), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	_ = value[int](t, tx, `SELECT count(*) FROM pgqueue.jobs`)
	run(t, pool, `DELETE FROM pgqueue.jobs`) // it has finished meanwhile
	id := value[int64](t, tx, `SELECT pgqueue.enqueue('k', key => 'a', revision => 'r')`)
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if n := value[int](t, pool, `SELECT count(*) FROM pgqueue.jobs WHERE id = $1`, id); n != 1 {
		t.Error("the job vanished")
	}
}

func TestEnqueue_BadInputIsNamed(t *testing.T) {
	pool := installed(t, "")
	for args, want := range map[string]string{
		`NULL`:                                           "enqueue: kind must not be empty",
		`''`:                                             "enqueue: kind must not be empty",
		`repeat('x', 129)`:                               "enqueue: kind is too long: 129 bytes where 128 are allowed",
		`repeat('ü', 65)`:                                "enqueue: kind is too long: 130 bytes where 128 are allowed",
		`'k', NULL`:                                      "enqueue: payload must not be NULL",
		`'k', queue => ''`:                               "enqueue: queue must not be empty",
		`'k', queue => NULL`:                             "enqueue: queue must not be empty",
		`'k', queue => repeat('x', 129)`:                 "enqueue: queue is too long: 129 bytes where 128 are allowed",
		`'k', key => ''`:                                 "enqueue: key must not be empty (NULL = no key)",
		`'k', key => repeat('x', 513)`:                   "enqueue: key is too long: 513 bytes where 512 are allowed",
		`'k', revision => 'r'`:                           "enqueue: revision needs a key",
		`'k', key => 'a', revision => ''`:                "enqueue: revision must not be empty (NULL = no revision)",
		`'k', run_at => 'infinity'`:                      "enqueue: run_at must lie in the years 1 to 9999, is infinity",
		`'k', run_at => '-infinity'`:                     "enqueue: run_at must lie in the years 1 to 9999, is -infinity",
		`'k', run_at => '10001-01-01'`:                   "enqueue: run_at must lie in the years 1 to 9999, is 10001-01-01 00:00:00+00",
		`'k', priority => 0`:                             "enqueue: priority must be from 1 to 4, is 0",
		`'k', priority => 5`:                             "enqueue: priority must be from 1 to 4, is 5",
		`'k', priority => NULL`:                          "enqueue: priority must be from 1 to 4, is NULL",
		`'k', max_attempts => 0`:                         "enqueue: max_attempts must be from 1 to 32767, is 0",
		`'k', max_attempts => 32768`:                     "enqueue: max_attempts must be from 1 to 32767, is 32768",
		`'k', tags => NULL`:                              "enqueue: tags must not be NULL",
		`'k', tags => ARRAY[ARRAY['a']]`:                 "enqueue: tags must have one dimension",
		`'k', tags => ARRAY['a', NULL]`:                  "enqueue: tags must not hold an empty one",
		`'k', tags => ARRAY[repeat('x', 256)]`:           "enqueue: tags hold one that is too long: 255 bytes are allowed",
		`'k', tags => array_fill('x'::text, ARRAY[101])`: "enqueue: tags are too many: 101 where 100 are allowed",
		`'k', metadata => NULL`:                          "enqueue: metadata must not be NULL",
		`'k', metadata => '[]'`:                          "enqueue: metadata must be a JSON object, is array",
		`'k', hint_channel => ''`:                        "enqueue: hint_channel must not be empty (NULL = no hint)",
		`'k', hint_channel => repeat('x', 64)`:           "enqueue: hint_channel is too long: 64 bytes where 63 are allowed",
	} {
		_, err := pool.Exec(testContext(t), `SET timezone = 'UTC'; SELECT pgqueue.enqueue(`+args+`)`)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "22023" || pgErr.Message != want || !strings.HasPrefix(pgErr.Message, "enqueue: "+pgErr.ColumnName+" ") || pgErr.ColumnName == "" {
			t.Errorf("enqueue(%s): %v, want %s", args, err, want)
		}
	}
	if n := value[int](t, pool, `SELECT count(*) FROM pgqueue.jobs`); n != 0 {
		t.Errorf("%d bad jobs were written", n)
	}
}

func TestEnqueue_TheHintIsDeliveredAfterCommitOnly(t *testing.T) {
	pool := installed(t, "")
	ctx := testContext(t)
	listening, err := pgx.Connect(ctx, pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listening.Close(context.Background()) }()
	if _, err := listening.Exec(ctx, `LISTEN pgqueue`); err != nil {
		t.Fatal(err)
	}

	for _, queue := range []string{"rolled back", "committed"} {
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_ = value[int64](t, tx, `SELECT pgqueue.enqueue('k', queue => $1)`, queue)
		if queue == "committed" {
			// Nothing has arrived so far: neither from the rollback nor before the commit. The server sends what is due with the answer
			// to this statement.
			if _, err := listening.Exec(ctx, `SELECT 1`); err != nil {
				t.Fatal(err)
			}
			early, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			note, err := listening.WaitForNotification(early)
			cancel()
			if err == nil {
				t.Fatalf("a hint before the commit: %+v", note)
			}
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
		} else if err := tx.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if listening.IsClosed() {
		t.Fatal("the listening connection was closed by its time-out")
	}
	note, err := listening.WaitForNotification(ctx)
	if err != nil || note.Payload != "committed" {
		t.Fatalf("the hint: %+v, %v", note, err)
	}

	// No channel, no hint; the same revision, no hint; another channel, there.
	run(t, pool, `SELECT pgqueue.enqueue('k', queue => 'silent', hint_channel => NULL)`)
	run(t, pool, `SELECT pgqueue.enqueue('k', queue => 'keyed', key => 'a', revision => 'r', hint_channel => NULL)`)
	run(t, pool, `SELECT pgqueue.enqueue('k', queue => 'keyed', key => 'a', revision => 'r')`)
	run(t, pool, `SELECT pgqueue.enqueue('k', queue => 'elsewhere', hint_channel => 'other')`)
	run(t, pool, `SELECT pgqueue.enqueue('k', queue => 'last')`)
	if note, err = listening.WaitForNotification(ctx); err != nil || note.Payload != "last" {
		t.Errorf("the next hint: %+v, %v; want the one of the last enqueue", note, err)
	}
}
