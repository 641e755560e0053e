package migrations_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// why asks why_not_running.
func why(t *testing.T, pool *pgxpool.Pool, id int64) string {
	t.Helper()
	return value[string](t, pool, `SELECT coalesce(pgqueue.why_not_running($1), 'NULL')`, id)
}

// requireWords checks that an answer has all of some words, in this order; each is a regular expression.
func requireWords(t *testing.T, answer string, words ...string) {
	t.Helper()
	if !regexp.MustCompile(`(?s)` + strings.Join(words, `.*`)).MatchString(answer) {
		t.Errorf("the answer is\n\t%s\nwant\n\t%s", answer, strings.Join(words, " … "))
	}
}

// beat reports a worker; what is not said here is usual.
func beat(t *testing.T, pool *pgxpool.Pool, id, queues, kinds string) {
	t.Helper()
	run(t, pool, `SELECT pgqueue.heartbeat($1, 'host', 7, 'v1', NULL, '10 s', $1 LIKE 'stopping%', $2, $3)`, id, queues, kinds)
}

const utc = `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \(`

// One answer a reason. The other reasons stay out of it: what does not stand in the way is not said.
func TestWhyNotRunning_OneReasonAtATime(t *testing.T) {
	const free, send = `{"mail": {"workers": 10, "in_flight": 3, "buffered": 0, "stuck": 0, "paused_until": null}}`, `{"send": {"workers": 5, "in_flight": {"mail": 2}}}`
	const job = `^Job 17 \(kind "send", queue "mail"\)`
	pool := installed(t, "")
	run(t, pool, `SELECT setval('pgqueue.jobs_id_seq', 17)`)
	for _, c := range []struct {
		name string
		set  string // SQL beside the job 17, which is due, and the worker w1, which is free
		want []string
	}{
		{"nothing", ``, []string{job, ` is due since ` + utc, ` ago\), and nothing is in its way: a worker should claim it within its poll interval \(1 s, unless set otherwise\)\.$`}},
		{"nothing, after a failure", `UPDATE pgqueue.jobs SET failures = 1, errors = '[{"code": "smtp_down", "message": "no route"}]'`,
			[]string{job, `nothing is in its way`, `\nOf at most 3 attempts 1 has failed, the last one with the error smtp_down: no route\.$`}},
		{"future", `UPDATE pgqueue.jobs SET run_at = now() + '2 h 5 min 30 s'`, []string{job, ` does not run, because it is due at ` + utc, `in 2 h 5 min\)\.$`}},
		{"retry", `UPDATE pgqueue.jobs SET run_at = now() + '1 day 2 h 1 min', failures = 2, errors = '[{"code": "x"}]'`,
			[]string{job, ` does not run, because it is due at ` + utc, `in 1 day 2 h\)\.\nOf at most 3 attempts 2 have failed, the last one with the error x\.$`}},
		{"never", `UPDATE pgqueue.jobs SET run_at = 'infinity'`, []string{job, ` does not run, because it is never due: its run_at is infinity\.$`}},
		{"paused", `SELECT pgqueue.pause('mail', 'the provider is down')`,
			[]string{job, `does not run, because the queue is paused since ` + utc, ` ago\): the provider is down; SELECT pgqueue\.resume\('mail'\) ends that\.$`}},
		{"paused for no reason", `SELECT pgqueue.pause('mail')`, []string{job, `because the queue is paused since ` + utc, ` ago\), no reason was given; SELECT pgqueue\.resume\('mail'\) ends that\.$`}},
		{"bound", `SELECT pgqueue.heartbeat('w1', 'h', 1, '', NULL, '10 s', false, '{"mail": {"workers": 10, "in_flight": 5}}', '{"send": {"workers": 5, "in_flight": {"mail": 5}}}')`,
			[]string{job, `does not run, because its one live worker does not take it: 1 runs as many jobs of kind "send" as may run at once, its bound \(w1: 5 of 5\)\.$`}},
		{"bound of an alias", `SELECT pgqueue.heartbeat('w1', 'h', 1, '', NULL, '10 s', false, '{"mail": {"workers": 10, "in_flight": 5}}',
				'{"mailing": {"workers": 5, "in_flight": {"mail": 5}}, "send": {"alias_of": "mailing", "in_flight": {"mail": 0}}}')`,
			[]string{job, `1 runs as many jobs of kind "send" as may run at once, its bound \(w1: 5 of 5\)\.$`}},
		{"bound in another queue only", `SELECT pgqueue.heartbeat('w1', 'h', 1, '', NULL, '10 s', false, '{"mail": {"workers": 10, "in_flight": 5}}',
				'{"send": {"workers": 5, "in_flight": {"other": 5}}}')`, []string{job, `nothing is in its way`}},
		{"unknown kind", `SELECT pgqueue.heartbeat('w' || g, 'h', 1, '', NULL, '10 s', false, '{"mail": {"workers": 10, "in_flight": 3}}', '{"other": {}}') FROM generate_series(1, 7) g`,
			[]string{job, `does not run, because none of its 7 live workers takes it: 7 have no handler for kind "send" \(w1, w2, w3, w4, w5, …\)\.$`}},
		{"unknown kind, due later", `UPDATE pgqueue.jobs SET run_at = now() + '1 h';
				SELECT pgqueue.heartbeat('w1', 'h', 1, '', NULL, '10 s', false, '{"mail": {"workers": 10, "in_flight": 10}}', '{"other": {}}')`,
			[]string{job, `because it is due at`, `\nAlso: its one live worker does not take it: 1 has no handler for kind "send" \(w1\)\.$`}},
		{"busy now, due later", `UPDATE pgqueue.jobs SET run_at = now() + '1 h';
				SELECT pgqueue.heartbeat('w1', 'h', 1, '', NULL, '10 s', false, '{"mail": {"workers": 10, "in_flight": 10}}', '{}')`,
			[]string{job, `because it is due at`, `in 59 min \d+ s\)\.$`}},
		{"no worker, ever", `DELETE FROM pgqueue.workers`, []string{job, `does not run, because no live worker serves the queue: none has reported itself for it within the last hour, or ever\.$`}},
		{"no worker of this queue", `UPDATE pgqueue.workers SET queues = '{"other": {}}'`, []string{job, `no live worker serves the queue: none has reported itself`}},
		{"no worker any more", `UPDATE pgqueue.workers SET seen_at = now() - interval '5 min 10 s'`,
			[]string{job, `does not run, because no live worker serves the queue: the last one seen was w1, at ` + utc, `5 min 10 s ago\)\.$`}},
		{"workers that do not report", `DELETE FROM pgqueue.workers; INSERT INTO pgqueue.jobs (queue, kind, state, claimed_at, lease_expires_at, claimed_by)
				VALUES ('mail', 'send', 'running', now(), now() + interval '1 min', 'old-binary')`,
			[]string{job, `because no worker of the queue is on the list of live ones, although old-binary, which does not report itself, runs jobs of it`}},
		{"stopping", `UPDATE pgqueue.workers SET stopping = true`, []string{job, `because its one live worker does not take it: 1 is stopping \(w1\)\.$`}},
		{"paused by the worker itself", `UPDATE pgqueue.workers SET queues = jsonb_set(queues, '{mail,paused_until}', to_jsonb(statement_timestamp() + interval '30.5 s'))`,
			[]string{job, `because its one live worker does not take it: 1 has paused the queue for itself until ` + utc, `in 30 s\) \(w1\)\.$`}},
		{"paused by the worker itself, but over", `UPDATE pgqueue.workers SET queues = jsonb_set(queues, '{mail,paused_until}', to_jsonb(now() - interval '30 s'))`,
			[]string{job, `nothing is in its way`}},
		{"busy", `SELECT pgqueue.heartbeat('w1', 'h', 1, '', NULL, '10 s', false, '{"mail": {"workers": 10, "in_flight": 10}}', '{"send": {"workers": 20, "in_flight": {"mail": 10}}}');
				INSERT INTO pgqueue.jobs (queue, kind, priority, run_at) SELECT 'mail', 'send', CASE WHEN g > 4 THEN 1 ELSE 2 END, now() - g * interval '1 min' FROM generate_series(1, 9) g;
				INSERT INTO pgqueue.jobs (queue, kind, priority, run_at) SELECT 'mail', 'send', 4, now() - interval '1 h' FROM generate_series(1, 3) g;
				UPDATE pgqueue.jobs SET priority = 3 WHERE id = 17`,
			[]string{job, `because its one live worker does not take it: 1 is busy with other jobs \(w1: 10 of 10\)\.\nAlso: 9 other jobs of the queue are due before it\.$`}},
		{"behind others", `INSERT INTO pgqueue.jobs (queue, kind, run_at) SELECT 'mail', 'send', now() - interval '1 min' FROM generate_series(1, 3)`,
			[]string{job, ` is due since ` + utc, ` and waits behind 3 other jobs of the queue that are due too: live workers take them in turn\.$`}},
		{"behind very many", `INSERT INTO pgqueue.jobs (queue, kind, run_at) SELECT 'mail', 'send', now() - interval '1 min' FROM generate_series(1, 10001)`,
			[]string{job, ` and waits behind 10000 or more other jobs of the queue that are due too: `}},
		{"behind one other", `INSERT INTO pgqueue.jobs (queue, kind, run_at) VALUES ('mail', 'send', now() - interval '1 min')`,
			[]string{job, ` and waits behind 1 other job of the queue that is due too: live workers take them in turn\.$`}},
		{"behind one that can run", `INSERT INTO pgqueue.jobs (queue, kind, run_at) SELECT 'mail', k, now() - interval '1 min' FROM unnest('{send,unknown,unheard}'::text[]) k`,
			[]string{job, ` and waits behind 1 other job of the queue that is due too: `}},
		{"behind those that nobody can run", `INSERT INTO pgqueue.jobs (queue, kind, run_at) SELECT 'mail', 'unknown', now() - interval '1 min' FROM generate_series(1, 3)`,
			[]string{job, ` is due since ` + utc + `[^)]*\), and nothing is in its way: `}},
		{"behind what nobody tells of", `UPDATE pgqueue.workers SET kinds = '{}'; INSERT INTO pgqueue.jobs (queue, kind, run_at) VALUES ('mail', 'unknown', now() - interval '1 min')`,
			[]string{job, ` and waits behind 1 other job of the queue that is due too: `}},
		{"paused, and one before it", `SELECT pgqueue.pause('mail'); INSERT INTO pgqueue.jobs (queue, kind, run_at) VALUES ('mail', 'send', now() - interval '1 min')`,
			[]string{job, `because the queue is paused`, `\nAlso: 1 other job of the queue is due before it\.$`}},
		{"different things", `SELECT pgqueue.heartbeat(w, 'h', 1, '', NULL, '10 s', w = 'stopping', '{"mail": {"workers": 10, "in_flight": 10}}', k::jsonb)
				FROM (VALUES ('w1', '{"send": {}}'), ('w2', '{"other": {}}'), ('w3', '{"other": {}}'), ('stopping', '{"send": {}}')) v (w, k)`,
			[]string{job, `none of its 4 live workers takes it: 2 have no handler for kind "send" \(w2, w3\), 1 is busy with other jobs \(w1: 10 of 10\), 1 is stopping \(stopping\)\.$`}},
		{"all at once", `SELECT pgqueue.pause('mail'); UPDATE pgqueue.jobs SET run_at = now() + '1 h'; DELETE FROM pgqueue.workers`,
			[]string{job, `does not run, because the queue is paused`, `\nAlso: it is due at`, `\nAlso: no live worker serves the queue`}},
		{"running", `UPDATE pgqueue.jobs SET state = 'running', attempt = 2, generation = 1, claimed_generation = 1, claimed_by = 'w1', claimed_at = now() - interval '65 s', lease_expires_at = now() + '25.9 s'`,
			[]string{job, ` is running: attempt 2 is held by w1 \(live, last seen .* ago\) since ` + utc, `1 min 5 s ago\), with a lease until ` + utc, `in 25 s\), which its worker should renew\.$`}},
		{"running at a silent worker", `UPDATE pgqueue.workers SET seen_at = now() - interval '40 s';
				UPDATE pgqueue.jobs SET state = 'running', attempt = 2, claimed_generation = 1, claimed_by = 'w1', claimed_at = now() - interval '65 s', lease_expires_at = now() + '25.9 s'`,
			[]string{job, ` is running: attempt 2 is held by w1 \(silent, last seen 40 s ago\) since `}},
		{"asked to stop", `UPDATE pgqueue.jobs SET state = 'running', claimed_generation = 1, claimed_by = 'w9', claimed_at = now(), lease_expires_at = now() + '25.9 s', cancel_requested_at = now() - interval '3 s'`,
			[]string{job, `held by w9 \(which is not on the list of workers\)`, `\nIt was asked to stop at ` + utc + `3 s ago\): its worker learns that when it renews the lease`}},
		{"superseded", `UPDATE pgqueue.jobs SET state = 'running', generation = 2, claimed_generation = 1, claimed_at = now(), lease_expires_at = now() + '25.9 s'`,
			[]string{job, `held by somebody unknown`, `\nIts input was replaced meanwhile: when this run ends, it runs once more with the new one\.$`}},
		{"expired", `UPDATE pgqueue.jobs SET state = 'running', attempt = 2, claimed_generation = 1, claimed_by = 'w1', claimed_at = now() - interval '65 s', lease_expires_at = now() - interval '2 s'`,
			[]string{job, ` is running: attempt 2 is held by w1`, `, but its lease ran out at ` + utc + `2 s ago\)\. The reaper of a live worker of the queue takes it back within seconds \(5 s, unless set otherwise\)\.$`}},
		{"expired, and nobody there", `DELETE FROM pgqueue.workers;
				UPDATE pgqueue.jobs SET state = 'running', attempt = 2, claimed_generation = 1, claimed_by = 'w1', claimed_at = now() - interval '65 s', lease_expires_at = now() - interval '2 s'`,
			[]string{job, `, but its lease ran out at ` + utc + `2 s ago\)\. Nobody takes it back, because no live worker serves the queue: none has reported itself`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, pool, `TRUNCATE pgqueue.jobs, pgqueue.queues, pgqueue.workers`)
			run(t, pool, `INSERT INTO pgqueue.jobs (id, queue, kind) VALUES (17, 'mail', 'send')`)
			beat(t, pool, "w1", free, send)
			for _, sql := range strings.Split(c.set, ";\n") {
				if sql != "" {
					run(t, pool, sql)
				}
			}
			requireWords(t, why(t, pool, 17), c.want...)
		})
	}
}

