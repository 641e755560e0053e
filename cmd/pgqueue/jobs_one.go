package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// actionFlags are the flags of an action.
type actionFlags struct {
	filterFlags
	bulkFlags
	version string
}

// jobActionCommand is the command of an action.
func (a *app) jobActionCommand(action *jobAction) *cobra.Command {
	f := &actionFlags{}
	use := action.name + " ID…"
	if action.many != nil {
		use = action.name + " {ID… | --all-matching --FILTER …}"
	}
	cmd := &cobra.Command{
		Use: use, Short: action.short, Long: action.long, Example: action.example, Args: jobsArgs(0, -1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.actOnJobs(cmd.Context(), cmd, action, f, args) },
	}
	if action.flags != nil {
		action.flags(cmd)
	}
	cmd.Flags().StringVar(&f.version, "if-version", "", "only if the job still has this version, as pgqueue jobs show printed it")
	if action.running {
		cmd.Flags().BoolVar(&f.evenIfRunning, "even-if-running", false, "also jobs that run")
	}
	if action.many != nil {
		f.filterFlags.add(cmd)
		f.bulkFlags.add(cmd, action)
	}
	return cmd
}

func (a *app) actOnJobs(ctx context.Context, cmd *cobra.Command, action *jobAction, f *actionFlags, args []string) error {
	ids, err := jobIDs(args)
	if err != nil {
		return err
	}
	options, err := ifVersion(f.version)
	if err != nil {
		return err
	}
	if f.evenIfRunning {
		options = append(options, pgqueue.EvenIfRunning())
	}
	if err := f.check(cmd, action, len(ids)); err != nil {
		return err
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	a.bulk = f.allMatching
	clock := &databaseClock{pool: s.pool}
	var repeat []string
	if action.prepare != nil {
		if repeat, err = action.prepare(ctx, cmd, clock); err != nil {
			return err
		}
	}
	if !f.allMatching {
		return a.eachJob(ctx, ids, func(id int64) (string, error) { return action.one(ctx, s.inspector, id, options) }, "outcome")
	}
	filter, err := f.filter(ctx, cmd, clock)
	if err != nil {
		return err
	}
	run := &bulkCommand{app: a, cmd: cmd, action: action, flags: f, filter: filter, repeat: repeat, inspector: s.inspector}
	return run.all(ctx)
}

// check tells which of the two forms is meant, and refuses a mixture: a filter beside numbers is a mistake about one of them.
func (f *actionFlags) check(cmd *cobra.Command, action *jobAction, ids int) error {
	var given []string
	if action.many != nil {
		var err error
		if given, err = f.given(cmd); err != nil {
			return err
		}
	}
	switch {
	case f.allMatching && ids > 0:
		return usage("name jobs, or say --all-matching with a filter, but not both")
	case f.allMatching && len(given) == 0:
		return usage("--all-matching needs a filter, such as --queue or --state; all jobs there are would be --min-id 1")
	case f.allMatching && f.version != "":
		return usage("--if-version is for one job")
	case f.allMatching && (f.batchSize < 1 || f.limit < 0):
		return usage("--batch-size must be at least 1, and --limit not negative")
	case f.allMatching:
		return nil
	case len(given) > 0:
		return usage("--%s is a filter: say --all-matching too, to %s all that match", given[0], action.name)
	case ids == 0:
		return usage("which jobs? usage: %s", cmd.UseLine())
	case ids > 1 && f.version != "":
		return usage("--if-version is for one job")
	}
	for _, name := range []string{"dry-run", "cursor", "batch-size", "pause", "spread", "limit"} {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			return usage("--%s is for --all-matching", name)
		}
	}
	return nil
}

// jobOutcome is what became of one job, as JSON.
type jobOutcome struct {
	ID      int64  `json:"id"`
	Outcome string `json:"outcome,omitempty"`
	Why     string `json:"why,omitempty"`
	Error   string `json:"error,omitempty"`
	Name    string `json:"code,omitempty"`
	Code    int    `json:"exit_code,omitempty"`
}

// eachJob does something to one job after the other and says of each what became of it. One that refuses holds up no other; whatever is not
// about one job ends it. With one job the exit code is that of its error; with several it is exitPartial if some were done, or if they
// failed in different ways.
func (a *app) eachJob(ctx context.Context, ids []int64, do func(id int64) (string, error), as string) error {
	failures := map[int]int{}
	for _, id := range ids {
		word, err := do(id)
		if err != nil && (ctx.Err() != nil || !aboutOneJob(a.codeOf(ctx, err))) {
			return err // the connection, a right, the input: the next one would fail as well
		}
		outcome := jobOutcome{ID: id}
		if err != nil {
			outcome.Error, outcome.Code = a.jobProblem(err), a.codeOf(ctx, err)
			outcome.Name = exitName(outcome.Code)
			failures[outcome.Code]++
		} else if as == "why" {
			outcome.Why = word
		} else {
			outcome.Outcome = word
		}
		if err := a.writeOutcome(outcome); err != nil {
			return err
		}
	}
	return eachCode(failures, len(ids))
}

// aboutOneJob tells whether an exit code is about the job that was named, and so says nothing about the next one.
func aboutOneJob(code int) bool { return code == exitNotFound || code == exitConflict }

// writeOutcome writes what was done to standard output, and what was refused to standard error; as JSON all of it is output.
func (a *app) writeOutcome(outcome jobOutcome) error {
	done := ""
	if outcome.Outcome != "" {
		done = fmt.Sprintf("job %d: %s", outcome.ID, visible(outcome.Outcome))
	}
	var err error
	switch {
	case a.flags.json:
		err = writeLine(a.out, outcome)
	case outcome.Error != "":
		a.notef("%s", outcome.Error)
	case outcome.Why != "": // our own words, in several lines
		err = a.printf("%d: %s\n", outcome.ID, strings.ReplaceAll(block(outcome.Why), "\n", "\n  "))
	default:
		err = a.printf("%d: %s\n", outcome.ID, visible(outcome.Outcome))
	}
	if done == "" {
		return err
	}
	return answered(err, done)
}

// jobProblem is an error about one job for people, with what to do about it.
func (a *app) jobProblem(err error) string {
	text := visible(err.Error())
	var changed *pgqueue.ChangedError
	switch {
	case errors.As(err, &changed):
		return text + fmt.Sprintf("; look at it again: pgqueue jobs show %d", changed.ID)
	case errors.Is(err, pgqueue.ErrJobRunning) && strings.HasPrefix(text, "delete"):
		return text + "; cancel it, or say --even-if-running"
	default:
		return text
	}
}
