package pgqueue_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// meanwhile does something once, just before a batch is sent that has a statement with that text.
type meanwhile struct {
	text string
	do   atomic.Pointer[func()]
}

func (m *meanwhile) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (m *meanwhile) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (m *meanwhile) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, query := range data.Batch.QueuedQueries {
		if strings.Contains(query.SQL, m.text) {
			if do := m.do.Swap(nil); do != nil {
				(*do)()
			}
		}
	}
	return ctx
}
func (m *meanwhile) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (m *meanwhile) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// What happens to a job between the moment in which a bulk action finds it and that in which it gets to it makes it another
// job, which is left alone.
func TestC140_BulkActionsLeaveAloneWhatHasChanged(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	const (
		claimed  = `UPDATE pgqueue.jobs SET state = 'running', attempt = attempt + 1, claimed_generation = generation, claimed_at = now(), lease_expires_at = now() + interval '1 h' WHERE id = $1`
		finished = `UPDATE pgqueue.jobs SET attempt = attempt + 1, claimed_at = NULL WHERE id = $1 AND state = 'pending'`
		replaced = `UPDATE pgqueue.jobs SET generation = generation + 1 WHERE id = $1`
		diedSoon = `UPDATE pgqueue.history SET attempt = attempt + 1 WHERE id = $1`
		retried  = `SELECT pgqueue.retry($1)`
		gone     = `DELETE FROM pgqueue.history WHERE id = $1`
	)
	for name, c := range map[string]struct {
		action, text string
		from, to     pgqueue.JobState // of the job that changes; its neighbour is acted on
		change       string
	}{
		"cancel, claimed":           {"cancel", ".cancel(", "pending", "running", claimed},
		"cancel, run and put back":  {"cancel", ".cancel(", "pending", "pending", finished},
		"cancel, replaced":          {"cancel", ".cancel(", "pending", "pending", replaced},
		"delete, claimed":           {"delete", "DELETE FROM", "pending", "running", claimed},
		"delete, run and put back":  {"delete", "DELETE FROM", "pending", "pending", finished},
		"delete, replaced":          {"delete", "DELETE FROM", "pending", "pending", replaced},
		"purge, died again":         {"purge", "DELETE FROM", "dead", "dead", diedSoon},
		"purge, retried":            {"purge", "DELETE FROM", "dead", "pending", retried},
		"retry, retried by another": {"retry", ".retry(", "dead", "pending", retried},
		"retry, deleted":            {"retry", ".retry(", "dead", "", gone},
	} {
		hook := &meanwhile{text: c.text}
		inspector := newInspector(t, poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = hook }))
		id, neighbour := place(t, db, c.from), place(t, db, c.from)
		change := func() { exec(t, db.Pool, c.change, id) }
		hook.do.Store(&change)
		filter := pgqueue.Filter{IDs: []int64{id, neighbour}}
		var result *pgqueue.BulkResult
		var err error
		switch c.action {
		case "cancel":
			result, err = inspector.CancelMany(testContext(t), filter, pgqueue.BulkOptions{})
		case "delete":
			filter.States = []pgqueue.JobState{c.from}
			result, err = inspector.DeleteMany(testContext(t), filter, pgqueue.BulkOptions{})
		case "purge":
			result, err = inspector.Purge(testContext(t), filter, pgqueue.BulkOptions{})
		case "retry":
			result, err = inspector.RetryMany(testContext(t), filter, pgqueue.BulkOptions{})
		}
		if err != nil || result.Matched != 2 || result.Done != 1 || !slices.Equal(result.Skips, []pgqueue.Skip{{ID: id, Reason: pgqueue.SkipChanged}}) {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
		state := pgqueue.JobState("")
		if job, err := inspector.Get(testContext(t), id); err == nil {
			state = job.State
			if job.CancelWanted {
				t.Errorf("%s: it was asked to stop", name)
			}
		}
		if state != c.to {
			t.Errorf("%s: the job is %q, want %q", name, state, c.to)
		}
		if hook.do.Load() != nil {
			t.Errorf("%s: nothing happened in between", name)
		}
	}
}
