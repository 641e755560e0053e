package console

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// bulkKind is a kind of bulk action: what can be done to all jobs that match a filter.
type bulkKind struct {
	Name  pgqueue.Action     // in addresses and forms, too
	Title string             // of a page: "Retry jobs"
	Verb  string             // of a button: "Retry"
	Hint  string             // what becomes of the jobs, in a sentence
	can   []pgqueue.JobState // the states that it can be done to
	means []pgqueue.JobState // those that a filter without states and numbers means; nil: can
	// Spreads: by Spread, jobs become due at random. Destroys: it cannot be undone. Due and Priority: the form asks for one.
	Spreads, Destroys, Due, Priority bool
}

// bulkKinds are all kinds of bulk actions.
func bulkKinds() []*bulkKind {
	ended := []pgqueue.JobState{pgqueue.JobSucceeded, pgqueue.JobFailed, pgqueue.JobDead, pgqueue.JobCancelled}
	return []*bulkKind{
		{
			Name: pgqueue.ActionRetry, Title: "Retry jobs", Verb: "Retry", Spreads: true,
			Hint: "Failed and dead jobs become pending again, with their full number of attempts. A job whose key a newer job has is left as it is.",
			can:  []pgqueue.JobState{pgqueue.JobFailed, pgqueue.JobDead},
		}, {
			Name: pgqueue.ActionCancel, Title: "Cancel jobs", Verb: "Cancel",
			Hint: "Pending jobs end as cancelled. Running ones are asked to stop, and end when their handler heeds it.",
			can:  []pgqueue.JobState{pgqueue.JobPending, pgqueue.JobRunning},
		}, {
			Name: pgqueue.ActionDelete, Title: "Delete jobs", Verb: "Delete", Destroys: true,
			Hint: "The jobs are gone, with their payloads, results and errors. Nothing brings them back.",
			can:  append([]pgqueue.JobState{pgqueue.JobPending, pgqueue.JobRunning}, ended...),
		}, {
			Name: pgqueue.ActionPurge, Title: "Purge history", Verb: "Purge", Destroys: true,
			Hint: "Jobs that have ended are gone, with their payloads, results and errors. Nothing brings them back. Pending and running ones stay.",
			can:  ended,
		}, {
			Name: pgqueue.ActionReschedule, Title: "Reschedule jobs", Verb: "Reschedule", Spreads: true, Due: true,
			Hint: "Pending jobs become due at another time. Nothing is counted as an attempt.",
			can:  []pgqueue.JobState{pgqueue.JobPending},
		}, {
			Name: pgqueue.ActionSetPriority, Title: "Change the priority of jobs", Verb: "Change priority", Priority: true,
			Hint:  "Pending jobs are claimed by their new priority. Running, failed and dead ones keep it for their next attempt.",
			can:   []pgqueue.JobState{pgqueue.JobPending, pgqueue.JobRunning, pgqueue.JobFailed, pgqueue.JobDead},
			means: []pgqueue.JobState{pgqueue.JobPending},
		},
	}
}

// bulkKindOf finds a kind by its name.
func bulkKindOf(name string) (*bulkKind, bool) {
	for _, kind := range bulkKinds() {
		if string(kind.Name) == name {
			return kind, true
		}
	}
	return nil, false
}

// bulk is a bulk action as somebody asks for it.
type bulk struct {
	*bulkKind
	Filter      pgqueue.Filter // names the states that are meant
	Spread      time.Duration
	DueAt       time.Time // of Due; zero: now
	NewPriority int       // of Priority
	Running     bool      // delete what runs, too
	Spared      bool      // what runs was among the states that are meant, and is left out
	Batch       int
	Pause       time.Duration
	Resume      string // the cursor of an operation that did not get to its end
}

// errNoState says that a filter names only states that the action cannot be done to.
var errNoState = errors.New("there is no such state among those that are meant")

// narrow lets the filter name the states that are meant: of those that it names, the ones that the action can be done to, and
// where it names none, all of these. What runs is deleted only where somebody says so.
func (b *bulk) narrow() error {
	named := b.Filter.States
	if len(named) == 0 {
		named = b.can
		if b.means != nil && b.Filter.IDs == nil {
			named = b.means
		}
	}
	b.Filter.States = nil
	for _, state := range named {
		if b.Name == pgqueue.ActionDelete && state == pgqueue.JobRunning && !b.Running {
			b.Spared = true
			continue
		}
		if slices.Contains(b.can, state) && !slices.Contains(b.Filter.States, state) {
			b.Filter.States = append(b.Filter.States, state)
		}
	}
	if b.Name == pgqueue.ActionDelete && b.Running && !slices.Contains(b.Filter.States, pgqueue.JobRunning) {
		b.Filter.States = append(b.Filter.States, pgqueue.JobRunning)
	}
	if len(b.Filter.States) == 0 && !b.Spared {
		return errNoState
	}
	return nil
}

// Everything tells whether nothing but states narrows the filter, and the bound of untilNow: all queues are meant.
func (b *bulk) Everything() bool {
	f := b.Filter
	return f.Queue == "" && f.Kind == "" && f.Key == "" && len(f.Tags) == 0 && f.Priority == 0 && f.MinID == 0 && f.IDs == nil &&
		f.Created == (pgqueue.TimeRange{}) && f.Finished == (pgqueue.TimeRange{}) && f.Due == (pgqueue.TimeRange{}) &&
		f.ErrorCode == "" && len(f.Payload) == 0 && f.ClaimedBy == ""
}

// act does it, or counts what it would be done to.
func (b *bulk) act(ctx context.Context, inspector *pgqueue.Inspector, options pgqueue.BulkOptions) (*pgqueue.BulkResult, error) {
	options.Cursor, options.BatchSize = b.Resume, b.Batch
	if b.Spreads {
		options.Spread = b.Spread
	}
	switch b.Name {
	case pgqueue.ActionRetry:
		return inspector.RetryMany(ctx, b.Filter, options)
	case pgqueue.ActionCancel:
		return inspector.CancelMany(ctx, b.Filter, options)
	case pgqueue.ActionPurge:
		return inspector.Purge(ctx, b.Filter, options)
	case pgqueue.ActionReschedule:
		return inspector.RescheduleMany(ctx, b.Filter, b.DueAt, options)
	case pgqueue.ActionSetPriority:
		return inspector.SetPriorityMany(ctx, b.Filter, b.NewPriority, options)
	default:
		options.EvenIfRunning = b.Running
		return inspector.DeleteMany(ctx, b.Filter, options)
	}
}

// check finds what is wrong with it, before anything is begun: it counts until the first rows have been looked at.
func (b *bulk) check(ctx context.Context, inspector *pgqueue.Inspector) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	enough := errors.New("enough")
	if len(b.Filter.States) == 0 { // only running jobs are meant, and nobody has said yet that these are to be deleted
		sure := *b
		sure.Running, sure.Filter.States = true, []pgqueue.JobState{pgqueue.JobRunning}
		b = &sure
	}
	_, err := b.act(ctx, inspector, pgqueue.BulkOptions{DryRun: true, Limit: 1, Progress: func(pgqueue.BulkResult) { cancel(enough) }})
	if errors.Is(err, enough) {
		return nil
	}
	return err
}
