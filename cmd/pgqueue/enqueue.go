package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func (a *app) enqueueCommand() *cobra.Command {
	var flags enqueueFlags
	command := &cobra.Command{
		Use: "enqueue KIND", Short: "Enqueue one job", Args: cobra.ExactArgs(1),
		Long: `Enqueues one job of a kind, with the options that a program has. The payload is JSON: --payload has it, or --payload-file names a
file, - for the input; without, it is {}. Prefer a file or the input where it holds what others must not see: arguments stand in the list
of processes and in the shell's history.

With a key, at most one job of queue, kind and key is live: a second enqueue replaces its input. docs/unique.md has the other rules.
For many jobs see pgqueue jobs import.`,
		Example: `  pgqueue enqueue send_welcome --payload '{"user_id": 42}'
  pgqueue enqueue reindex --key products --queue search --priority 4 --run-at 2026-03-01T02:30:00Z
  jq -c .order order.json | pgqueue enqueue bill --payload-file - --wait 1m
  pgqueue enqueue cleanup --delay 1h --tag nightly --metadata '{"ticket": "OPS-17"}' --dry-run`,
		RunE: func(command *cobra.Command, args []string) error { return a.enqueue(command, args[0], &flags) },
	}
	flags.define(command)
	return command
}

// enqueuedView is what an enqueue did, for JSON. With --wait it has how the job ended.
type enqueuedView struct {
	ID      int64            `json:"id"`
	Outcome string           `json:"outcome"` // inserted, replaced, same, duplicate
	Queue   string           `json:"queue"`
	Kind    string           `json:"kind"`
	State   pgqueue.JobState `json:"state,omitempty"`  // of a duplicate that is live; with wait, how it ended
	Result  json.RawMessage  `json:"result,omitempty"` // with wait
	Code    string           `json:"error_code,omitempty"`
	Message string           `json:"error_message,omitempty"`
}

// done says what was done.
func (v *enqueuedView) done() string {
	if v.Outcome == pgqueue.Inserted.String() {
		return fmt.Sprintf("job %d was enqueued", v.ID)
	}
	return fmt.Sprintf("job %d: %s", v.ID, v.Outcome)
}

func (a *app) enqueue(command *cobra.Command, kind string, flags *enqueueFlags) error {
	ctx := command.Context()
	payload, metadata, err := a.enqueueDocuments(flags)
	if err != nil {
		return err
	}
	session, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer session.close()
	options, err := flags.options(ctx, command, &databaseClock{pool: session.pool}, metadata)
	if err != nil {
		return err
	}
	args := pgqueue.Raw{Name: kind, Payload: payload}
	resolved, err := session.client.Resolve(pgqueue.NewJob{Args: args, Options: options})
	if err != nil {
		return explainedInput(err)
	}
	if flags.dryRun {
		return a.writeResolved(resolved)
	}
	var done pgqueue.Enqueued
	err = session.inspector.RecordResult(ctx, func(tx pgx.Tx) (pgqueue.AuditEntry, error) {
		var err error
		done, err = session.client.Enqueue(ctx, tx, args, options...)
		if err != nil || done.Outcome == pgqueue.Same || done.Outcome == pgqueue.Duplicate {
			return pgqueue.AuditEntry{}, err // nothing was done, so there is nothing to tell
		}
		return pgqueue.AuditEntry{
			Action: pgqueue.ActionEnqueue, Jobs: []int64{done.ID}, Queue: resolved.Queue, Kind: kind, Detail: done.Outcome.String(),
		}, nil
	})
	if err != nil {
		return explainedInput(err)
	}
	view := enqueuedView{ID: done.ID, Outcome: done.Outcome.String(), Queue: resolved.Queue, Kind: kind, State: done.State}
	if !a.flags.json {
		if err := a.printf("job %d %s (queue %s, kind %s)\n", view.ID, view.Outcome, visible(view.Queue), visible(view.Kind)); err != nil {
			return answered(err, view.done())
		}
	}
	if flags.wait == 0 {
		if a.flags.json {
			return answered(a.writeJSON(view), view.done())
		}
		return nil
	}
	return a.awaitEnqueued(ctx, session, view, time.Duration(flags.wait))
}

