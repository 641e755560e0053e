package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func (a *app) jobsCountCommand() *cobra.Command {
	f := &filterFlags{}
	exact := false
	cmd := &cobra.Command{
		Use: "count [--FILTER …]", Short: "Count the jobs that match, by state",
		Long: `Count the jobs that match. Counting stops at 10,000 jobs of each index and says so ("10,000+"). --exact looks at all of them, however
long that takes.`,
		Example: `  pgqueue jobs count
  pgqueue jobs count --queue mail --state pending --exact`,
		Args: jobsArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.countJobs(cmd.Context(), cmd, f, exact) },
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&exact, "exact", false, "count all, however many there are")
	return cmd
}

// countedStates are the states in the order in which a job goes through them.
func countedStates() []pgqueue.JobState {
	return []pgqueue.JobState{pgqueue.JobPending, pgqueue.JobRunning, pgqueue.JobSucceeded, pgqueue.JobCancelled, pgqueue.JobFailed, pgqueue.JobDead}
}

func (a *app) countJobs(ctx context.Context, cmd *cobra.Command, f *filterFlags, exact bool) error {
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	filter, err := f.filter(ctx, cmd, &databaseClock{pool: s.pool})
	if err != nil {
		return err
	}
	var counts *pgqueue.JobCounts
	if exact {
		counts, err = countExactly(ctx, s.inspector, filter)
	} else {
		counts, err = s.inspector.Counts(ctx, filter)
	}
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.writeCounts(counts)
	}
	var rows [][]string
	for _, state := range countedStates() {
		if count, ok := counts.ByState[state]; ok {
			rows = append(rows, []string{string(state), jobCountText(count)})
		}
	}
	return writeRows(a.out, []string{"STATE", "JOBS"}, append(rows, []string{"total", jobCountText(counts.Total)}))
}

func (a *app) writeCounts(counts *pgqueue.JobCounts) error {
	type number struct {
		N    int  `json:"n"`
		More bool `json:"more"` // there are more: n is what was counted until counting stopped
	}
	document := struct {
		Total   number                      `json:"total"`
		ByState map[pgqueue.JobState]number `json:"by_state"`
	}{number(counts.Total), map[pgqueue.JobState]number{}}
	for state, count := range counts.ByState {
		document.ByState[state] = number(count)
	}
	return writeLine(a.out, document)
}

func jobCountText(count pgqueue.Count) string {
	if count.More {
		return grouped(count.N) + "+"
	}
	return grouped(count.N)
}

// countExactly walks over all that match, state by state: a dry run does nothing but count.
func countExactly(ctx context.Context, inspector *pgqueue.Inspector, filter pgqueue.Filter) (*pgqueue.JobCounts, error) {
	counts := &pgqueue.JobCounts{ByState: map[pgqueue.JobState]pgqueue.Count{}}
	states := filter.States
	if len(states) == 0 {
		states = countedStates()
	}
	for _, state := range states {
		filter.States = []pgqueue.JobState{state}
		result, err := inspector.DeleteMany(ctx, filter, pgqueue.BulkOptions{DryRun: true, EvenIfRunning: true})
		if err != nil {
			return nil, &countError{err}
		}
		counts.ByState[state] = pgqueue.Count{N: result.Matched}
		counts.Total.N += result.Matched
	}
	return counts, nil
}

// countError is an error of a walk that counts. The walk is that of an action which is not taken, and which its words are not to name.
type countError struct{ err error }

func (e *countError) Error() string {
	return "count jobs: " + strings.TrimPrefix(e.err.Error(), "delete jobs: ")
}
func (e *countError) Unwrap() error { return e.err }

func (a *app) jobsAttentionCommand() *cobra.Command {
	f := &filterFlags{}
	cmd := &cobra.Command{
		Use: "attention [--FILTER …]", Short: "Group the failed and dead jobs by what went wrong",
		Long: `Group the latest 10,000 failed and dead jobs by state, code, kind and queue, the largest group first. "failed" means that trying again was
pointless, "dead" that the attempts were spent. Each group has an example for pgqueue jobs show.`,
		Example: `  pgqueue jobs attention --finished-from -1d
  pgqueue jobs retry --all-matching --state dead --code timeout --kind send --queue mail`,
		Args: jobsArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listAttention(cmd.Context(), cmd, f) },
	}
	f.add(cmd)
	return cmd
}

func (a *app) listAttention(ctx context.Context, cmd *cobra.Command, f *filterFlags) error {
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	filter, err := f.filter(ctx, cmd, &databaseClock{pool: s.pool})
	if err != nil {
		return err
	}
	report, err := s.inspector.Attention(ctx, filter)
	if err != nil {
		return err
	}
	if a.flags.json {
		for _, group := range report.Groups {
			err := writeLine(a.out, struct {
				State  pgqueue.JobState `json:"state"`
				Code   string           `json:"code"`
				Kind   string           `json:"kind"`
				Queue  string           `json:"queue"`
				N      int              `json:"n"`
				First  time.Time        `json:"first"`
				Last   time.Time        `json:"last"`
				LastID int64            `json:"example"`
			}(group))
			if err != nil {
				return err
			}
		}
	} else if err := a.writeGroups(report.Groups); err != nil {
		return err
	}
	if report.More {
		a.notef("only the latest %s failed and dead jobs were looked at: there are more", grouped(pgqueue.MaxStatsCount))
	}
	return nil
}

func (a *app) writeGroups(groups []pgqueue.AttentionGroup) error {
	if len(groups) == 0 {
		a.notef("nothing needs attention")
		return nil
	}
	now := time.Now()
	rows := make([][]string, len(groups))
	for n, group := range groups {
		rows[n] = []string{
			grouped(group.N), string(group.State), shortened(group.Code, 40), shortened(group.Kind, 40), shortened(group.Queue, 40),
			distance(group.First, now), distance(group.Last, now), strconv.FormatInt(group.LastID, 10),
		}
	}
	return writeRows(a.out, []string{"JOBS", "STATE", "CODE", "KIND", "QUEUE", "FIRST", "LAST", "EXAMPLE"}, rows)
}
