package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgqueue/pgqueue/migrations"
)

// streams are where a command reads and writes: data goes to out, everything else to err.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// app is what all commands share: the streams, the environment, and the flags of every command.
type app struct {
	streams
	lookupEnv func(string) (string, bool)
	flags     globalFlags
	secrets   *secrets
	running   bool   // cobra has accepted the command line
	doing     string // the command that runs, "pgqueue jobs retry"
	bulk      bool   // it acts on all that match
}

// globalFlags are the flags that every command has.
type globalFlags struct {
	databaseURL string
	service     string
	schema      string
	actor       string
	json        bool
	verbose     bool
	citus       bool
}

// run is the program: it returns the exit code. Everything that main knows comes in by its arguments, so that tests call it. But for
// the PG* variables, which the driver reads from the process's own environment.
func run(ctx context.Context, args []string, streams streams, lookupEnv func(string) (string, bool)) int {
	a := &app{streams: streams, lookupEnv: lookupEnv, secrets: &secrets{}}
	a.secrets.add(secretsInArgs(args)...)
	a.err = a.secrets.writer(streams.err)
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if !a.running {
		err = inOurWords(err)
	}
	return a.exitCode(ctx, err)
}

// root makes the tree of commands: one function for each group, in a file of its name.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "pgqueue",
		Short: "Look after the queues of pgqueue",
		Long: `pgqueue migrates the schema, shows what the queues hold and why a job does not run, acts on jobs, and serves the web console.

The database is the one that --database-url names, or PGQUEUE_DATABASE_URL, DATABASE_URL, or else the PG* variables of
libpq with its service and password files. Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict, 5 done in part,
6 no connection, 7 findings, 130 stopped.`,
		Example: `  pgqueue migrate up
  pgqueue enqueue send_welcome --payload '{"user_id": 42}'
  pgqueue doctor
  pgqueue serve`,
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.flags.databaseURL, "database-url", "", "connection string, as URL or keywords (default: PGQUEUE_DATABASE_URL, DATABASE_URL, then the PG* variables)")
	flags.StringVar(&a.flags.service, "service", "", "entry of the connection service file (PGSERVICEFILE, ~/.pg_service.conf)")
	flags.StringVar(&a.flags.schema, "schema", "", "schema with pgqueue's tables (default: PGQUEUE_SCHEMA, then pgqueue)")
	flags.StringVar(&a.flags.actor, "actor", "", "who acts, for the audit log (default: PGQUEUE_ACTOR, then the user of the system)")
	flags.BoolVar(&a.flags.json, "json", false, "write JSON instead of text")
	flags.BoolVarP(&a.flags.verbose, "verbose", "v", false, "log what is done, to stderr")
	flags.BoolVar(&a.flags.citus, "citus", false, "the tables are distributed by Citus")
	a.addGroup(root, "Jobs and queues:", a.jobsCommand(), a.enqueueCommand(), a.queuesCommand(), a.kindsCommand(), a.schedulesCommand(), a.workersCommand())
	a.addGroup(root, "Seeing it:", a.topCommand(), a.serveCommand(), a.auditCommand())
	a.addGroup(root, "The installation:", a.migrateCommand(), a.doctorCommand(), a.versionCommand(), a.completionCommand())
	root.SetHelpCommandGroupID("The installation:")
	root.InitDefaultHelpCmd()
	for _, child := range root.Commands() {
		if child.Name() == "help" { // cobra's own says that all is well about a command that there is not
			child.Run, child.RunE, child.Args = nil, help, cobra.ArbitraryArgs
		}
	}
	root.SetFlagErrorFunc(seeHelp)
	a.finish(root)
	return root
}

// addGroup adds commands under a title of the help.
func (a *app) addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, command := range commands {
		command.GroupID = title
	}
	root.AddCommand(commands...)
}

// help shows the help of a command.
func help(command *cobra.Command, args []string) error {
	found, rest, err := command.Root().Find(args)
	if err != nil || len(rest) > 0 {
		if found == nil {
			found = command.Root()
		}
		return unknownCommand(found, append(rest, args...)[0])
	}
	found.InitDefaultHelpFlag()
	return found.Help()
}

// finish gives every command what all have in common: a word that is no command is an error, also below a group, where cobra shows
// the help and says that all is well; nothing that is given may be empty; and exitCode learns whether an error is about the command
// line or about what was done.
func (a *app) finish(command *cobra.Command) {
	refuseEmpty(command)
	for _, child := range command.Commands() {
		a.finish(child)
	}
	if command.HasSubCommands() && !command.Runnable() {
		command.Args = func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(command, args[0])
		}
		command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
		command.DisableFlagsInUseLine = true
		return
	}
	if accepts := command.Args; accepts != nil {
		command.Args = func(command *cobra.Command, args []string) error {
			if err := accepts(command, args); err != nil {
				return seeHelp(command, err)
			}
			if err := emptyArgument(command, args); err != nil {
				return seeHelp(command, err)
			}
			return nil
		}
	}
	if runE := command.RunE; runE != nil {
		command.RunE = func(command *cobra.Command, args []string) error {
			a.running, a.doing = true, command.CommandPath()
			return runE(command, args)
		}
	}
}

// seeHelp is an error about the command line, with where to look. A command's own hint stays.
func seeHelp(command *cobra.Command, err error) error {
	if known, ok := errors.AsType[*hintError](err); ok {
		return known
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = flagProblem(invalid)
	}
	return withHint(&exitError{code: exitUsage, err: err}, "%s --help has flags and examples", command.CommandPath())
}

// unknownCommand says that there is no such command, and which one may have been meant.
func unknownCommand(command *cobra.Command, word string) error {
	err := usage("%s has no command %q", command.CommandPath(), word)
	if command.SuggestionsMinimumDistance <= 0 {
		command.SuggestionsMinimumDistance = 2
	}
	if near := command.SuggestionsFor(word); len(near) > 0 {
		return withHint(err, "did you mean %s?", command.CommandPath()+" "+strings.Join(near, ", or "+command.CommandPath()+" "))
	}
	return withHint(err, "%s --help lists them", command.CommandPath())
}

// env is a variable of the environment; unset and empty are the same.
func (a *app) env(name string) string {
	value, _ := a.lookupEnv(name)
	return value
}

// schema is the schema with pgqueue's tables.
func (a *app) schema() string {
	for _, name := range []string{a.flags.schema, a.env("PGQUEUE_SCHEMA")} {
		if name != "" {
			return name
		}
	}
	return migrations.DefaultSchema
}

// actor is who acts, for the audit log.
func (a *app) actor() string {
	for _, name := range []string{a.flags.actor, a.env("PGQUEUE_ACTOR"), a.env("USER"), a.env("LOGNAME"), a.env("USERNAME")} {
		if name != "" {
			return name
		}
	}
	if current, err := user.Current(); err == nil && current.Username != "" {
		return current.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid()) // an image without /etc/passwd
}

// logger logs to stderr, without secrets: warnings and errors, and with --verbose what is done.
func (a *app) logger() *slog.Logger {
	level := slog.LevelWarn
	if a.flags.verbose {
		level = slog.LevelInfo
	}
	return a.loggerAt(level)
}

// loggerAt logs from a level on; as JSON with --json.
func (a *app) loggerAt(level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if a.flags.json {
		return slog.New(slog.NewJSONHandler(a.err, options))
	}
	return slog.New(slog.NewTextHandler(a.err, options))
}
