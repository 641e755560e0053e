package main

import (
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// jobsCommand is `pgqueue jobs`: to find jobs, to say what is the matter with them, and to act on one, several, or all that match.
func (a *app) jobsCommand() *cobra.Command {
	jobs := &cobra.Command{
		Use: "jobs", Aliases: []string{"job"}, Short: "Find jobs, say why they do not run, and act on one or on all that match",
		Long: `Find jobs, say why they do not run, and act on one, on several, or on all that match a filter. docs/cli-jobs.md is the guide.`,
		Example: `  pgqueue jobs attention
  pgqueue jobs why 42
  pgqueue jobs retry --all-matching --state dead --code timeout --spread 10m`,
	}
	jobs.AddCommand(a.jobsListCommand(), a.jobsCountCommand(), a.jobsShowCommand(), a.jobsWhyCommand(), a.jobsAttentionCommand(),
		a.jobsEditCommand(), a.jobsExportCommand(), a.jobsImportCommand())
	for _, action := range jobActions() {
		jobs.AddCommand(a.jobActionCommand(action))
	}
	return jobs
}

// jobsArgs checks how many arguments there are; a negative most is no bound.
func jobsArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case most == 0 && len(args) > 0:
			return usage("%s takes no %q: see %s --help", cmd.CommandPath(), visible(args[0]), cmd.CommandPath())
		case len(args) < least || most >= 0 && len(args) > most:
			return usage("usage: %s", cmd.UseLine())
		default:
			return nil
		}
	}
}

// jobIDs reads numbers of jobs, each once and in their order.
func jobIDs(args []string) ([]int64, error) {
	ids := make([]int64, 0, len(args))
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || id < 1 {
			return nil, usage("the number of a job is a positive number, not %q", visible(arg))
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// ifVersion is the condition of --if-version, or none.
func ifVersion(text string) ([]pgqueue.ActionOption, error) {
	if text == "" {
		return nil, nil
	}
	version, err := pgqueue.ParseVersion(text)
	if err != nil {
		return nil, usage("--if-version is two numbers, such as 3.1, as pgqueue jobs show prints them, not %q", visible(text))
	}
	return []pgqueue.ActionOption{pgqueue.IfVersion(version)}, nil
}
