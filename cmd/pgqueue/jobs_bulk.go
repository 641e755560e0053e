package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// bulkFlags are the flags of an action on all jobs that match.
type bulkFlags struct {
	allMatching, yes, dryRun bool
	evenIfRunning            bool
	batchSize, limit         int
	pause, spread            dayDuration
	cursor                   string
}

func (f *bulkFlags) add(cmd *cobra.Command, action *jobAction) {
	flags := cmd.Flags()
	flags.BoolVar(&f.allMatching, "all-matching", false, "all jobs that match the filter, in batches")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&f.dryRun, "dry-run", false, "do nothing but count what matches")
	flags.IntVar(&f.batchSize, "batch-size", pgqueue.DefaultBulkBatch, "how many jobs are changed in one transaction, up to 10,000")
	flags.Var(&f.pause, "pause", "how long to wait between two batches")
	flags.IntVar(&f.limit, "limit", 0, "stop after so many matching jobs; 0: no limit")
	flags.StringVar(&f.cursor, "cursor", "", "go on where the same action with the same filter stopped")
	if action.spreads {
		flags.Var(&f.spread, "spread", "let the jobs become due at random within this time")
	}
}

// bulkCommand is one action on all jobs that match, under way.
type bulkCommand struct {
	app       *app
	cmd       *cobra.Command
	action    *jobAction
	flags     *actionFlags
	filter    pgqueue.Filter
	repeat    []string // the flags of the action alone
	inspector *pgqueue.Inspector
}

// all counts, asks, and does it.
func (b *bulkCommand) all(ctx context.Context) error {
	options := pgqueue.BulkOptions{
		DryRun: true, Cursor: b.flags.cursor, BatchSize: b.flags.batchSize, Pause: time.Duration(b.flags.pause), Limit: b.flags.limit,
		Spread: time.Duration(b.flags.spread), EvenIfRunning: b.flags.evenIfRunning,
	}
	matching := -1 // not known
	if !b.flags.yes || b.flags.dryRun {
		counting := b.app.progress()
		options.Progress = func(r pgqueue.BulkResult) { counting.show(grouped(r.Matched) + " counted so far") }
		preview, err := b.action.many(ctx, b.inspector, b.filter, options)
		counting.end()
		if err != nil {
			return err
		}
		if b.flags.dryRun || preview.Matched == 0 {
			return b.report(preview)
		}
		matching = preview.Matched
		question := fmt.Sprintf("%s: %s the filter. Go on?", b.action.name, plural(matching, "job matches", "jobs match"))
		if err := b.app.confirm(ctx, b.flags.yes, question); err != nil {
			return err
		}
	}
	options.DryRun = false
	progress := b.app.progress()
	options.Progress = func(r pgqueue.BulkResult) { progress.show(b.progressText(r, matching, progress.terminal)) }
	result, err := b.action.many(ctx, b.inspector, b.filter, options)
	progress.end()
	if result == nil {
		return err
	}
	if err == nil {
		return b.finished(result)
	}
	b.app.notef("stopped: %s. Every batch is done as a whole or not at all. To go on:\n%s", b.summary(result), b.goOn(result))
	if err := b.report(result); err != nil && b.app.codeOf(ctx, err) != exitPartial {
		return err
	}
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return &exitError{code: exitStopped}
	}
	return err
}

// finished reports what was done, and how to go on where a limit ended it.
func (b *bulkCommand) finished(result *pgqueue.BulkResult) error {
	if result.Cursor != "" {
		b.app.notef("the limit of %s is reached. To go on:\n%s", plural(b.flags.limit, "job", "jobs"), b.goOn(result))
	}
	return b.report(result)
}

// bulkReport is the result of an action, as JSON.
type bulkReport struct {
	Action   string    `json:"action"`
	DryRun   bool      `json:"dry_run,omitempty"`
	Matched  int       `json:"matched"`
	Done     int       `json:"done"`
	Asked    int       `json:"asked_to_stop,omitempty"` // among done
	Skipped  int       `json:"skipped"`
	Skips    []jobSkip `json:"skips,omitempty"`
	Batches  int       `json:"batches"`
	Complete bool      `json:"complete"`
	Cursor   string    `json:"cursor,omitempty"`
}

type jobSkip struct {
	ID     int64              `json:"id"`
	Reason pgqueue.SkipReason `json:"reason"`
	Other  int64              `json:"other,omitempty"`
	Detail string             `json:"detail,omitempty"`
}

// report writes the result to standard output.
func (b *bulkCommand) report(result *pgqueue.BulkResult) error {
	report := bulkReport{
		Action: b.action.name, DryRun: b.flags.dryRun, Matched: result.Matched, Done: result.Done, Asked: result.Asked, Skipped: result.Skipped,
		Batches: result.Batches, Complete: result.Cursor == "", Cursor: result.Cursor,
	}
	for _, skip := range result.Skips {
		report.Skips = append(report.Skips, jobSkip(skip))
	}
	var err error
	if b.app.flags.json {
		err = writeLine(b.app.out, report)
	} else {
		err = b.write(&report)
	}
	switch {
	case err != nil && report.DryRun:
		return err
	case err != nil:
		return answered(err, b.summary(result))
	}
	if result.Skipped > 0 {
		return &exitError{code: exitPartial}
	}
	return nil
}

