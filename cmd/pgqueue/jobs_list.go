package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// listFlags are the flags of `pgqueue jobs list`.
type listFlags struct {
	filterFlags
	order, cursor       string
	limit, scan, prefix int
	all                 bool
}

func (a *app) jobsListCommand() *cobra.Command {
	f := &listFlags{}
	cmd := &cobra.Command{
		Use: "list [--FILTER …]", Aliases: []string{"ls"}, Short: "List jobs, newest first, page by page or all that match",
		Long: `List jobs that match all flags given, page by page. A page comes from an index, whatever the tables hold. Where no index knows what is
asked for, jobs are looked at one by one, up to --scan of them; then the list says where to go on. --all goes on by itself to the
end and writes as it reads.

With --json each job is one line on standard output; what to go on with is a line of JSON on standard error.`,
		Example: `  pgqueue jobs list --state failed,dead --order latest-ended --limit 20
  pgqueue jobs list --queue mail --state pending --order next-due
  pgqueue jobs list --kind send --payload '{"user": {"id": 7}}' --created-from -1d --all --json`,
		Args: jobsArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listJobs(cmd.Context(), cmd, f) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.order, "order", string(pgqueue.OrderNewest), "newest, oldest; latest-ended, first-ended (failed and dead jobs); next-due (pending jobs of one queue)")
	completes(cmd, "order", string(pgqueue.OrderNewest), string(pgqueue.OrderOldest), "latest-ended", "first-ended", "next-due")
	flags.IntVar(&f.limit, "limit", 50, "how many jobs to list")
	flags.StringVar(&f.cursor, "cursor", "", "where to go on, as an earlier list said")
	flags.IntVar(&f.scan, "scan", 100_000, "at how many jobs to look at most where no index helps")
	flags.IntVar(&f.prefix, "preview", 0, "show so many bytes of the payload; 0: none")
	flags.BoolVar(&f.all, "all", false, "list all that match, without --limit and --scan")
	return cmd
}

