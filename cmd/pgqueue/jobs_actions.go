package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// jobAction is something that is done to jobs: to those that are named, or to all that match a filter.
type jobAction struct {
	name, done  string // "retry", "retried"
	short, long string
	example     string
	// flags adds the flags of the action alone. prepare reads them, before anything is done, and returns how a command line repeats them.
	flags   func(cmd *cobra.Command)
	prepare func(ctx context.Context, cmd *cobra.Command, clock *databaseClock) ([]string, error)
	// one does it to one job and says what became of it.
	one func(ctx context.Context, i *pgqueue.Inspector, id int64, options []pgqueue.ActionOption) (string, error)
	// many does it to all that match; nil: there is no such form.
	many    func(ctx context.Context, i *pgqueue.Inspector, filter pgqueue.Filter, options pgqueue.BulkOptions) (*pgqueue.BulkResult, error)
	spreads bool // it takes --spread
	running bool // it takes --even-if-running
}

// jobActions makes the actions. Each call makes new ones: they hold the values of their flags.
func jobActions() []*jobAction {
	return []*jobAction{retryAction(), cancelAction(), deleteAction(), rescheduleAction(), priorityAction(), maxAttemptsAction()}
}

func retryAction() *jobAction {
	return &jobAction{
		name: "retry", done: "retried", spreads: true,
		short: "Bring failed and dead jobs back",
		long: `Bring failed and dead jobs back: due now, with a new budget of attempts. What has succeeded or was cancelled stays as it is, and so does a job
whose key a newer live job has. With --spread the jobs become due at random within that time.`,
		example: `  pgqueue jobs retry 17 18
  pgqueue jobs retry --all-matching --state dead --code timeout --spread 10m`,
		one: func(ctx context.Context, i *pgqueue.Inspector, id int64, options []pgqueue.ActionOption) (string, error) {
			return "retried", i.Retry(ctx, id, options...)
		},
		many: func(ctx context.Context, i *pgqueue.Inspector, filter pgqueue.Filter, options pgqueue.BulkOptions) (*pgqueue.BulkResult, error) {
			return i.RetryMany(ctx, filter, options)
		},
	}
}

func cancelAction() *jobAction {
	return &jobAction{
		name: "cancel", done: "cancelled",
		short: "End pending jobs, and ask running ones to stop",
		long: `End pending jobs, and ask running ones to stop: their handlers' contexts end, and the jobs are cancelled when the handlers return an
error. A handler that finishes nevertheless has succeeded.`,
		example: `  pgqueue jobs cancel 17
  pgqueue jobs cancel --all-matching --queue mail --tag campaign-9`,
		one: func(ctx context.Context, i *pgqueue.Inspector, id int64, options []pgqueue.ActionOption) (string, error) {
			state, err := i.Cancel(ctx, id, options...)
			if state == pgqueue.JobRunning {
				return "asked to stop", err
			}
			return "cancelled", err
		},
		many: func(ctx context.Context, i *pgqueue.Inspector, filter pgqueue.Filter, options pgqueue.BulkOptions) (*pgqueue.BulkResult, error) {
			return i.CancelMany(ctx, filter, options)
		},
	}
}

func deleteAction() *jobAction {
	return &jobAction{
		name: "delete", done: "deleted", running: true,
		short: "Delete jobs with all that is stored about them",
		long: `Delete jobs, live or finished, with all that is stored about them. A running job is refused: cancel it. With --even-if-running it is
deleted all the same: what its handler reports is discarded, and its key is free while the handler may still run.
With --all-matching, --state must say which states are meant.`,
		example: `  pgqueue jobs delete 17
  pgqueue jobs delete --all-matching --state succeeded --finished-to -2d`,
		one: func(ctx context.Context, i *pgqueue.Inspector, id int64, options []pgqueue.ActionOption) (string, error) {
			return "deleted", i.Delete(ctx, id, options...)
		},
		many: func(ctx context.Context, i *pgqueue.Inspector, filter pgqueue.Filter, options pgqueue.BulkOptions) (*pgqueue.BulkResult, error) {
			if len(filter.States) == 0 {
				return nil, usage("delete --all-matching needs --state, which says which states are meant")
			}
			if slices.Contains(filter.States, pgqueue.JobRunning) && !options.EvenIfRunning {
				return nil, usage("--state running needs --even-if-running too; or cancel those jobs")
			}
			return i.DeleteMany(ctx, filter, options)
		},
	}
}

