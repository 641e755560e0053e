package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// importFlags are the flags of `pgqueue jobs import`.
type importFlags struct {
	batchSize            int
	ended, again, dryRun bool
	toQueue              string
	remember             dayDuration
}

// Bounds of an import.
const (
	maxImportBatch      = 10_000
	maxImportBatchBytes = 16 << 20 // of lines, after which a batch is written whatever its size
	maxPayloadSize      = 32 << 20 // what pgqueue stores at most
)

func (a *app) jobsImportCommand() *cobra.Command {
	f := &importFlags{remember: dayDuration(30 * 24 * time.Hour)}
	cmd := &cobra.Command{
		Use: "import [FILE]", Short: "Enqueue jobs from lines of JSON, such as export writes, each once",
		Long: `Enqueue a job for each line of a file, or of standard input. Of a line count kind, queue, payload, metadata, tags, key, revision, priority,
max_attempts and run_at; the job is a new one, with a number of its own and no attempts.

No line is imported twice: its id and created_at, or an import_id of yours, are remembered for --remember, with the queue and the
kind. So after whatever has gone wrong, run the same command again. A line that has neither is refused, unless --again says
that all lines are to be enqueued, whatever was before.

Lines of jobs that have ended are left out; --ended enqueues them, too, to be run again. A line with a key does what an enqueue with that key does:
it replaces the input of a live job of the key.

Batches are transactions: a line that cannot be stored ends the import, with its number, and the batches before it stay.`,
		Example: `  pgqueue jobs import jobs.jsonl --dry-run
  pgqueue jobs import dead.jsonl --ended --to-queue mail-again`,
		Args: jobsArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.importJobs(cmd.Context(), f, args) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.batchSize, "batch-size", 500, "how many jobs are enqueued in one transaction, up to 10,000")
	flags.BoolVar(&f.ended, "ended", false, "also jobs that have ended, as new ones")
	flags.BoolVar(&f.again, "again", false, "enqueue every line, also what was imported before")
	flags.StringVar(&f.toQueue, "to-queue", "", "put all jobs on this queue")
	flags.Var(&f.remember, "remember", "for how long it is remembered that a line was imported")
	flags.BoolVar(&f.dryRun, "dry-run", false, "do all but COMMIT, and say what would happen")
	return cmd
}

// importLine is a line of an import: what export writes, and an identity for lines from elsewhere.
type importLine struct {
	jobRecord
	ImportID string `json:"import_id"`
}

// importReport is the result of an import, as JSON.
type importReport struct {
	DryRun   bool `json:"dry_run,omitempty"`
	Lines    int  `json:"lines"`
	Enqueued int  `json:"enqueued"`
	Updated  int  `json:"updated"` // jobs of a key that were live already
	Known    int  `json:"known"`   // imported before
	Ended    int  `json:"ended"`   // left out
	Batches  int  `json:"batches"`
	Complete bool `json:"complete"`
}

// importRun is an import under way.
type importRun struct {
	app       *app
	flags     *importFlags
	inspector *pgqueue.Inspector
	client    *pgqueue.Client
	progress  *progressLine
	report    importReport
	batch     []pgqueue.NewJob
	lines     []int // the numbers of the lines of the batch
	bytes     int
}

