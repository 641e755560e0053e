package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// maxShown is how much of a payload, metadata and result is shown without --full, in bytes.
const maxShown = 64 << 10

func (a *app) jobsShowCommand() *cobra.Command {
	full := false
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show all about a job: its attempts, its payload, and why it is not running",
		Long: `Show a job with its attempts and, while it has not ended, why it is not running. Of payload, metadata and result up to 64 kB are shown;
--full shows all. Numbers keep all their digits. Characters that would move a terminal's cursor are written as escapes.`,
		Example: `  pgqueue jobs show 42
  pgqueue jobs show 42 --full --json`,
		Args: jobsArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.showJob(cmd.Context(), args, full) },
	}
	cmd.Flags().BoolVar(&full, "full", false, "show payload, metadata and result whole, however large they are")
	return cmd
}

func (a *app) showJob(ctx context.Context, args []string, full bool) error {
	ids, err := jobIDs(args)
	if err != nil {
		return err
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	var job *pgqueue.JobDetail
	if full {
		job, err = s.inspector.Get(ctx, ids[0])
	} else {
		job, err = s.inspector.Peek(ctx, ids[0], maxShown)
	}
	if err != nil {
		return err
	}
	why := ""
	if job.State == pgqueue.JobPending {
		// It may have ended since it was read; what was read is shown all the same.
		if why, err = s.inspector.WhyNotRunning(ctx, job.ID); err != nil && !errors.Is(err, pgqueue.ErrNotFound) {
			return err
		}
	}
	if a.flags.json {
		record := newJobRecord(job)
		record.WhyNotRunning = why
		return writeLine(a.out, record)
	}
	return a.writeJob(job, why)
}

func (a *app) jobsWhyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why ID…", Short: "Say in words why a job is not running", Args: jobsArgs(1, -1),
		Long: `Say in words why a job is not running: it is not due, its queue or kind is paused, no live worker knows its kind, somebody holds its row, it has
ended, or there never was one. It works for a role that may see no payload.`,
		Example: `  pgqueue jobs why 42`,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.explainJobs(cmd.Context(), args) },
	}
}

