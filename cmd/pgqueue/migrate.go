package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/migrations"
)

// migrateTimeout is how long a migration tries to find a moment without anybody's locks.
const migrateTimeout = 5 * time.Minute

func (a *app) migrateCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "migrate", Short: "Install, upgrade, check and remove the tables",
		Example: `  pgqueue migrate status
  pgqueue migrate up
  pgqueue migrate sql | psql`,
	}
	command.AddCommand(a.migrateUpCommand(), a.migrateDownCommand(), a.migrateStatusCommand(), a.migrateValidateCommand(), a.migrateSQLCommand())
	return command
}

// stateView is the state of a schema for JSON.
type stateView struct {
	Schema  string `json:"schema"`
	Version uint   `json:"version"`
	Latest  uint   `json:"latest_version"`
	Current bool   `json:"current"`
	Dirty   bool   `json:"dirty"`
	Exists  bool   `json:"exists"`
}

func (a *app) viewOf(state migrations.State) stateView {
	return stateView{a.schema(), state.Version, state.Latest, state.Current(), state.Dirty, state.Exists}
}

// changedView is what a migration did, for JSON.
type changedView struct {
	Schema string `json:"schema"`
	From   uint   `json:"from_version"`
	To     uint   `json:"version"`
	Latest uint   `json:"latest_version"`
}

func (a *app) migrateUpCommand() *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use: "up", Short: "Install the tables, or bring them to this program's version", Args: cobra.NoArgs,
		Long: `Brings the schema to the version that this program knows. It makes the schema if it does not exist. Any number may do so at
once: one works, the others wait. A step gives up its locks after half a second and tries again until --timeout, so that nobody queues
behind it; after an error or an interruption each step is applied or it is not. docs/upgrading.md says in which order to roll out.

With --citus the tables are distributed afterwards, too.`,
		Example: `  pgqueue migrate up
  pgqueue migrate up --schema jobs --timeout 30m`,
		RunE: func(command *cobra.Command, _ []string) error {
			return a.migrate(command.Context(), timeout, func(ctx context.Context, pool *pgxpool.Pool) error {
				defer a.waiting()()
				if err := migrations.Up(ctx, pool, a.schema(), a.migrationLog()); err != nil || !a.flags.citus {
					return err
				}
				sql, err := migrations.CitusSQL(a.schema())
				if err != nil {
					return err
				}
				if _, err := pool.Exec(ctx, sql); err != nil {
					return fmt.Errorf("distribute the tables: %w", err)
				}
				return nil
			})
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", migrateTimeout, "how long to wait for locks that others hold")
	return command
}

