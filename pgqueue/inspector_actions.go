package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// ErrJobRunning is returned by [Inspector.Delete] for a job that runs, unless [EvenIfRunning] allows it, and by [Client.Reschedule].
var ErrJobRunning = errors.New("the job is running")

// Version tells two states of a job apart: its attempt rises with each claim, its generation with each new input. What was
// decided while looking at one version need not be right for another.
type Version struct {
	Attempt    int
	Generation int
}

// String is the version for a form or a command line, such as "3.1".
func (v Version) String() string { return strconv.Itoa(v.Attempt) + "." + strconv.Itoa(v.Generation) }

// ParseVersion reads what [Version.String] wrote.
func ParseVersion(text string) (Version, error) {
	attempt, generation, ok := strings.Cut(text, ".")
	a, errA := strconv.ParseUint(attempt, 10, 31)
	g, errG := strconv.ParseUint(generation, 10, 31)
	if !ok || errA != nil || errG != nil {
		return Version{}, fmt.Errorf("parse version: %w", invalid("version", fmt.Sprintf("must be two numbers, such as 3.1, is %q", text)))
	}
	return Version{Attempt: int(a), Generation: int(g)}, nil
}

// ChangedError is returned by an action with [IfVersion] on a job that has another version by now, and with [IfState] on one in another
// state. Nothing was changed.
type ChangedError struct {
	ID   int64
	Want Version
	Have Version
	// WantState and HaveState are set where the state is what differs.
	WantState, HaveState JobState
}

// Error names both versions, or both states.
func (e *ChangedError) Error() string {
	if e.WantState != e.HaveState {
		return fmt.Sprintf("job %d has changed: it is %s, no longer %s", e.ID, e.HaveState, e.WantState)
	}
	return fmt.Sprintf("job %d has changed: it is at attempt %d of input %d, no longer at attempt %d of input %d",
		e.ID, e.Have.Attempt, e.Have.Generation, e.Want.Attempt, e.Want.Generation)
}

// ReferencedError is returned by [Inspector.Delete] where a foreign key of another table holds the job. Nothing was changed.
type ReferencedError struct {
	ID         int64
	Table      string // schema and name of the table that refers to the job
	Constraint string
}

// Error names the table and the constraint.
func (e *ReferencedError) Error() string {
	return fmt.Sprintf("job %d cannot be deleted: table %s refers to it (%s)", e.ID, e.Table, e.Constraint)
}

// ActionOption is a condition of a single action.
type ActionOption func(*actionSettings)

type actionSettings struct {
	version *Version
	state   JobState // empty: any
	running bool
}

// IfVersion lets the action happen only if the job still has the version that somebody looked at; otherwise it is a
// [*ChangedError].
func IfVersion(version Version) ActionOption {
	return func(s *actionSettings) { s.version = &version }
}

// IfState lets [Inspector.Delete] delete a job only if it is in that state; otherwise it is a [*ChangedError]. A retry changes neither
// attempt nor input, so [IfVersion] alone would let somebody who looks at a dead job delete one that waits to run again. Other actions
// take jobs in certain states alone, and ignore this.
func IfState(state JobState) ActionOption {
	return func(s *actionSettings) { s.state = state }
}

// EvenIfRunning lets [Inspector.Delete] delete a job that runs.
func EvenIfRunning() ActionOption {
	return func(s *actionSettings) { s.running = true }
}

func newActionSettings(options []ActionOption) actionSettings {
	var s actionSettings
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	return s
}

// Retry brings a failed or dead job back; see [Client.Retry] for what becomes of it and for the errors. Of several that
// retry the same job at once, one succeeds.
func (i *Inspector) Retry(ctx context.Context, id int64, options ...ActionOption) error {
	return i.act(ctx, ActionRetry, id, "", options, func(q Querier) error { return i.client.Retry(ctx, q, id) })
}

// Cancel ends a pending job, or asks a running one to stop; see [Client.Cancel] for what it returns.
func (i *Inspector) Cancel(ctx context.Context, id int64, options ...ActionOption) (state JobState, err error) {
	err = i.act(ctx, ActionCancel, id, "", options, func(q Querier) error {
		var err error
		state, err = i.client.Cancel(ctx, q, id)
		return err
	})
	if err != nil {
		return "", err
	}
	return state, nil
}

// SetMaxAttempts changes how many attempts of a job may fail; see [Client.SetMaxAttempts].
func (i *Inspector) SetMaxAttempts(ctx context.Context, id int64, n int, options ...ActionOption) (state JobState, err error) {
	err = i.act(ctx, ActionSetMaxAttempts, id, fmt.Sprintf("max_attempts %d", n), options, func(q Querier) error {
		var err error
		state, err = i.client.SetMaxAttempts(ctx, q, id, n)
		return err
	})
	if err != nil {
		return "", err
	}
	return state, nil
}

