package jobstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// editStatements are the texts of edits.sql.
type editStatements struct {
	pauseUntil, pauseKind, resumeKind, pausedKinds string

	reschedule, setPriority, editPayload, retryWith string
	rescheduleMany, setPriorityMany                 string
	mayRead                                         string
}

// load looks every statement up by name.
func (e *editStatements) load(found statements) error {
	for name, text := range map[string]*string{
		"pause_until":       &e.pauseUntil,
		"pause_kind":        &e.pauseKind,
		"resume_kind":       &e.resumeKind,
		"paused_kinds":      &e.pausedKinds,
		"reschedule":        &e.reschedule,
		"set_priority":      &e.setPriority,
		"edit_payload":      &e.editPayload,
		"retry_with":        &e.retryWith,
		"reschedule_many":   &e.rescheduleMany,
		"set_priority_many": &e.setPriorityMany,
		"may_read":          &e.mayRead,
	} {
		var err error
		if *text, err = found.get(name); err != nil {
			return err
		}
	}
	return nil
}

// What Reschedule, EditPayload and RetryWith answer beside what Retry does.
const (
	Rescheduled  = "rescheduled"
	StillRunning = "running"    // it runs and was left as it is
	Edited       = "edited"     // it is pending with the new input
	Superseded   = "superseded" // it runs, and will run again with the new input
	Changed      = "changed"    // its generation is another one; nothing was changed
)

// PauseUntil pauses a queue until a time. An empty reason is none.
func (s *Store) PauseUntil(ctx context.Context, q Querier, queue string, until time.Time, reason string) error {
	return s.say(ctx, q, fmt.Sprintf("pause queue %q", queue), s.edits.pauseUntil, queue, until, reason)
}

// PauseKind pauses a kind, in one queue or (empty) in all, until a time or (nil) until ResumeKind. An empty reason is none.
func (s *Store) PauseKind(ctx context.Context, q Querier, kind, queue string, until *time.Time, reason string) error {
	return s.say(ctx, q, fmt.Sprintf("pause kind %q", kind), s.edits.pauseKind, kind, queue, until, reason)
}

// ResumeKind ends what PauseKind began with the same queue.
func (s *Store) ResumeKind(ctx context.Context, q Querier, kind, queue string) error {
	return s.say(ctx, q, fmt.Sprintf("resume kind %q", kind), s.edits.resumeKind, kind, queue)
}

// say runs a statement whose answer, a text or NULL, says nothing.
func (s *Store) say(ctx context.Context, q Querier, doing, sql string, args ...any) error {
	if err := s.discard(ctx, q, sql, slices.Concat(freshFor(q), args)...); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// PausedKind is a kind that is paused.
type PausedKind struct {
	Kind, Queue     string // Queue is empty for all queues
	PausedAt, Until time.Time
	Reason          string
}

// PausedKinds lists the paused kinds, at most so many.
func (s *Store) PausedKinds(ctx context.Context, q Querier, limit int) ([]PausedKind, error) {
	rows, err := q.Query(ctx, s.edits.pausedKinds, slices.Concat(freshFor(q), []any{limit})...)
	if err != nil {
		return nil, fmt.Errorf("list paused kinds: %w", err)
	}
	var list []PausedKind
	var row PausedKind
	var at, until pgtype.Timestamptz
	var reason *string
	if _, err := pgx.ForEachRow(rows, []any{&row.Kind, &row.Queue, &at, &until, &reason}, func() error {
		row.PausedAt, row.Until, row.Reason = finite(at), finite(until), ""
		if reason != nil {
			row.Reason = *reason
		}
		list = append(list, row)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("list paused kinds: %w", err)
	}
	return list, nil
}

// Reschedule sets when a pending job is due; nil means now.
func (s *Store) Reschedule(ctx context.Context, q Querier, id int64, at *time.Time) (string, error) {
	outcome, err := single(ctx, q, s.edits.reschedule, id, at)
	if err != nil {
		return "", fmt.Errorf("reschedule job %d: %w", id, err)
	}
	return outcome, nil
}

// SetPriority changes the priority of a job, and answers with its state.
func (s *Store) SetPriority(ctx context.Context, q Querier, id int64, priority int) (string, error) {
	state, err := single(ctx, q, s.edits.setPriority, id, priority)
	if err != nil {
		return "", fmt.Errorf("set the priority of job %d: %w", id, err)
	}
	return state, nil
}

// EditPayload replaces the input of a live job, if it has that generation (nil: any).
func (s *Store) EditPayload(ctx context.Context, q Querier, id int64, payload json.RawMessage, generation *int) (string, error) {
	outcome, err := single(ctx, q, s.edits.editPayload, id, string(payload), generation)
	if err != nil {
		return "", fmt.Errorf("edit job %d: %w", id, err)
	}
	return outcome, nil
}

// RetryWith brings a failed or dead job back with another input, if it has that generation (nil: any). With [KeyTaken], other is the
// job that has its key.
func (s *Store) RetryWith(ctx context.Context, q Querier, id int64, payload json.RawMessage, generation *int) (outcome string, other int64, err error) {
	rows, err := q.Query(ctx, s.edits.retryWith, slices.Concat(freshFor(q), []any{id, string(payload), generation})...)
	if err != nil {
		return "", 0, fmt.Errorf("retry job %d: %w", id, err)
	}
	var owner *int64
	if _, err := pgx.ForEachRow(rows, []any{&outcome, &owner}, func() error { return nil }); err != nil {
		return "", 0, fmt.Errorf("retry job %d: %w", id, err)
	}
	if owner != nil {
		other = *owner
	}
	return outcome, other, nil
}

// EndedAs is the state in which a job has ended; empty if it has not, or there is none, or the role may not see that. It can be asked in
// a transaction of an operator, whom reading the tables would abort it.
func (s *Store) EndedAs(ctx context.Context, q Querier, id int64) (string, error) {
	may, err := single(ctx, q, s.edits.mayRead, s.schema)
	if err != nil {
		return "", fmt.Errorf("look at rights: %w", err)
	}
	if may != "yes" {
		return "", nil
	}
	found, err := s.Versions(ctx, q, []int64{id})
	if err != nil {
		return "", err
	}
	for _, job := range found {
		if job.State != "pending" && job.State != "running" {
			return job.State, nil
		}
	}
	return "", nil
}

// RescheduleMany makes pending jobs due at a time (nil = now), or somewhere within spread after it, inside tx.
func (s *Store) RescheduleMany(ctx context.Context, tx pgx.Tx, targets []Target, at *time.Time, spread time.Duration) ([]Answer, error) {
	return s.eachOf(ctx, tx, targets, s.edits.rescheduleMany, at, spread.Microseconds())
}

// SetPriorityMany changes the priority of jobs, inside tx.
func (s *Store) SetPriorityMany(ctx context.Context, tx pgx.Tx, targets []Target, priority int) ([]Answer, error) {
	return s.eachOf(ctx, tx, targets, s.edits.setPriorityMany, priority)
}

// eachOf sends a statement about targets, whose first three arguments are their versions.
func (s *Store) eachOf(ctx context.Context, tx pgx.Tx, targets []Target, sql string, args ...any) ([]Answer, error) {
	ids, attempts, generations := versionsOf(targets)
	batch := &pgx.Batch{}
	batch.Queue(s.inspect.batchSettings)
	answers := queueAnswers(batch, sql, slices.Concat([]any{ids, attempts, generations}, args)...)
	err := tx.SendBatch(ctx, batch).Close()
	return *answers, err
}
