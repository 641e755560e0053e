package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// PauseQueueUntil pauses a queue until a time; see [Client.PauseQueueUntil].
func (i *Inspector) PauseQueueUntil(ctx context.Context, queue string, until time.Time, reason string) error {
	entry := AuditEntry{Action: ActionPause, Queue: queue, Detail: pauseDetail(until, reason)}
	return i.audited(ctx, entry, func(q Querier) error { return explained(i.client.PauseQueueUntil(ctx, q, queue, until, reason)) })
}

// PauseKind pauses a kind, in one queue or in all; see [Client.PauseKind].
func (i *Inspector) PauseKind(ctx context.Context, pause KindPause) error {
	entry := AuditEntry{Action: ActionPauseKind, Queue: pause.Queue, Kind: pause.Kind, Detail: pauseDetail(pause.Until, pause.Reason)}
	return i.audited(ctx, entry, func(q Querier) error { return explained(i.client.PauseKind(ctx, q, pause)) })
}

// ResumeKind ends the pause of a kind; see [Client.ResumeKind].
func (i *Inspector) ResumeKind(ctx context.Context, kind, queue string) error {
	entry := AuditEntry{Action: ActionResumeKind, Queue: queue, Kind: kind}
	return i.audited(ctx, entry, func(q Querier) error { return explained(i.client.ResumeKind(ctx, q, kind, queue)) })
}

// PausedKinds lists the kinds that are paused now; see [Client.PausedKinds].
func (i *Inspector) PausedKinds(ctx context.Context) ([]KindPause, error) {
	if err := runsOn(i.q); err != nil {
		return nil, fmt.Errorf("list paused kinds: %w", err)
	}
	pauses, err := i.client.pausedKinds(ctx, i.q)
	return pauses, explained(err)
}

// pauseDetail is what an audit log is told of a pause beside its place.
func pauseDetail(until time.Time, reason string) string {
	if until.IsZero() {
		return reason
	}
	detail := "until " + until.UTC().Format(time.RFC3339)
	if reason != "" {
		detail += ": " + reason
	}
	return detail
}

// Reschedule sets when a pending job is due, zero for now; see [Client.Reschedule].
func (i *Inspector) Reschedule(ctx context.Context, id int64, at time.Time, options ...ActionOption) error {
	return i.act(ctx, ActionReschedule, id, dueDetail(at), options, func(q Querier) error { return i.client.Reschedule(ctx, q, id, at) })
}

func dueDetail(at time.Time) string {
	if at.IsZero() {
		return "run_at now"
	}
	return "run_at " + at.UTC().Format(time.RFC3339)
}

// SetPriority changes the priority of a job; see [Client.SetPriority].
func (i *Inspector) SetPriority(ctx context.Context, id int64, priority int, options ...ActionOption) (state JobState, err error) {
	err = i.act(ctx, ActionSetPriority, id, fmt.Sprintf("priority %d", priority), options, func(q Querier) error {
		var err error
		state, err = i.client.SetPriority(ctx, q, id, priority)
		return err
	})
	if err != nil {
		return "", err
	}
	return state, nil
}

// EditPayload replaces the input of a live job; see [Client.EditPayload]. With [IfVersion] the job must have that attempt and that input.
// The audit log is told neither the old input nor the new one.
func (i *Inspector) EditPayload(ctx context.Context, id int64, payload any, options ...ActionOption) (state JobState, err error) {
	err = i.edit(ctx, ActionEdit, id, options, func(q Querier, generation int) error {
		var err error
		state, err = i.client.EditPayload(ctx, q, id, payload, generation)
		return err
	})
	if err != nil {
		return "", err
	}
	return state, nil
}

// RetryWith brings a failed or dead job back with another input; see [Client.RetryWith], and EditPayload for the options.
func (i *Inspector) RetryWith(ctx context.Context, id int64, payload any, options ...ActionOption) error {
	return i.edit(ctx, ActionRetryWith, id, options, func(q Querier, generation int) error {
		return i.client.RetryWith(ctx, q, id, payload, generation)
	})
}

// edit is act for what makes a new version of the job. The generation is checked by the function itself, and the attempt, which the
// edit does not change, behind it: by then the row is ours.
func (i *Inspector) edit(ctx context.Context, action Action, id int64, options []ActionOption, fn func(Querier, int) error) error {
	if err := runsOn(i.q); err != nil {
		return fmt.Errorf("%s job %d: %w", action, id, err)
	}
	s := newActionSettings(options)
	entry := AuditEntry{Action: action, Jobs: []int64{id}}
	if s.version == nil {
		return explained(i.audited(ctx, entry, func(q Querier) error { return fn(q, 0) }))
	}
	want := *s.version
	return explained(i.inTx(ctx, func(tx pgx.Tx) error {
		if err := fn(tx, want.Generation); err != nil {
			var changed *ChangedError
			if errors.As(err, &changed) {
				changed.Want = want
			}
			return err
		}
		found, err := i.store.Versions(ctx, tx, []int64{id})
		if err != nil {
			return err
		}
		for _, job := range found {
			if job.Attempt != want.Attempt {
				return &ChangedError{ID: id, Want: want, Have: Version{job.Attempt, job.Generation - 1}}
			}
		}
		return i.tell(ctx, tx, entry)
	}))
}

// RescheduleMany makes all pending jobs that match due at a time, zero for now, or with options.Spread at random within that time after it;
// see [Inspector.Reschedule]. filter.States may name pending, or nothing. A job that is claimed meanwhile is skipped.
func (i *Inspector) RescheduleMany(ctx context.Context, filter Filter, at time.Time, options BulkOptions) (*BulkResult, error) {
	due, invalid := storedTime("run_at", at)
	if invalid != nil {
		return nil, fmt.Errorf("reschedule jobs: %w", invalid)
	}
	return i.bulk(ctx, bulkAction{
		name: ActionReschedule, fallback: []JobState{JobPending}, spreads: true, detail: dueDetail(at),
		do: func(ctx context.Context, tx pgx.Tx, targets []jobstore.Target) ([]jobstore.Answer, error) {
			return i.store.RescheduleMany(ctx, tx, targets, due, options.Spread)
		},
	}, filter, options)
}

// SetPriorityMany changes the priority of all jobs that match; see [Inspector.SetPriority]. filter.States may name pending, running, failed
// or dead, or nothing, which means pending.
func (i *Inspector) SetPriorityMany(ctx context.Context, filter Filter, priority int, options BulkOptions) (*BulkResult, error) {
	if err := checkPriority(priority); err != nil {
		return nil, fmt.Errorf("set priority of jobs: %w", err)
	}
	if len(filter.States) == 0 {
		filter.States = []JobState{JobPending}
	}
	return i.bulk(ctx, bulkAction{
		name: ActionSetPriority, fallback: []JobState{JobPending, JobRunning, JobFailed, JobDead}, detail: fmt.Sprintf("priority %d", priority),
		do: func(ctx context.Context, tx pgx.Tx, targets []jobstore.Target) ([]jobstore.Answer, error) {
			return i.store.SetPriorityMany(ctx, tx, targets, priority)
		},
	}, filter, options)
}
