package jobstore_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Statistics that were gathered while nothing ran say that no job ever runs. A statement that then joins its arguments with
// the table takes quadratic time as soon as thousands do: each must look its jobs up by number, one at a time.
func TestVerdictsLookJobsUpByNumber(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec(`ALTER TABLE %s.jobs SET (autovacuum_enabled = off)`)
	const all, running = 8000, 1000
	f.insert(all)
	f.exec(`VACUUM ANALYZE %s.jobs`)
	var ids []int64
	var attempts []int32
	for _, task := range f.claim(running) {
		ids, attempts = append(ids, task.Payload.ID), append(attempts, int32(task.Payload.Attempt))
	}
	words := make([]string, running)
	for i := range words {
		words[i] = "retry"
	}
	empty, delays := make([]*string, running), make([]*int64, running)
	finish := []any{queueName, ids, attempts, words, delays, empty, empty, empty, words, make([]*int32, running)}
	for name, args := range map[string][]any{
		"complete":        {queueName, ids, attempts, false},
		"complete_forget": {queueName, ids, attempts},
		"finish":          finish,
		"put_back":        finish,
		"renew":           {queueName, ids, attempts, int64(30_000_000)},
	} {
		args = append([]any{pgx.QueryExecModeCacheDescribe}, args...)
		rows := must(f.pool.Query(f.ctx, "EXPLAIN "+f.store.SQL(name), args...))(t)
		plan := strings.Join(must(pgx.CollectRows(rows, pgx.RowTo[string]))(t), "\n")
		if !strings.Contains(plan, "Index Scan using jobs_pkey on jobs") || strings.Contains(plan, "Seq Scan on jobs") ||
			strings.Contains(plan, "jobs_running") || strings.Contains(plan, "Join Filter") {
			t.Errorf("%s does not look its jobs up by number:\n%s", name, plan)
		}
	}
}