func rescheduleAction() *jobAction {
	var text string
	var at time.Time
	return &jobAction{
		name: "reschedule", done: "rescheduled", spreads: true,
		short: "Set when pending jobs are due: now, or at a time",
		long: `Set when pending jobs are due, also those that wait for a retry. Without --at, and for a time that has passed, they are due now. With --spread
they become due at random within that time after it. A running job is left as it is.`,
		example: `  pgqueue jobs reschedule 17
  pgqueue jobs reschedule --all-matching --queue mail --at +1h --spread 30m`,
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&text, "at", "now", "when: RFC 3339, or a distance from now such as +90m or +1d")
		},
		prepare: func(ctx context.Context, _ *cobra.Command, clock *databaseClock) ([]string, error) {
			if text == "now" {
				return nil, nil
			}
			var err error
			if at, err = clock.resolve(ctx, "at", text); err != nil {
				return nil, err
			}
			return []string{"--at", at.UTC().Format(time.RFC3339Nano)}, nil
		},
		one: func(ctx context.Context, i *pgqueue.Inspector, id int64, options []pgqueue.ActionOption) (string, error) {
			return "rescheduled", i.Reschedule(ctx, id, at, options...)
		},
		many: func(ctx context.Context, i *pgqueue.Inspector, filter pgqueue.Filter, options pgqueue.BulkOptions) (*pgqueue.BulkResult, error) {
			return i.RescheduleMany(ctx, filter, at, options)
		},
	}
}

// toFlag is the flag --to of actions that set a number.
func toFlag(to *int, help string) func(*cobra.Command) {
	return func(cmd *cobra.Command) { cmd.Flags().IntVar(to, "to", 0, help) }
}

// prepareTo refuses the lack of --to.
func prepareTo(to *int, help string) func(context.Context, *cobra.Command, *databaseClock) ([]string, error) {
	return func(_ context.Context, cmd *cobra.Command, _ *databaseClock) ([]string, error) {
		if !cmd.Flags().Changed("to") {
			return nil, usage("say --to: %s", help)
		}
		return []string{"--to", strconv.Itoa(*to)}, nil
	}
}

func priorityAction() *jobAction {
	var to int
	const help = "the new priority, from 1, which goes first, to 4"
	return &jobAction{
		name: "priority", done: "changed", flags: toFlag(&to, help), prepare: prepareTo(&to, help),
		short: "Change the priority of jobs",
		long: `Change the priority of jobs; they keep their due time. For a running job it counts from its next attempt on, and a failed or dead one keeps it
for its retry. With --all-matching it is done to pending jobs, unless --state says otherwise.`,
		example: `  pgqueue jobs priority 17 --to 1
  pgqueue jobs priority --all-matching --queue mail --tag backfill --to 4`,
		one: func(ctx context.Context, i *pgqueue.Inspector, id int64, options []pgqueue.ActionOption) (string, error) {
			state, err := i.SetPriority(ctx, id, to, options...)
			return fmt.Sprintf("priority %d; it is %s", to, state), err
		},
		many: func(ctx context.Context, i *pgqueue.Inspector, filter pgqueue.Filter, options pgqueue.BulkOptions) (*pgqueue.BulkResult, error) {
			return i.SetPriorityMany(ctx, filter, to, options)
		},
	}
}

func maxAttemptsAction() *jobAction {
	var to int
	const help = "how many attempts may fail, from 1 to 32,767"
	return &jobAction{
		name: "max-attempts", done: "changed", flags: toFlag(&to, help), prepare: prepareTo(&to, help),
		short: "Change how many attempts of jobs may fail",
		long: `Change how many attempts of jobs may fail. A pending job of which that many have failed already is dead at once; a running one is decided by
the end of its run; a failed or dead one keeps the number for its retry.`,
		example: `  pgqueue jobs max-attempts 17 18 --to 20`,
		one: func(ctx context.Context, i *pgqueue.Inspector, id int64, options []pgqueue.ActionOption) (string, error) {
			state, err := i.SetMaxAttempts(ctx, id, to, options...)
			return fmt.Sprintf("max attempts %d; it is %s", to, state), err
		},
	}
}