// awaitEnqueued waits for the end of a job and tells of it. A job that has not succeeded is exit code 1.
func (a *app) awaitEnqueued(ctx context.Context, session *session, view enqueuedView, patience time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	status, err := session.client.Await(bounded, view.ID)
	if err != nil {
		if a.flags.json { // the job exists: its number must not be lost
			err = errors.Join(answered(a.writeJSON(view), view.done()), err)
		}
		if ctx.Err() != nil {
			return &exitError{code: exitStopped, err: fmt.Errorf("stopped waiting for job %d, which stays", view.ID)}
		}
		if bounded.Err() != nil {
			return withHint(fmt.Errorf("job %d has not ended within %s", view.ID, span(patience)), "pgqueue jobs why %d says what it waits for", view.ID)
		}
		return err
	}
	view.State, view.Result = status.State, status.Result
	if n := len(status.Failed); n > 0 && status.State != pgqueue.JobSucceeded {
		view.Code, view.Message = status.Failed[n-1].Code, status.Failed[n-1].Message
	}
	if a.flags.json {
		err = a.writeJSON(view)
	} else {
		err = a.writeFacts([][2]string{
			{"state", string(view.State)}, {"result", string(indented(view.Result))}, {"error", strings.TrimSpace(view.Code + " " + view.Message)},
		})
	}
	if err != nil || status.State == pgqueue.JobSucceeded {
		return answered(err, fmt.Sprintf("job %d: %s", view.ID, view.State))
	}
	return &exitError{code: exitFailed}
}

// writeResolved shows what would be enqueued.
func (a *app) writeResolved(job pgqueue.ResolvedJob) error {
	if a.flags.json {
		view := struct {
			DryRun      bool            `json:"dry_run"`
			Queue       string          `json:"queue"`
			Kind        string          `json:"kind"`
			Key         string          `json:"key,omitempty"`
			Revision    string          `json:"revision,omitempty"`
			Priority    int             `json:"priority"`
			MaxAttempts int             `json:"max_attempts"`
			RunAt       *time.Time      `json:"run_at,omitempty"`
			Delay       float64         `json:"delay_seconds,omitempty"`
			Tags        []string        `json:"tags"`
			Metadata    json.RawMessage `json:"metadata"`
			Payload     json.RawMessage `json:"payload"`
			More        bool            `json:"more,omitempty"`
		}{
			DryRun: true, Queue: job.Queue, Kind: job.Kind, Key: job.Key, Revision: job.Revision, Priority: job.Priority, MaxAttempts: job.MaxAttempts,
			Delay: job.Delay.Seconds(), Tags: append([]string{}, job.Tags...), Metadata: job.Metadata, Payload: job.Payload, More: job.More,
		}
		if !job.RunAt.IsZero() {
			view.RunAt = &job.RunAt
		}
		return a.writeJSON(view)
	}
	due := "now"
	if !job.RunAt.IsZero() {
		due = job.RunAt.UTC().Format(time.RFC3339Nano)
	}
	if job.Delay > 0 {
		due += " + " + span(job.Delay)
	}
	more := ""
	if job.More {
		more = "a rule of uniqueness, which the database decides on"
	}
	return a.writeFacts([][2]string{
		{"would enqueue", job.Kind}, {"queue", job.Queue}, {"key", visible(job.Key)}, {"revision", visible(job.Revision)}, {"priority", fmt.Sprint(job.Priority)},
		{"max attempts", fmt.Sprint(job.MaxAttempts)}, {"due", due}, {"tags", visible(strings.Join(job.Tags, ", "))},
		{"metadata", string(indented(job.Metadata))}, {"payload", string(indented(job.Payload))}, {"and", more},
	})
}

// explainedInput names the flag where the library names the field.
func explainedInput(err error) error {
	refused, ok := errors.AsType[*pgqueue.ValidationError](err)
	if !ok {
		return err
	}
	field := refused.Field
	for _, known := range []struct{ field, flag string }{
		{"payload", "--payload"}, {"metadata", "--metadata"}, {"run_at", "--run-at"}, {"max_attempts", "--max-attempts"},
		{"tags", "--tag"}, {"kind", "KIND"}, {"queue", "--queue"}, {"key", "--key"}, {"revision", "--revision"}, {"priority", "--priority"},
		{"delay", "--delay"},
	} {
		if rest, ok := strings.CutPrefix(field, known.field); ok && (rest == "" || strings.ContainsRune(".[", rune(rest[0]))) {
			field = known.flag + rest
			break
		}
	}
	return &exitError{code: exitUsage, err: fmt.Errorf("%s %s", visible(field), block(refused.Message))}
}
