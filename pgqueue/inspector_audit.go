package pgqueue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Action names what an [Inspector], or a tool, does to jobs, queues or schedules.
type Action string

// The actions of an inspector.
const (
	ActionRetry          Action = "retry"
	ActionCancel         Action = "cancel"
	ActionDelete         Action = "delete"
	ActionPurge          Action = "purge" // delete what has ended
	ActionSetMaxAttempts Action = "set_max_attempts"
	ActionPause          Action = "pause"
	ActionResume         Action = "resume"
	ActionPauseKind      Action = "pause_kind"
	ActionResumeKind     Action = "resume_kind"
	ActionReschedule     Action = "reschedule"
	ActionSetPriority    Action = "set_priority"
	ActionEdit           Action = "edit"       // replace the input
	ActionRetryWith      Action = "retry_with" // with another input
	ActionSetHistory     Action = "set_history"
	ActionReleaseKey     Action = "release_key" // of WithIdempotencyKey

	// Those of tools that do more than an inspector can, see [Inspector.Record].
	ActionEnqueue         Action = "enqueue"
	ActionImport          Action = "import"
	ActionSchedulePut     Action = "schedule_put" // made, or changed
	ActionScheduleEnable  Action = "schedule_enable"
	ActionScheduleDisable Action = "schedule_disable"
	ActionScheduleDelete  Action = "schedule_delete"
	ActionScheduleTrigger Action = "schedule_trigger" // beside its ticks; Jobs has the job
)

// AuditEntry is one line for an audit log: who did what to what. It holds no payload.
type AuditEntry struct {
	Actor  string // as given to [Inspector.As]; may be empty
	Action Action
	// Jobs are the jobs that the action was done to, and Queue the queue, where it was done to a queue. A bulk action makes
	// an entry for each of its batches, and leaves out what it did nothing to.
	Jobs  []int64
	Queue string
	// Kind is the kind that was paused or resumed, in that Queue or, where that is empty, in all.
	Kind string
	// Subject is what the action was done to where that is no job, queue or kind: the name of a schedule.
	Subject string
	// Filter is what a bulk action was asked to act on; nil for all others. It must not be changed.
	Filter *Filter
	// Detail says more, where there is more to say: "max_attempts 20", "slim", the end and the reason of a pause.
	Detail string
}

// AuditFunc is told of each action after it was done and before it is committed. It may write to tx, so that the log holds
// exactly what happened; an error from it undoes the action, and is returned. What was refused, or found nothing to
// do, is no action. It may be called by several goroutines, and must not keep tx, nor end it. [RecordAudit] makes one that writes
// pgqueue's own log.
type AuditFunc func(ctx context.Context, tx pgx.Tx, entry AuditEntry) error

// audited runs an action that fn does on what it is given. A transaction is only opened where somebody has to be told, and a
// savepoint in a caller's, which what Postgres refuses would abort.
func (i *Inspector) audited(ctx context.Context, entry AuditEntry, fn func(Querier) error) error {
	return i.auditedAs(ctx, &entry, fn)
}

// auditedAs is audited for an action that completes its entry.
func (i *Inspector) auditedAs(ctx context.Context, entry *AuditEntry, fn func(Querier) error) error {
	if _, ok := i.q.(pgx.Tx); !ok && i.audit == nil {
		return fn(i.q)
	}
	return i.inTx(ctx, func(tx pgx.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return i.tell(ctx, tx, *entry)
	})
}

// tell tells the audit log.
func (i *Inspector) tell(ctx context.Context, tx pgx.Tx, entry AuditEntry) error {
	if i.audit == nil {
		return nil
	}
	entry.Actor = i.actor
	if err := i.audit(ctx, tx, entry); err != nil {
		return &auditError{err}
	}
	return nil
}

// auditError is an error of an AuditFunc, whatever it holds: a bulk action stops at it, and tries nothing again.
type auditError struct{ err error }

func (e *auditError) Error() string { return fmt.Sprintf("audit: %v", e.err) }
func (e *auditError) Unwrap() error { return e.err }
