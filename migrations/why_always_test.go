package migrations_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// manyOr is n, or full where the whole size is asked for.
func manyOr(n, full int) int {
	if os.Getenv("PGQUEUE_TEST_FULL") != "" {
		return full
	}
	return n
}

// No live job ever gets an empty answer or an error, however its row, its queue and the workers look: columns are drawn at random from
// what the tables allow, which is more than our own statements write.
func TestWhyNotRunning_AlwaysAnswers(t *testing.T) {
	pool := installed(t, "")
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(values ...string) string { return values[random.IntN(len(values))] }
	times := []string{`now()`, `now() - interval '3 s'`, `now() + interval '3 s'`, `now() - interval '400 days'`, `now() + interval '4000 years'`, `'infinity'`, `'-infinity'`,
		`'4700-01-01 BC'`}
	orNull := append([]string{"NULL"}, times...)
	queues := []string{`mail`, `O''Neil`, `%s %I`, `ünï`, `a"b`, `$1`, `nobody`}
	jsons := []string{`{}`, `{"workers": 10}`, `{"workers": 1, "in_flight": 1}`, `{"workers": "x", "in_flight": null, "paused_until": "soon"}`,
		`{"workers": 99999999999999999999, "in_flight": 1e300}`, `{"paused_until": "2999-12-30T23:59:59Z"}`, `{"in_flight": {"mail": 3}, "workers": 2}`, `[]`, `7`, `null`, `"x"`,
		`{"alias_of": "none"}`, `{"alias_of": 7}`, `{"in_flight": []}`}
	for range manyOr(6, 40) {
		run(t, pool, `TRUNCATE pgqueue.jobs, pgqueue.queues, pgqueue.workers, pgqueue.paused_kinds`)
		for _, queue := range queues {
			if random.IntN(2) == 0 {
				run(t, pool, `INSERT INTO pgqueue.queues (name, paused_at, paused_until, paused_reason, history) VALUES ('`+queue+`', `+pick(orNull...)+`, `+pick(orNull...)+`, `+pick(`NULL`, `''`, `'100 % %s'`)+`, `+pick(`'full'`, `'off'`)+`)`)
			}
			if random.IntN(3) == 0 {
				run(t, pool, `INSERT INTO pgqueue.paused_kinds (queue, kind, paused_at, paused_until, reason) VALUES (`+pick(`''`, `'`+queue+`'`)+`, `+pick(`'send'`, `'%s'`)+`, `+pick(times...)+`, `+pick(orNull...)+`,
					`+pick(`NULL`, `'100 % %s'`)+`) ON CONFLICT DO NOTHING`)
			}
		}
		for worker := range random.IntN(4) {
			run(t, pool, `INSERT INTO pgqueue.workers (id, host, pid, version, started_at, seen_at, heartbeat_every, stopping, queues, kinds) VALUES ('w'||$1::int, 'h', 1, 'v', now(), `+
				pick(append(times, `now()`, `now()`)...)+`, '10 s', `+pick(`false`, `true`)+`, jsonb_build_object('`+pick(queues...)+`', '`+pick(jsons...)+`'::jsonb, 'mail', '`+pick(jsons...)+`'::jsonb), '`+
				pick(`{}`, `{"send": `+pick(jsons...)+`}`, `{"other": `+pick(jsons...)+`, "none": `+pick(jsons...)+`}`)+`')`, worker)
		}
		var insert strings.Builder
		for i := range manyOr(150, 1000) {
			if i > 0 {
				insert.WriteString(",\n")
			}
			state, lease, claimed := `'pending'`, pick(orNull...), pick(orNull...)
			if random.IntN(3) == 0 {
				state, lease, claimed = `'running'`, pick(times...), pick(times...)
			}
			insert.WriteString("('" + pick(queues...) + "', " + pick(`'send'`, `'other'`, `'%s'`) + ", " + state + ", " + pick(times...) + ", " + lease + ", " + claimed + ", " + pick(orNull...) + ", " +
				pick(`NULL`, `'w0'`, `'w1'`, `''`) + ", " + pick("0", "1", "32767") + ", " + pick("1", "2", "4") + ", " + pick("0", "1", "2147483647") + ", " + pick("1", "2") + ", " +
				pick(`NULL`, `'[]'`, `'{}'`, `'7'`, `'[7]'`, `'[{"code": 7, "message": {}}]'`, `'[{"code": "x", "message": "%s"}]'`) + ")")
		}
		run(t, pool, `INSERT INTO pgqueue.jobs (queue, kind, state, run_at, lease_expires_at, claimed_at, cancel_requested_at, claimed_by, failures, priority, attempt, generation, errors) VALUES `+insert.String())
		for _, bad := range rows(t, pool, `SELECT format('%s: %s', to_jsonb(j), coalesce(a.words, 'NULL')) FROM pgqueue.jobs j CROSS JOIN LATERAL (SELECT pgqueue.why_not_running(j.id) AS words OFFSET 0) a
			WHERE a.words IS NULL OR a.words NOT LIKE format('Job %s (kind "%s", queue "%s") %%_.%%', j.id, replace(j.kind, '%', '\%'), replace(j.queue, '%', '\%'))`) {
			t.Fatal(bad)
		}
		// The lists do not break at such rows either.
		for _, view := range []string{"queue_stats", "active_jobs", "stuck_jobs", "job_log", "live_workers", "attempts", "paused"} {
			_ = rows(t, pool, `SELECT to_jsonb(v)::text FROM pgqueue.`+view+` v`)
		}
	}
}