func TestWhyNotRunning_WhatIsNotLive(t *testing.T) {
	pool := installed(t, "")
	run(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
			max_attempts, queue, kind, state, claimed_by, payload, metadata, tags, errors)
		SELECT id, now(), now(), CASE WHEN claimed THEN now() END, now() - interval '3 min 1 s', CASE WHEN state IN ('failed', 'dead') THEN 'infinity' ELSE (now() AT TIME ZONE 'UTC')::date END,
			attempt, 1, 1, 1, 3, 3, 'mail', 'send', state, 'w1', '{}', '{}', '{}', errors::jsonb
		FROM (VALUES (1, 'succeeded', 2, true, '[{"code": "old"}]'), (2, 'cancelled', 0, false, NULL), (3, 'cancelled', 1, false, '[{"code": "smtp_down", "message": "no route", "attempt": 1}]'),
			(4, 'failed', 1, true, '[{"code": "old"}, {"code": "smtp_down", "message": "no route"}]'), (5, 'dead', 3, true, '[{"code": "smtp_down", "message": "no route"}]'),
			(6, 'cancelled', 2, true, '[{"code": "old", "attempt": 1}, {"code": "gone", "message": "no such user", "attempt": 2}]'),
			(7, 'cancelled', 2, true, '[{"code": "old", "attempt": 1}]'), (10, 'cancelled', 2, true, '[{"code": "lease_expired", "attempt": 2}]')) v (id, state, attempt, claimed, errors)`)
	run(t, pool, `SELECT setval('pgqueue.jobs_id_seq', 8)`)
	run(t, pool, `INSERT INTO pgqueue.queues (name, history) VALUES ('bulk', 'off'), ('mail', 'full')`)
	requireWords(t, why(t, pool, 10), ` was cancelled at `+utc+`3 min 1 s ago\), on request, after the lease of attempt 2 by w1 had run out\.$`)
	for id, want := range map[int64]string{
		1:  `^Job 1 \(kind "send", queue "mail"\) has succeeded at ` + utc + `3 min 1 s ago\), in attempt 2 by w1\.$`,
		2:  `^Job 2 \(kind "send", queue "mail"\) was cancelled at ` + utc + `3 min 1 s ago\), on request, while it waited, after no attempt\.$`,
		3:  ` was cancelled at ` + utc + `3 min 1 s ago\), on request, while it waited, after 1 attempt, the last error was smtp_down: no route\.$`,
		6:  ` was cancelled at ` + utc + `3 min 1 s ago\), in attempt 2 by w1: by its handler, or because that failed after somebody had asked for it, with the error gone: no such user\.$`,
		7:  ` was cancelled at ` + utc + `3 min 1 s ago\), in attempt 2 by w1: on request, or by its handler, which gave no error\.$`,
		4:  ` has failed at ` + utc + `3 min 1 s ago\), in attempt 1: trying again is pointless, said its handler, with the error smtp_down: no route\. All the same, SELECT pgqueue\.retry\(4\) runs it again\.$`,
		5:  ` is dead since ` + utc + `3 min 1 s ago\): 3 of 3 attempts have failed, the last one with the error smtp_down: no route\. SELECT pgqueue\.retry\(5\) runs it again\.$`,
		8:  `^There is no job 8 any more, and no history of it\. The number was given out: .* its history is gone \(it goes back to \d{4}-\d\d-\d\d\) or is not kept \(of successes in queue "bulk"\), or somebody deleted it\.$`,
		9:  `^There is no job 9 and never was: the numbers given out so far go up to 8\.$`,
		0:  `^There is no job 0 and never was: `,
		-1: `^There is no job -1 and never was: `,
	} {
		requireWords(t, why(t, pool, id), want)
	}
	requireWords(t, value[string](t, pool, `SELECT pgqueue.why_not_running(NULL)`), `^There is no job NULL`)
	// What it says to do is what helps.
	run(t, pool, `SELECT pgqueue.retry(5)`)
	requireWords(t, why(t, pool, 5), `^Job 5 \(kind "send", queue "mail"\) does not run, because no live worker`)
}

// The words do not depend on how a session writes times.
func TestWhyNotRunning_WhateverTheSessionIsSetTo(t *testing.T) {
	pool := installed(t, "")
	run(t, pool, `INSERT INTO pgqueue.jobs (id, queue, kind, run_at) VALUES (1, 'mail', 'send', '2201-02-03 04:05:06Z'), (2, 'mail', 'send', now() + '90.5 min')`)
	beat(t, pool, "w1", `{"mail": {}}`, `{}`)
	strange := newPool(t, pool.Config().ConnString(), func(config *pgxpool.Config) {
		for name, setting := range map[string]string{
			"timezone": "Pacific/Kiritimati", "datestyle": "SQL, DMY", "intervalstyle": "sql_standard", "standard_conforming_strings": "off",
			"search_path": "nowhere", "default_transaction_isolation": "serializable", "enable_indexscan": "off",
		} {
			config.ConnConfig.RuntimeParams[name] = setting
		}
	})
	requireWords(t, why(t, strange, 1), `because it is due at 2201-02-03 04:05:06 UTC \(in \d+ days \d+ h\)\.$`)
	requireWords(t, why(t, strange, 2), `because it is due at `+utc+`in 1 h 30 min\)\.$`)
}

func TestInWords(t *testing.T) {
	pool := installed(t, "")
	for span, want := range map[string]string{
		"0": "0.0 s", "0.26 s": "0.3 s", "1 s": "1 s", "59.9 s": "59 s", "-1 min": "1 min", "61 s": "1 min 1 s", "1 h": "1 h", "1 h 59 s": "1 h",
		"2 h 5 min 9 s": "2 h 5 min", "24 h": "1 day", "49 h": "2 days 1 h", "400 days 59 min": "400 days",
	} {
		if got := value[string](t, pool, `SELECT pgqueue.in_words($1::text::interval)`, span); got != want {
			t.Errorf("%s: %q, want %q", span, got, want)
		}
	}
}
