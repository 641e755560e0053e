package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
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
}

// globalFlags are the flags that every command has.
type globalFlags struct {
	databaseURL string
	service     string
	schema      string
	actor       string
	json        bool
}

// run is the program: it returns the exit code. Everything that main knows comes in by its arguments, so that tests call it.
func run(ctx context.Context, args []string, streams streams, lookupEnv func(string) (string, bool)) int {
	a := &app{streams: streams, lookupEnv: lookupEnv}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(streams.in)
	root.SetOut(streams.out)
	root.SetErr(streams.err)
	return a.exitCode(root.ExecuteContext(ctx))
}

// root makes the tree of commands: one function for each group, in a file of its name.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "pgqueue", Short: "Look after the queues of pgqueue",
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.flags.databaseURL, "database-url", "", "connection string (default: PGQUEUE_DATABASE_URL, DATABASE_URL, then the PG* variables)")
	flags.StringVar(&a.flags.service, "service", "", "entry of the connection service file")
	flags.StringVar(&a.flags.schema, "schema", "", "schema with pgqueue's tables (default: PGQUEUE_SCHEMA, then pgqueue)")
	flags.StringVar(&a.flags.actor, "actor", "", "who acts, for the audit log (default: PGQUEUE_ACTOR, then the user of the system)")
	flags.BoolVar(&a.flags.json, "json", false, "write JSON instead of text")
	root.AddCommand(a.versionCommand())
	return root
}