func (a *app) listJobs(ctx context.Context, cmd *cobra.Command, f *listFlags) error {
	switch {
	case f.limit < 1 || f.limit > 1_000_000:
		return usage("--limit is from 1 to 1,000,000; for all there is --all")
	case f.scan < 1:
		return usage("--scan must be at least 1")
	case f.prefix < 0 || f.prefix > pgqueue.MaxListPreview:
		return usage("--preview is from 0 to %d bytes; pgqueue jobs show --full has all of one payload", pgqueue.MaxListPreview)
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	filter, err := f.filter(ctx, cmd, &databaseClock{pool: s.pool})
	if err != nil {
		return err
	}
	options := pgqueue.ListOptions{Order: pgqueue.ListOrder(f.order), Cursor: f.cursor, Preview: f.prefix}
	if f.prefix == 0 {
		options.Preview = -1
	}
	listing := &listing{app: a, preview: f.prefix > 0, now: time.Now()}
	for scanned := 0; ; {
		options.Limit = min(pgqueue.MaxListLimit, max(f.limit-listing.n, 1))
		if f.all {
			options.Limit = pgqueue.MaxListLimit
		}
		if left := f.scan - scanned; !f.all {
			options.Scan = min(pgqueue.DefaultListScan, max(left, options.Limit+1))
		}
		page, err := s.inspector.List(ctx, filter, options)
		if err != nil {
			return err
		}
		if err := listing.write(page.Jobs); err != nil {
			return err
		}
		scanned += page.Scanned
		options.Cursor = page.Next
		if page.Next == "" || !f.all && (listing.n >= f.limit || scanned >= f.scan) {
			return listing.end(page.Next, scanned, !f.all && listing.n < f.limit)
		}
	}
}

// listing writes a list in parts.
type listing struct {
	app     *app
	preview bool
	now     time.Time
	n       int
}

// jobLine is a job in a list, as JSON.
type jobLine struct {
	ID           int64              `json:"id"`
	State        pgqueue.JobState   `json:"state"`
	Queue        string             `json:"queue"`
	Kind         string             `json:"kind"`
	Key          string             `json:"key,omitempty"`
	Revision     string             `json:"revision,omitempty"`
	Priority     int                `json:"priority"`
	Tags         []string           `json:"tags,omitempty"`
	RunAt        time.Time          `json:"run_at"`
	CreatedAt    time.Time          `json:"created_at"`
	ClaimedAt    time.Time          `json:"claimed_at,omitzero"`
	LeaseExpires time.Time          `json:"lease_expires_at,omitzero"`
	FinishedAt   time.Time          `json:"finished_at,omitzero"`
	ClaimedBy    string             `json:"claimed_by,omitempty"`
	CancelWanted bool               `json:"cancel_wanted,omitempty"`
	Attempt      int                `json:"attempt"`
	Failures     int                `json:"failures"`
	MaxAttempts  int                `json:"max_attempts"`
	Version      string             `json:"version"`
	ErrorCount   int                `json:"error_count"`
	Code         string             `json:"code,omitempty"`
	Message      string             `json:"message,omitempty"`
	PayloadSize  int                `json:"payload_stored_bytes"`
	Payload      *jobPayloadExcerpt `json:"payload_excerpt,omitempty"`
}

type jobPayloadExcerpt struct {
	Text string `json:"text"`
	Cut  bool   `json:"cut"`
}

func (l *listing) write(jobs []pgqueue.JobSummary) error {
	first := l.n == 0
	l.n += len(jobs)
	if l.app.flags.json {
		for n := range jobs {
			if err := writeLine(l.app.out, l.line(&jobs[n])); err != nil {
				return err
			}
		}
		return nil
	}
	if len(jobs) == 0 {
		return nil
	}
	var head []string
	if first {
		head = []string{"ID", "STATE", "QUEUE", "KIND", "PRIO", "ATTEMPT", "WHEN", "KEY", "LAST ERROR"}
		if l.preview {
			head = append(head, "PAYLOAD")
		}
	}
	rows := make([][]string, len(jobs))
	for n := range jobs {
		rows[n] = l.row(&jobs[n])
	}
	return writeRows(l.app.out, head, rows)
}

func (l *listing) line(job *pgqueue.JobSummary) jobLine {
	line := jobLine{
		ID: job.ID, State: job.State, Queue: job.Queue, Kind: job.Kind, Key: job.Key, Revision: job.Revision, Priority: job.Priority, Tags: job.Tags,
		RunAt: job.RunAt, CreatedAt: job.CreatedAt, ClaimedAt: job.ClaimedAt, LeaseExpires: job.LeaseExpiresAt, FinishedAt: job.FinishedAt,
		ClaimedBy: job.ClaimedBy, CancelWanted: job.CancelWanted, Attempt: job.Attempt, Failures: job.Failures, MaxAttempts: job.MaxAttempts,
		Version: job.Version().String(), ErrorCount: job.ErrorCount, Code: job.LastCode, Message: job.LastMessage, PayloadSize: job.Payload.Size,
	}
	if l.preview {
		line.Payload = &jobPayloadExcerpt{Text: job.Payload.Text, Cut: job.Payload.Cut}
	}
	return line
}

func (l *listing) row(job *pgqueue.JobSummary) []string {
	var when string
	switch job.State {
	case pgqueue.JobPending:
		when = "due " + distance(job.RunAt, l.now)
	case pgqueue.JobRunning:
		when = "claimed " + distance(job.ClaimedAt, l.now)
	default:
		when = "ended " + distance(job.FinishedAt, l.now)
	}
	state := string(job.State)
	if job.CancelWanted {
		state += ", stopping"
	}
	failure := "-"
	if job.ErrorCount > 0 {
		failure = shortened(job.LastCode+": "+job.LastMessage, 60)
	}
	key := "-"
	if job.Key != "" {
		key = shortened(job.Key, 32)
	}
	row := []string{
		strconv.FormatInt(job.ID, 10), state, shortened(job.Queue, 32), shortened(job.Kind, 32), strconv.Itoa(job.Priority),
		fmt.Sprintf("%d, %d/%d failed", job.Attempt, job.Failures, job.MaxAttempts), when, key, failure,
	}
	if l.preview {
		row = append(row, payloadCell(job.Payload))
	}
	return row
}

// payloadCell is what a table shows of a payload.
func payloadCell(payload pgqueue.Excerpt) string {
	switch {
	case payload.Sealed != nil:
		return "(" + payload.Sealed.String() + ")"
	case payload.Text == "":
		return "(" + byteSize(payload.Size) + " stored)"
	case payload.Cut:
		return payload.Text + "…"
	default:
		return payload.Text
	}
}

// end says where to go on, on standard error: next is empty at the end of the list, and short where looking ended before the page was full.
func (l *listing) end(next string, scanned int, short bool) error {
	if l.app.flags.json {
		if next == "" {
			return nil
		}
		return writeLine(l.app.err, struct {
			Next     string `json:"next"`
			LookedAt int    `json:"looked_at,omitempty"`
		}{next, scanned})
	}
	var text strings.Builder
	switch {
	case next == "" && l.n == 0:
		text.WriteString("no job matches")
	case next == "":
		return nil
	case short:
		fmt.Fprintf(&text, "looked at %s, of which %s; go on with --cursor %s, or look at all with --all", plural(scanned, "job", "jobs"),
			plural(l.n, "matches", "match"), next)
	default:
		fmt.Fprintf(&text, "there are more: --cursor %s", next)
	}
	fmt.Fprintln(l.app.err, text.String())
	return nil
}