// maxSkipsShown is how many skipped jobs are listed for people; --json lists all that are known.
const maxSkipsShown = 20

func (b *bulkCommand) write(report *bulkReport) error {
	if report.DryRun {
		_, err := fmt.Fprintln(b.app.out, plural(report.Matched, "job matches", "jobs match"))
		return err
	}
	if err := b.app.printf("%s\n", b.summary(&pgqueue.BulkResult{Matched: report.Matched, Done: report.Done, Asked: report.Asked, Skipped: report.Skipped})); err != nil {
		return err
	}
	if len(report.Skips) == 0 {
		return nil
	}
	rows := make([][]string, min(len(report.Skips), maxSkipsShown))
	for n := range rows {
		skip := report.Skips[n]
		rows[n] = []string{strconv.FormatInt(skip.ID, 10), skipText(skip)}
	}
	if err := writeRows(b.app.out, []string{"SKIPPED", "WHY"}, rows); err != nil {
		return err
	}
	if more := report.Skipped - len(rows); more > 0 {
		fmt.Fprintf(b.app.out, "and %s; --json lists up to %s\n", grouped(more)+" more", grouped(pgqueue.MaxBulkSkips))
	}
	return nil
}

// skipText says why a job was left as it was.
func skipText(skip jobSkip) string {
	text := map[pgqueue.SkipReason]string{
		pgqueue.SkipKeyTaken:   fmt.Sprintf("the live job %d has its key", skip.Other),
		pgqueue.SkipChanged:    "it has changed since it was found",
		pgqueue.SkipLocked:     "somebody else holds its row",
		pgqueue.SkipReferenced: "another table refers to it",
		pgqueue.SkipRefused:    "Postgres refused",
		pgqueue.SkipTimeout:    "statement_timeout ended it",
	}[skip.Reason]
	if text == "" {
		text = string(skip.Reason)
	}
	if skip.Detail != "" {
		text += ": " + skip.Detail
	}
	return text
}

// summary is a result in words.
func (b *bulkCommand) summary(r *pgqueue.BulkResult) string {
	text := fmt.Sprintf("%s matched, %s %s", plural(r.Matched, "job", "jobs"), grouped(r.Done-r.Asked), b.action.done)
	if r.Asked > 0 {
		text += ", " + grouped(r.Asked) + " asked to stop"
	}
	if r.Skipped > 0 {
		text += ", " + grouped(r.Skipped) + " skipped"
	}
	return text
}

// progressText is what is shown after a batch. Where nobody watches, as in a log, it has the cursor: whoever is killed can go on from it.
func (b *bulkCommand) progressText(r pgqueue.BulkResult, matching int, terminal bool) string {
	text := grouped(r.Done) + " " + b.action.done
	if matching > 0 {
		text = fmt.Sprintf("%s of %s (%d%%) %s", grouped(r.Done), grouped(matching), 100*min(r.Matched, matching)/matching, b.action.done)
	}
	if r.Skipped > 0 {
		text += ", " + grouped(r.Skipped) + " skipped"
	}
	if !terminal && r.Cursor != "" {
		text += "; go on from here with --cursor " + r.Cursor
	}
	return text
}

// goOn is the command that goes on where this one stopped.
func (b *bulkCommand) goOn(result *pgqueue.BulkResult) string {
	words := append(strings.Fields(b.cmd.CommandPath()), "--all-matching")
	filter, missing := b.flags.words(b.filter)
	words = append(append(words, filter...), b.repeat...)
	for _, name := range []string{"batch-size", "pause", "spread"} {
		if flag := b.cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			words = append(words, "--"+name, flag.Value.String())
		}
	}
	if b.flags.evenIfRunning {
		words = append(words, "--even-if-running")
	}
	if b.flags.yes {
		words = append(words, "--yes")
	}
	if b.flags.limit > 0 {
		left := b.flags.limit - result.Matched
		if left <= 0 {
			left = b.flags.limit
		}
		words = append(words, "--limit", strconv.Itoa(left))
	}
	return b.app.commandAgain(b.cmd, append(words, "--cursor", result.Cursor), missing, "")
}

// How often progress is shown.
const (
	terminalProgress = 200 * time.Millisecond
	logProgress      = 5 * time.Second
)

// progressLine shows how far something is: on a terminal in one line that is written over, else in a line now and then.
type progressLine struct {
	to       io.Writer
	terminal bool
	json     bool // lines are JSON
	last     time.Time
	width    int
}

func (a *app) progress() *progressLine {
	return &progressLine{to: a.err, terminal: isTerminal(a.err), json: a.flags.json}
}

func (p *progressLine) show(text string) {
	every := logProgress
	if p.terminal {
		every = terminalProgress
	}
	if !p.last.IsZero() && time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	if !p.terminal {
		if p.json {
			_ = writeLine(p.to, map[string]string{"progress": text})
		} else {
			fmt.Fprintln(p.to, text)
		}
		return
	}
	fmt.Fprintf(p.to, "\r%-*s", p.width, text)
	p.width = max(p.width, len(text))
}

// end clears the line.
func (p *progressLine) end() {
	if p.terminal && p.width > 0 {
		fmt.Fprintf(p.to, "\r%*s\r", p.width, "")
	}
}
