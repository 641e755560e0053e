package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func (a *app) jobsExportCommand() *cobra.Command {
	f := &filterFlags{}
	cmd := &cobra.Command{
		Use: "export [--FILTER …] > FILE", Short: "Write jobs as JSON, one a line, with everything that is stored about them",
		Long: `Write all jobs that match to standard output, one a line, by ascending number, with everything that is stored about them: payload, metadata,
result, attempts, times. Numbers keep all their digits. Jobs that are enqueued after the export began are not in it. It is no snapshot:
each job is as it was when it was read. One that is deleted meanwhile is left out.`,
		Example: `  pgqueue jobs export --state dead --queue mail > dead.jsonl
  pgqueue jobs export --min-id 100001 >> dead.jsonl`,
		Args: jobsArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.exportJobs(cmd.Context(), cmd, f) },
	}
	f.add(cmd)
	return cmd
}

func (a *app) exportJobs(ctx context.Context, cmd *cobra.Command, f *filterFlags) error {
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	filter, err := f.filter(ctx, cmd, &databaseClock{pool: s.pool})
	if err != nil {
		return err
	}
	if filter.MaxID == 0 {
		// Without an end it would run after what is enqueued meanwhile.
		newest, err := s.inspector.List(ctx, pgqueue.Filter{}, pgqueue.ListOptions{Limit: 1, Preview: -1})
		if err != nil {
			return err
		}
		if len(newest.Jobs) == 0 {
			return a.exported(0)
		}
		filter.MaxID = max(newest.Jobs[0].ID, filter.MinID)
	}
	run := &exportRun{inspector: s.inspector, out: bufio.NewWriterSize(a.out, 64<<10), progress: a.progress()}
	run.progress.terminal = run.progress.terminal && !isTerminal(a.out)
	err = run.all(ctx, filter)
	run.progress.end()
	if err = errors.Join(err, run.out.Flush()); err != nil {
		return a.exportStopped(ctx, cmd, f, filter, err, run)
	}
	return a.exported(run.written)
}

// How many jobs are read at once: as many as are this large together, by what is stored of their payloads, and so many at most.
const (
	exportBatch      = 100
	exportBatchBytes = 1 << 20
)

// exportRun is an export under way.
type exportRun struct {
	inspector *pgqueue.Inspector
	out       *bufio.Writer
	progress  *progressLine
	written   int
	last      int64 // the number of the last job that was written
}

// all writes all jobs that match, by ascending number.
func (r *exportRun) all(ctx context.Context, filter pgqueue.Filter) error {
	var ids []int64
	size := 0
	for job, err := range r.inspector.All(ctx, filter, pgqueue.ListOptions{Order: pgqueue.OrderOldest, Preview: -1}) {
		if err != nil {
			return err
		}
		if len(ids) > 0 && (len(ids) >= exportBatch || size+job.Payload.Size > exportBatchBytes) {
			if err := r.write(ctx, ids); err != nil {
				return err
			}
			ids, size = ids[:0], 0
		}
		ids, size = append(ids, job.ID), size+job.Payload.Size
	}
	return r.write(ctx, ids)
}

// write writes jobs. Those that were deleted since they were listed are left out.
func (r *exportRun) write(ctx context.Context, ids []int64) error {
	jobs, err := r.inspector.GetMany(ctx, ids)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if err := writeLine(r.out, newJobRecord(job)); err != nil {
			return err
		}
		r.written, r.last = r.written+1, job.ID
	}
	if r.written > 0 {
		r.progress.show(grouped(r.written) + " written so far")
	}
	return nil
}

// exported says how many there were: an empty file may have two reasons.
func (a *app) exported(n int) error {
	a.notef("%s exported", plural(n, "job", "jobs"))
	return nil
}

// exportStopped says how to go on. Lines are written whole and by ascending number, so the number behind the last one is the place.
func (a *app) exportStopped(ctx context.Context, cmd *cobra.Command, f *filterFlags, filter pgqueue.Filter, err error, run *exportRun) error {
	if ctx.Err() == nil {
		return fmt.Errorf("after %s: %w", plural(run.written, "job", "jobs"), err)
	}
	if run.last > 0 {
		filter.MinID = run.last + 1
	}
	filterWords, missing := f.words(filter)
	words := append(strings.Fields(cmd.CommandPath()), filterWords...)
	a.notef("stopped: %s exported. To go on:\n%s", plural(run.written, "job", "jobs"), a.commandAgain(cmd, words, missing, ">> FILE"))
	return &exitError{code: exitStopped}
}

// commandAgain is a command line for the same database, to be pasted into a shell. It holds no connection string, which may have a
// password in it; what has to be added is said behind it.
func (a *app) commandAgain(cmd *cobra.Command, words []string, missing, tail string) string {
	for _, name := range []string{"schema", "service", "actor"} {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			words = append(words, "--"+name, flag.Value.String())
		}
	}
	for _, name := range []string{"json", "citus"} {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			words = append(words, "--"+name+"="+flag.Value.String())
		}
	}
	quoted := make([]string, len(words))
	for n, word := range words {
		quoted[n] = shellWord(word)
	}
	command := "  " + strings.Join(quoted, " ")
	if tail != "" {
		command += " " + tail
	}
	var notes []string
	if missing != "" {
		notes = append(notes, missing)
	}
	if flag := cmd.Flags().Lookup("database-url"); flag != nil && flag.Changed {
		notes = append(notes, "the same --database-url")
	}
	if len(notes) > 0 {
		command += " # with " + strings.Join(notes, " and ")
	}
	return command
}