func (a *app) importJobs(ctx context.Context, f *importFlags, args []string) error {
	if f.batchSize < 1 || f.batchSize > maxImportBatch {
		return usage("--batch-size is from 1 to %s", grouped(maxImportBatch))
	}
	if f.remember <= 0 {
		return usage("--remember must be longer than nothing; --again enqueues all lines, whatever was imported before")
	}
	in := a.in
	if len(args) > 0 && args[0] != "-" {
		file, err := os.Open(args[0])
		if err != nil {
			return &exitError{code: exitUsage, err: err}
		}
		defer file.Close()
		in = file
	} else if isTerminal(a.in) {
		return usage("name a file, or give the lines to standard input")
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	options := []pgqueue.ClientOption{pgqueue.WithSchema(s.schema), pgqueue.WithLogger(a.logger()), pgqueue.WithMaxPayload(maxPayloadSize)}
	if a.flags.citus {
		options = append(options, pgqueue.WithCitus())
	}
	client, err := pgqueue.NewClient(s.pool, options...)
	if err != nil {
		return err
	}
	run := &importRun{
		app: a, flags: f, inspector: s.inspector, client: client, progress: a.progress(),
		report: importReport{DryRun: f.dryRun},
	}
	err = run.all(ctx, in)
	run.progress.end()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = client.Close(closing) // sends hints that were held back; one that is lost costs a poll interval
	return run.end(ctx, err)
}

// all goes from line to line and writes batch after batch.
func (r *importRun) all(ctx context.Context, in io.Reader) error {
	lines := newLineReader(in)
	for number := 1; ; number++ {
		line, err := lines.next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if len(line) == 0 {
			continue
		}
		r.report.Lines++
		job, ended, err := r.parse(line)
		switch {
		case err != nil:
			return &exitError{code: exitUsage, err: fmt.Errorf("line %d: %w", number, err)}
		case ended && !r.flags.ended:
			r.report.Ended++
			continue
		}
		r.batch, r.lines, r.bytes = append(r.batch, job), append(r.lines, number), r.bytes+len(line)
		if len(r.batch) >= r.flags.batchSize || r.bytes >= maxImportBatchBytes {
			if err := r.write(ctx); err != nil {
				return err
			}
		}
	}
	if err := r.write(ctx); err != nil {
		return err
	}
	r.report.Complete = true
	return nil
}

// dryRun rolls a batch back.
type dryRun struct{}

func (dryRun) Error() string { return "a dry run" }

// write enqueues the batch in one transaction, with its line in the audit log.
func (r *importRun) write(ctx context.Context) error {
	if len(r.batch) == 0 {
		return nil
	}
	var enqueued, updated, known int
	err := r.inspector.RecordResult(ctx, func(tx pgx.Tx) (pgqueue.AuditEntry, error) {
		answers, err := r.client.EnqueueMany(ctx, tx, r.batch)
		if err != nil {
			return pgqueue.AuditEntry{}, r.located(err)
		}
		entry := pgqueue.AuditEntry{Queue: r.flags.toQueue}
		for _, answer := range answers {
			switch answer.Outcome {
			case pgqueue.Duplicate:
				known++
				continue
			case pgqueue.Inserted:
				enqueued++
			default:
				updated++
			}
			entry.Action, entry.Jobs = pgqueue.ActionImport, append(entry.Jobs, answer.ID)
		}
		if r.flags.dryRun {
			return pgqueue.AuditEntry{}, dryRun{}
		}
		return entry, nil
	})
	if err != nil && !errors.Is(err, dryRun{}) {
		return err
	}
	r.report.Enqueued += enqueued
	r.report.Updated += updated
	r.report.Known += known
	r.report.Batches++
	r.progress.show(r.summary())
	r.batch, r.lines, r.bytes = r.batch[:0], r.lines[:0], 0
	return nil
}

// located names the line of what was refused, where the enqueue names the job.
func (r *importRun) located(err error) error {
	refused, ok := errors.AsType[*pgqueue.ValidationError](err)
	if !ok {
		return err
	}
	var n int
	var field string
	if _, scan := fmt.Sscanf(refused.Field, "jobs[%d].%s", &n, &field); scan != nil || n < 0 || n >= len(r.lines) {
		return err
	}
	return &exitError{code: exitUsage, err: fmt.Errorf("line %d: %s %s", r.lines[n], visible(field), visible(refused.Message))}
}

// parse reads a line. Errors quote nothing of it but names of fields.
func (r *importRun) parse(line []byte) (job pgqueue.NewJob, ended bool, err error) {
	record, err := decodeImport(line)
	if err != nil {
		return job, false, err
	}
	switch {
	case record.Kind == "":
		return job, false, errors.New("it has no kind")
	case len(record.Cut) > 0:
		return job, false, errors.New("its payload was cut: it comes from show, and not from export")
	case len(record.Sealed) > 0 && record.Sealed["payload"].Reason != "":
		return job, false, errors.New("its payload is encoded, and can only be enqueued by a program that has the key")
	}
	queue := record.Queue
	if r.flags.toQueue != "" {
		queue = r.flags.toQueue
	}
	var options []pgqueue.EnqueueOption
	if queue != "" {
		options = append(options, pgqueue.OnQueue(queue))
	}
	if record.Key != "" {
		options = append(options, pgqueue.WithKey(record.Key))
	}
	if record.Revision != "" {
		options = append(options, pgqueue.WithRevision(record.Revision))
	}
	if record.Priority != 0 {
		options = append(options, pgqueue.WithPriority(record.Priority))
	}
	if record.MaxAttempts != 0 {
		options = append(options, pgqueue.WithMaxAttempts(record.MaxAttempts))
	}
	if len(record.Tags) > 0 {
		options = append(options, pgqueue.WithTags(record.Tags...))
	}
	if len(record.Metadata) > 0 {
		options = append(options, pgqueue.WithMetadata(record.Metadata))
	}
	if !record.RunAt.IsZero() {
		options = append(options, pgqueue.WithRunAt(record.RunAt))
	}
	if !r.flags.again {
		identity, err := record.identity()
		if err != nil {
			return job, false, err
		}
		options = append(options, pgqueue.WithIdempotencyKey(identity, time.Duration(r.flags.remember)))
	}
	ended = record.State != "" && !record.State.Live()
	return pgqueue.NewJob{Args: pgqueue.Raw{Name: record.Kind, Payload: record.Payload}, Options: options}, ended, nil
}

// identity is what a line is known by. The number alone would not do: another database has the same ones, but not at the same microsecond.
func (l *importLine) identity() (string, error) {
	switch {
	case l.ImportID != "":
		return "pgqueue-import:" + l.ImportID, nil
	case l.ID != 0 && !l.CreatedAt.IsZero():
		return fmt.Sprintf("pgqueue-import:%d@%s", l.ID, l.CreatedAt.UTC().Format(time.RFC3339Nano)), nil
	default:
		return "", errors.New("it has neither an import_id nor id and created_at, by which a second import would know it; --again enqueues it all the same")
	}
}

// summary is the result so far in words.
func (r *importRun) summary() string {
	text := plural(r.report.Enqueued, "job", "jobs") + " enqueued"
	for _, part := range []struct {
		n    int
		text string
	}{
		{r.report.Updated, "met a live job of their key"}, {r.report.Known, "imported before"}, {r.report.Ended, "left out that had ended"},
	} {
		if part.n > 0 {
			text += fmt.Sprintf(", %s %s", grouped(part.n), part.text)
		}
	}
	return text
}

// end writes the result, and says how to go on.
func (r *importRun) end(ctx context.Context, failed error) error {
	prefix := ""
	if r.flags.dryRun {
		prefix = "nothing was done; it would be: "
	}
	var written error
	if r.app.flags.json {
		written = writeLine(r.app.out, r.report)
	} else {
		written = r.app.printf("%s%s\n", prefix, r.summary())
	}
	if written != nil {
		return errors.Join(failed, answered(written, prefix+r.summary()))
	}
	switch {
	case failed != nil && r.flags.again && !r.flags.dryRun:
		r.app.notef("what is said to be enqueued stays; with --again, remove those lines before you go on")
	case failed != nil && !r.flags.dryRun:
		r.app.notef("what is said to be enqueued stays. To go on, run the same command again: no line is imported twice")
	case r.report.Ended > 0:
		r.app.notef("%s of jobs that had ended left out; --ended enqueues them, too", plural(r.report.Ended, "line", "lines"))
	}
	switch {
	case failed != nil && ctx.Err() != nil:
		return &exitError{code: exitStopped}
	case failed != nil:
		return failed
	case r.report.Ended > 0:
		return &exitError{code: exitPartial}
	default:
		return nil
	}
}