func (a *app) explainJobs(ctx context.Context, args []string) error {
	ids, err := jobIDs(args)
	if err != nil {
		return err
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	return a.eachJob(ctx, ids, func(id int64) (string, error) {
		why, err := s.inspector.WhyNotRunning(ctx, id)
		if strings.HasPrefix(why, fmt.Sprintf("There is no job %d ", id)) { // the function answers in words alone, this one too
			return "", &exitError{code: exitNotFound, err: errors.New(why)}
		}
		return why, err
	}, "why")
}

// jobRecord is all about a job, as JSON: what show prints, and a line of an export. Times are the database's.
type jobRecord struct {
	ID           int64                     `json:"id"`
	State        pgqueue.JobState          `json:"state"`
	Queue        string                    `json:"queue"`
	Kind         string                    `json:"kind"`
	Key          string                    `json:"key,omitempty"`
	Revision     string                    `json:"revision,omitempty"`
	Priority     int                       `json:"priority"`
	Tags         []string                  `json:"tags,omitempty"`
	RunAt        time.Time                 `json:"run_at,omitzero"`
	CreatedAt    time.Time                 `json:"created_at,omitzero"`
	ClaimedAt    time.Time                 `json:"claimed_at,omitzero"`
	LeaseExpires time.Time                 `json:"lease_expires_at,omitzero"`
	FinishedAt   time.Time                 `json:"finished_at,omitzero"`
	ClaimedBy    string                    `json:"claimed_by,omitempty"`
	CancelWanted bool                      `json:"cancel_wanted,omitempty"`
	Attempt      int                       `json:"attempt"`
	Generation   int                       `json:"generation"`
	Version      string                    `json:"version"`
	Failures     int                       `json:"failures"`
	MaxAttempts  int                       `json:"max_attempts"`
	ErrorCount   int                       `json:"error_count"`
	Payload      json.RawMessage           `json:"payload,omitempty"`
	Metadata     json.RawMessage           `json:"metadata,omitempty"`
	Result       json.RawMessage           `json:"result,omitempty"`
	Attempts     []attemptRecord           `json:"attempts,omitempty"`
	Progress     *progressRecord           `json:"progress,omitempty"`
	Sealed       map[string]sealedRecord   `json:"sealed,omitempty"` // fields whose value is the stored, encoded form
	Cut          map[string]jobPayloadPart `json:"cut,omitempty"`    // the beginning of fields that are too large to be shown
	// WhyNotRunning is of show alone.
	WhyNotRunning string `json:"why_not_running,omitempty"`
}

type attemptRecord struct {
	Number    int                  `json:"number"`
	State     pgqueue.AttemptState `json:"state"`
	Worker    string               `json:"worker,omitempty"`
	StartedAt time.Time            `json:"started_at,omitzero"`
	EndedAt   time.Time            `json:"ended_at,omitzero"`
	Code      string               `json:"code,omitempty"`
	Message   string               `json:"message,omitempty"`
}

type progressRecord struct {
	Value     json.RawMessage `json:"value"`
	Attempt   int             `json:"attempt"`
	UpdatedAt time.Time       `json:"updated_at"`
}

type sealedRecord struct {
	Codecs []string `json:"codecs,omitempty"`
	Key    string   `json:"key,omitempty"`
	Size   int      `json:"size"`
	Reason string   `json:"reason"`
}

type jobPayloadPart struct {
	Text string `json:"text"`
	Size int    `json:"size"`
}

func newJobRecord(job *pgqueue.JobDetail) *jobRecord {
	record := &jobRecord{
		ID: job.ID, State: job.State, Queue: job.Queue, Kind: job.Kind, Key: job.Key, Revision: job.Revision, Priority: job.Priority, Tags: job.Tags,
		RunAt: job.RunAt, CreatedAt: job.CreatedAt, ClaimedAt: job.ClaimedAt, LeaseExpires: job.LeaseExpiresAt, FinishedAt: job.FinishedAt,
		ClaimedBy: job.ClaimedBy, CancelWanted: job.CancelWanted, Attempt: job.Attempt, Generation: job.Generation, Version: job.Version().String(),
		Failures: job.Failures, MaxAttempts: job.MaxAttempts, ErrorCount: job.ErrorCount, Payload: job.Payload, Metadata: job.Metadata, Result: job.Result,
	}
	for _, attempt := range job.Attempts {
		record.Attempts = append(record.Attempts, attemptRecord(attempt))
	}
	if job.Progress != nil {
		record.Progress = &progressRecord{Value: job.Progress.Value, Attempt: job.Progress.Attempt, UpdatedAt: job.Progress.UpdatedAt}
	}
	for field, sealed := range job.Sealed {
		if record.Sealed == nil {
			record.Sealed = map[string]sealedRecord{}
		}
		record.Sealed[field] = sealedRecord(sealed)
	}
	for field, part := range job.Cut {
		if record.Cut == nil {
			record.Cut = map[string]jobPayloadPart{}
		}
		record.Cut[field] = jobPayloadPart{Text: part.Text, Size: part.Size}
	}
	return record
}

// writeJob writes a job for people.
func (a *app) writeJob(job *pgqueue.JobDetail, why string) error {
	now := time.Now()
	state := string(job.State)
	if job.CancelWanted {
		state += ", asked to stop"
	}
	facts := [][2]string{
		{"job", strconv.FormatInt(job.ID, 10)}, {"state", state}, {"queue", visible(job.Queue)}, {"kind", visible(job.Kind)},
		{"priority", strconv.Itoa(job.Priority)}, {"version", job.Version().String()},
		{"attempts", fmt.Sprintf("%d so far; %d of %d failed with this input, %d in all", job.Attempt, job.Failures, job.MaxAttempts, job.ErrorCount)},
		{"enqueued", timeText(job.CreatedAt, now)}, {"due", timeText(job.RunAt, now)},
	}
	add := func(name, value string) {
		if value != "" && value != "-" {
			facts = append(facts, [2]string{name, value})
		}
	}
	add("key", visible(job.Key))
	add("revision", visible(job.Revision))
	add("tags", visible(strings.Join(job.Tags, ", ")))
	add("claimed", timeText(job.ClaimedAt, now))
	add("worker", visible(job.ClaimedBy))
	add("lease ends", timeText(job.LeaseExpiresAt, now))
	add("ended", timeText(job.FinishedAt, now))
	add("not running because", why)
	if err := a.writeFacts(facts); err != nil {
		return err
	}
	if len(job.Attempts) > 0 {
		fmt.Fprintln(a.out, "\ntimeline")
		if err := writeRows(a.out, nil, timeline(job)); err != nil {
			return err
		}
	}
	if job.Progress != nil {
		fmt.Fprintf(a.out, "\nprogress of attempt %d, %s\n", job.Progress.Attempt, timeText(job.Progress.UpdatedAt, now))
		a.writeDocument(job, "progress", job.Progress.Value)
	}
	for _, part := range []struct {
		name string
		text json.RawMessage
	}{{"metadata", job.Metadata}, {"result", job.Result}, {"payload", job.Payload}} {
		_, cut := job.Cut[part.name]
		if len(part.text) == 0 && !cut || part.name == "metadata" && string(part.text) == "{}" {
			continue
		}
		fmt.Fprintf(a.out, "\n%s\n", part.name)
		a.writeDocument(job, part.name, part.text)
	}
	return nil
}

// writeDocument writes a JSON document of a job, or the beginning of it.
func (a *app) writeDocument(job *pgqueue.JobDetail, name string, text json.RawMessage) {
	if part, ok := job.Cut[name]; ok {
		if part.Sealed != nil {
			fmt.Fprintf(a.out, "(%s)\n", visible(part.Sealed.String()))
		}
		a.out.Write(append(visibleJSON([]byte(part.Text)), "…\n"...)) //nolint:errcheck // as with fmt.Fprint: the next write tells
		fmt.Fprintf(a.out, "(the first %s of %s; --full shows all)\n", byteSize(len(part.Text)), byteSize(part.Size))
		return
	}
	if sealed, ok := job.Sealed[name]; ok {
		fmt.Fprintf(a.out, "(%s)\n", visible(sealed.String()))
	}
	a.out.Write(indented(text)) //nolint:errcheck // as with fmt.Fprint
	fmt.Fprintln(a.out)
}

// timeline is what happened to a job, in the order of time as far as that is known.
func timeline(job *pgqueue.JobDetail) [][]string {
	type event struct {
		at   time.Time
		text string
	}
	events := []event{{job.CreatedAt, "enqueued"}}
	for _, attempt := range job.Attempts {
		by := ""
		if attempt.Worker != "" {
			by = " by " + attempt.Worker
		}
		if !attempt.StartedAt.IsZero() {
			events = append(events, event{attempt.StartedAt, fmt.Sprintf("attempt %d claimed%s", attempt.Number, by)})
		}
		if attempt.EndedAt.IsZero() {
			continue
		}
		text := fmt.Sprintf("attempt %d %s", attempt.Number, attempt.State)
		if attempt.StartedAt.IsZero() {
			text += by
		} else {
			text += " after " + span(attempt.EndedAt.Sub(attempt.StartedAt))
		}
		if attempt.State == pgqueue.AttemptFailed {
			text += ": " + attempt.Code + ": " + attempt.Message
		}
		events = append(events, event{attempt.EndedAt, text})
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	if !job.FinishedAt.IsZero() { // the last thing, although the end of the attempt may be stored with a later microsecond
		events = append(events, event{job.FinishedAt, "ended: " + string(job.State)})
	}
	rows := make([][]string, len(events))
	for n, e := range events {
		rows[n] = []string{"  " + e.at.UTC().Format("2006-01-02 15:04:05.000Z"), e.text}
	}
	return rows
}