func (a *app) migrateDownCommand() *cobra.Command {
	var timeout time.Duration
	var yes, discard bool
	command := &cobra.Command{
		Use: "down", Short: "Remove the tables with everything in them", Args: cobra.NoArgs,
		Long: `Removes everything that migrate up made, the history of jobs included. The schema itself stays. It refuses while there are live
jobs, unless --discard-jobs is given. Stop the workers first.`,
		Example: `  pgqueue migrate down
  pgqueue migrate down --yes --discard-jobs --schema scratch`,
		RunE: func(command *cobra.Command, _ []string) error {
			options := []migrations.Option{a.migrationLog()}
			if discard {
				options = append(options, migrations.DiscardJobs())
			}
			return a.migrate(command.Context(), timeout, func(ctx context.Context, pool *pgxpool.Pool) error {
				question := fmt.Sprintf("Remove pgqueue and the history of all jobs from schema %q of database %q?", a.schema(), pool.Config().ConnConfig.Database)
				if discard {
					question = fmt.Sprintf("Remove pgqueue, its history and ALL LIVE JOBS from schema %q of database %q?", a.schema(), pool.Config().ConnConfig.Database)
				}
				if err := a.confirm(ctx, yes, question); err != nil {
					return err
				}
				defer a.waiting()()
				err := migrations.Down(ctx, pool, a.schema(), options...)
				if left, ok := errors.AsType[*migrations.JobsLeftError](err); ok {
					return withHint(&exitError{code: exitConflict, err: fmt.Errorf("schema %q still holds %d pending and %d running jobs: nothing was removed",
						left.Schema, left.Pending, left.Running)}, "work them off first, or delete them with %s", a.command("migrate down --discard-jobs"))
				}
				return err
			})
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", migrateTimeout, "how long to wait for locks that others hold")
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	command.Flags().BoolVar(&discard, "discard-jobs", false, "delete live jobs too")
	return command
}

// migrate runs a migration and says from where to where it went.
func (a *app) migrate(ctx context.Context, timeout time.Duration, run func(context.Context, *pgxpool.Pool) error) error {
	if timeout <= 0 {
		return usage("--timeout must be positive")
	}
	pool, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	before, err := migrations.Status(ctx, pool, a.schema())
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := run(bounded, pool); err != nil {
		if ctx.Err() == nil && bounded.Err() != nil {
			return withHint(fmt.Errorf("no moment was found within %s in which nobody held a lock: %w", timeout, err),
				"see who does: %s; end long transactions or try again with a longer --timeout", a.command("doctor"))
		}
		return err
	}
	after, err := migrations.Status(ctx, pool, a.schema())
	if err != nil {
		return err
	}
	done := migrated(a.schema(), before.Version, after.Version)
	if a.flags.json {
		return answered(a.writeJSON(changedView{a.schema(), before.Version, after.Version, after.Latest}), done)
	}
	return answered(a.printf("%s\n", done), done)
}

// migrated says what a migration did.
func migrated(schema string, before, after uint) string {
	switch {
	case before == after && after == 0:
		return fmt.Sprintf("nothing is installed in schema %q", schema)
	case before == after:
		return fmt.Sprintf("schema %q is at version %d, as before", schema, after)
	case after == 0:
		return fmt.Sprintf("removed version %d from schema %q", before, schema)
	case before == 0:
		return fmt.Sprintf("installed version %d in schema %q", after, schema)
	}
	return fmt.Sprintf("schema %q: version %d, was %d", schema, after, before)
}

// migrationLog shows with --verbose each step, and what a migration waits for. Without, see waiting.
func (a *app) migrationLog() migrations.Option { return migrations.WithLogger(a.logger()) }

// waitingAfter is when a migration that has not ended says that it waits: a migration without anybody in its way takes a second.
const waitingAfter = 5 * time.Second

// waiting says after a while, unless stopped before, that a migration still goes on: somebody would think that it hangs.
func (a *app) waiting() (stop func() bool) {
	return time.AfterFunc(waitingAfter, func() {
		a.notef("waiting for a moment in which nobody holds a lock on the tables; --verbose says more")
	}).Stop
}

func (a *app) migrateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show which version is installed (exit code 7 unless it is this program's)", Args: cobra.NoArgs,
		Example: `  pgqueue migrate status
  pgqueue migrate status --json`,
		RunE: func(command *cobra.Command, _ []string) error {
			pool, err := a.open(command.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			state, err := migrations.Status(command.Context(), pool, a.schema())
			if err != nil {
				return err
			}
			if a.flags.json {
				err = a.writeJSON(a.viewOf(state))
			} else {
				err = a.printf("%s\n", a.describe(state))
			}
			if err != nil || state.Current() && !state.Dirty {
				return err
			}
			return &exitError{code: exitFindings}
		},
	}
}

// describe says what is installed and what to do about it.
func (a *app) describe(state migrations.State) string {
	switch {
	case state.Dirty:
		return fmt.Sprintf("schema %q: a migration to version %d was interrupted: %s looks what is there and goes on", a.schema(), state.Version, a.command("migrate up"))
	case state.Version == 0:
		return fmt.Sprintf("schema %q: nothing is installed: %s installs version %d", a.schema(), a.command("migrate up"), state.Latest)
	case state.Version < state.Latest:
		return fmt.Sprintf("schema %q: version %d, and this program knows %d: %s upgrades", a.schema(), state.Version, state.Latest, a.command("migrate up"))
	case state.Version > state.Latest:
		return fmt.Sprintf("schema %q: version %d, which is newer than this program, which knows %d: use a newer pgqueue", a.schema(), state.Version, state.Latest)
	}
	return fmt.Sprintf("schema %q: version %d, up to date", a.schema(), state.Version)
}

// differenceView is one difference for JSON.
type differenceView struct {
	Problem string            `json:"problem"` // missing, extra or changed
	Kind    string            `json:"kind"`
	Name    string            `json:"name"`
	Parent  string            `json:"parent,omitempty"`
	Changed []string          `json:"changed,omitempty"`
	Want    map[string]string `json:"want,omitempty"`
	Have    map[string]string `json:"have,omitempty"`
	Text    string            `json:"text"`
}

func viewsOf(drift migrations.Drift) []differenceView {
	views := []differenceView{}
	for _, list := range []struct {
		problem     string
		differences []migrations.Difference
	}{{"missing", drift.Missing}, {"extra", drift.Extra}, {"changed", drift.Changed}} {
		for _, d := range list.differences {
			views = append(views, differenceView{list.problem, d.Kind, d.Name, d.Parent, d.Changed, d.Want, d.Have, d.String()})
		}
	}
	return views
}

func (a *app) migrateValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Compare what is there with what the migrations make (exit code 7 if it differs)", Args: cobra.NoArgs,
		Long: `Compares tables, columns, constraints, indexes, functions, views and storage parameters with what the migrations of this program
make, and lists what somebody dropped, added or changed by hand, and what a restore left out. It changes nothing; pgqueue doctor
has the statements that mend.`,
		Example: `  pgqueue migrate validate
  pgqueue migrate validate --json | jq -r '.differences[].text'`,
		RunE: func(command *cobra.Command, _ []string) error {
			pool, err := a.open(command.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			if err := a.installed(command.Context(), pool); err != nil {
				return &exitError{code: exitFindings, err: err}
			}
			drift, err := migrations.Validate(command.Context(), pool, a.schema())
			if err != nil {
				return err
			}
			switch {
			case a.flags.json:
				err = a.writeJSON(struct {
					Schema      string           `json:"schema"`
					Valid       bool             `json:"valid"`
					Differences []differenceView `json:"differences"`
				}{a.schema(), drift.Empty(), viewsOf(drift)})
			case drift.Empty():
				err = a.printf("schema %q is as the migrations make it\n", a.schema())
			default:
				err = a.printf("%s\n", block(strings.TrimRight(drift.String(), "\n")))
				a.notef("hint: %s has the statements that mend", a.command("doctor"))
			}
			if err != nil || drift.Empty() {
				return err
			}
			return &exitError{code: exitFindings}
		},
	}
}