// act does one thing to one job. A condition is checked behind the action, in its transaction: by then the row is ours, and
// nobody changes it any more. (Locking it first would take a right on the table, which an operator does not have.)
func (i *Inspector) act(ctx context.Context, action Action, id int64, detail string, options []ActionOption, fn func(Querier) error) error {
	if err := runsOn(i.q); err != nil {
		return fmt.Errorf("%s job %d: %w", action, id, err)
	}
	s := newActionSettings(options)
	entry := AuditEntry{Action: action, Jobs: []int64{id}, Detail: detail}
	if s.version == nil {
		return explained(i.audited(ctx, entry, fn))
	}
	return explained(i.inTx(ctx, func(tx pgx.Tx) error {
		if err := fn(tx); err != nil {
			if postgresCode(err) == "" { // a refusal; the transaction is as usable as it was
				if changed := i.changed(ctx, tx, id, *s.version); changed != nil {
					return changed
				}
			}
			return err
		}
		if err := i.changed(ctx, tx, id, *s.version); err != nil {
			return err
		}
		return i.tell(ctx, tx, entry)
	}))
}

// changed is a ChangedError if the job has another version than want.
func (i *Inspector) changed(ctx context.Context, q Querier, id int64, want Version) error {
	found, err := i.store.Versions(ctx, q, []int64{id})
	if err != nil {
		return err
	}
	for _, job := range found {
		if have := (Version{job.Attempt, job.Generation}); have != want {
			return &ChangedError{ID: id, Want: want, Have: have}
		}
	}
	return nil
}

// deleteRounds is how often Delete looks for a job that moves between the tables while it is looked for.
const deleteRounds = 10

// Delete deletes a job, live or finished, with all that is stored about it. It returns [ErrNotFound] where there is none,
// [*ReferencedError] where a foreign key holds it, and [ErrJobRunning] for a job that runs: cancel it instead, so that its
// handler stops first. With [EvenIfRunning] it is deleted all the same: its handler learns with the next renewal that the
// lease is lost, and whatever it reports is discarded; the job does not run again. Its key is free at once, so a new job of
// that key may run while the old handler still does.
//
// There is no function for this: it takes the right to delete from the tables, which operators do not have.
func (i *Inspector) Delete(ctx context.Context, id int64, options ...ActionOption) error {
	if err := runsOn(i.q); err != nil {
		return fmt.Errorf("delete job %d: %w", id, err)
	}
	s := newActionSettings(options)
	var attempt, generation *int
	if s.version != nil {
		attempt, generation = &s.version.Attempt, &s.version.Generation
	}
	for range deleteRounds {
		var state string
		remove := func(q Querier) error {
			var err error
			if state, err = i.store.DeleteOne(ctx, q, id, s.running, attempt, generation); err != nil {
				return err
			}
			if state == "" || s.state != "" && JobState(state) != s.state {
				return errNothingDone
			}
			return nil
		}
		entry := AuditEntry{Action: ActionDelete, Jobs: []int64{id}}
		var err error
		if s.state == "" {
			err = i.audited(ctx, entry, remove)
		} else { // in a transaction in any case: what turns out to be in another state is put back
			err = i.inTx(ctx, func(tx pgx.Tx) error {
				if err := remove(tx); err != nil {
					return err
				}
				return i.tell(ctx, tx, entry)
			})
		}
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, errNothingDone):
			return explained(deletionError(id, err))
		}
		found, err := i.store.Versions(ctx, i.q, []int64{id})
		if err != nil {
			return explained(err)
		}
		if err := whyNotDeleted(id, found, s); err != nil {
			return fmt.Errorf("delete job %d: %w", id, err)
		}
	}
	return fmt.Errorf("delete job %d: it moves about all the time", id)
}

// errNothingDone rolls back what has changed nothing.
var errNothingDone = errors.New("nothing was done")

// whyNotDeleted is the reason that speaks against the job as it stands now; nil if it can be deleted.
func whyNotDeleted(id int64, found []jobstore.Target, s actionSettings) error {
	if len(found) == 0 {
		return ErrNotFound
	}
	job := found[0]
	if have := (Version{job.Attempt, job.Generation}); s.version != nil && have != *s.version {
		return &ChangedError{ID: id, Want: *s.version, Have: have}
	} else if state := JobState(job.State); s.state != "" && state != s.state {
		return &ChangedError{ID: id, Want: have, Have: have, WantState: s.state, HaveState: state}
	}
	if JobState(job.State) == JobRunning && !s.running {
		return ErrJobRunning
	}
	return nil
}

// deletionError makes a foreign key's refusal readable.
func deletionError(id int64, err error) error {
	var failed *pgconn.PgError
	if errors.As(err, &failed) && failed.Code == codeReferenced {
		return &ReferencedError{ID: id, Table: failed.SchemaName + "." + failed.TableName, Constraint: failed.ConstraintName}
	}
	return fmt.Errorf("delete job %d: %w", id, err)
}

// codeReferenced is foreign_key_violation.
const codeReferenced = "23503"
