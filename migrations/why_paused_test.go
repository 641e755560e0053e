package migrations_test

import (
	"slices"
	"strings"
	"testing"
)

// Pauses of queues and of kinds, with and without an end: why_not_running, paused and queue_stats agree on which of them count.
func TestPaused_WhatCountsAndWhatIsSaid(t *testing.T) {
	const job = `^Job 17 \(kind "send", queue "mail"\)`
	const nothing = ` is due since ` + utc + `.*nothing is in its way`
	pool := installed(t, "")
	run(t, pool, `SELECT setval('pgqueue.jobs_id_seq', 17)`)
	for _, c := range []struct {
		name string
		set  string
		want []string // of the answer
		view []string // queue, kind, whether it has an end, reason
	}{
		{"a queue until a time", `INSERT INTO pgqueue.queues (name, paused_at, paused_until, paused_reason) VALUES ('mail', now() - interval '5 min', now() + interval '90.5 min', 'the limit is reached')`,
			[]string{job, `does not run, because the queue is paused since ` + utc + `5 min ago\): the limit is reached; that ends by itself at ` + utc +
				`in 1 h 30 min\), and SELECT pgqueue\.resume\('mail'\) ends it now\.$`},
			[]string{"mail all t the limit is reached"}},
		{"a queue until a time that has come", `INSERT INTO pgqueue.queues (name, paused_at, paused_until) VALUES ('mail', now() - interval '5 min', now() - interval '1 ms')`,
			[]string{job, nothing}, nil},
		{"a queue until a time before the job is due", `INSERT INTO pgqueue.queues (name, paused_at, paused_until) VALUES ('mail', now(), now() + interval '1 h');
				UPDATE pgqueue.jobs SET run_at = now() + interval '2.01 h'`,
			[]string{job, ` does not run, because it is due at ` + utc + `in 2 h\)\.$`}, []string{"mail all t none"}},
		{"a queue until a time after the job is due", `INSERT INTO pgqueue.queues (name, paused_at, paused_until) VALUES ('mail', now(), now() + interval '3.01 h');
				UPDATE pgqueue.jobs SET run_at = now() + interval '2.01 h'`,
			[]string{job, ` does not run, because the queue is paused since .*, no reason was given; that ends by itself at ` + utc + `in 3 h\)`, `\nAlso: it is due at `}, []string{"mail all t none"}},
		{"a queue for ever", `INSERT INTO pgqueue.queues (name, paused_at, paused_until) VALUES ('mail', now(), 'infinity')`,
			[]string{job, `, no reason was given; SELECT pgqueue\.resume\('mail'\) ends that\.$`}, []string{"mail all t none"}},
		{"an end without a pause", `INSERT INTO pgqueue.queues (name, paused_until) VALUES ('mail', now() + interval '1 h')`, []string{job, nothing}, nil},
		{"the kind in this queue", `INSERT INTO pgqueue.paused_kinds (kind, queue, paused_at, reason) VALUES ('send', 'mail', now() - interval '3 s', 'a bad release')`,
			[]string{job, `does not run, because kind "send" is paused in this queue since ` + utc + `3 s ago\): a bad release; SELECT pgqueue\.resume_kind\('send', 'mail'\) ends that\.$`},
			[]string{"mail send f a bad release"}},
		{"the kind in all queues", `INSERT INTO pgqueue.paused_kinds (kind, paused_until) VALUES ('send', now() + interval '61.5 s')`,
			[]string{job, `because kind "send" is paused in all queues since ` + utc + `.* ago\), no reason was given; that ends by itself at ` + utc +
				`in 1 min 1 s\), and SELECT pgqueue\.resume_kind\('send'\) ends it now\.$`},
			[]string{"all send t none"}},
		{"another kind, another queue, and one that has ended", `INSERT INTO pgqueue.paused_kinds (kind, queue, paused_until) VALUES ('other', '', NULL), ('send', 'other', NULL),
				('send', 'mail', now() - interval '1 ms')`,
			[]string{job, nothing}, []string{"all other f none", "other send f none"}},
		{"all of them", `INSERT INTO pgqueue.queues (name, paused_at) VALUES ('mail', now()); INSERT INTO pgqueue.paused_kinds (kind, queue) VALUES ('send', ''), ('send', 'mail')`,
			[]string{job, `because the queue is paused since`, `\nAlso: kind "send" is paused in this queue since`, `\nAlso: kind "send" is paused in all queues since .* ends that\.$`},
			[]string{"all send f none", "mail all f none", "mail send f none"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, pool, `TRUNCATE pgqueue.jobs, pgqueue.queues, pgqueue.workers, pgqueue.paused_kinds`)
			run(t, pool, `INSERT INTO pgqueue.jobs (id, queue, kind) VALUES (17, 'mail', 'send')`)
			beat(t, pool, "w1", `{"mail": {"workers": 10}}`, `{"send": {}}`)
			run(t, pool, c.set)
			requireWords(t, why(t, pool, 17), c.want...)
			if got := rows(t, pool, `SELECT concat_ws(' ', coalesce(queue, 'all'), coalesce(kind, 'all'), paused_until IS NOT NULL, coalesce(reason, 'none'))
				FROM pgqueue.paused ORDER BY 1`); !slices.Equal(got, c.view) {
				t.Errorf("paused: %q, want %q", got, c.view)
			}
			// queue_stats has those of the queue as a whole.
			want := "f f none"
			for _, line := range c.view {
				if rest, found := strings.CutPrefix(line, "mail all "); found {
					want = "t " + rest
				}
			}
			if got := value[string](t, pool, `SELECT concat_ws(' ', paused_at IS NOT NULL, paused_until IS NOT NULL, coalesce(paused_reason, 'none')) FROM pgqueue.queue_stats WHERE queue = 'mail'`); got != want {
				t.Errorf("queue_stats: %q, want %q", got, want)
			}
		})
	}
}

// What a handler reports is shown beside the attempt that reported it, and no other.
func TestActiveJobs_ShowProgress(t *testing.T) {
	pool := installed(t, "")
	jobsOfEveryKind(t, pool)
	run(t, pool, `INSERT INTO pgqueue.job_progress (job_id, attempt, updated_at, progress) VALUES (2, 2, '2030-01-01Z', '{"done": 40, "of": 100}'), (3, 9, now(), '1'), (1, 0, now(), '2')`)
	want := []string{`2 {"of": 100, "done": 40} 2030-01-01`, "3", "4", "5", "6", "7"}
	if got := rows(t, pool, `SELECT concat_ws(' ', id, progress, (progress_at AT TIME ZONE 'UTC')::date) FROM pgqueue.active_jobs ORDER BY id`); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
