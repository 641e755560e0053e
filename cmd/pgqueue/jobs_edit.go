package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// editFlags are the flags of `pgqueue jobs edit`.
type editFlags struct {
	payload, version string
	retry, supersede bool
}

func (a *app) jobsEditCommand() *cobra.Command {
	f := &editFlags{}
	cmd := &cobra.Command{
		Use: "edit ID [--payload FILE]", Short: "Replace the payload of a pending job, or retry a failed or dead one with another payload",
		Long: `Replace the payload of a job. On a terminal, without --payload, the present one is opened in $VISUAL or $EDITOR.

A pending job gets the new payload and waits as before. A failed or dead one needs --retry: it comes back with the new payload in one step,
so that nobody runs it with the old one. A running one needs --supersede: its present run counts for nothing, and it runs again with the
new payload. The edit happens only if the job is still the one that was read, or that --if-version names. Payloads are never printed by
this command.`,
		Example: `  pgqueue jobs edit 17
  pgqueue jobs edit 17 --retry --payload fixed.json --if-version 3.1
  jq '.n = 2' old.json | pgqueue jobs edit 17 --payload -`,
		Args: jobsArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.editJob(cmd.Context(), f, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.payload, "payload", "", "file with the new payload; - is standard input")
	flags.StringVar(&f.version, "if-version", "", "only if the job still has this version, as pgqueue jobs show printed it")
	flags.BoolVar(&f.retry, "retry", false, "the job is failed or dead: bring it back with the new payload")
	flags.BoolVar(&f.supersede, "supersede", false, "also if the job runs: it runs again with the new payload")
	return cmd
}

func (a *app) editJob(ctx context.Context, f *editFlags, args []string) error {
	ids, err := jobIDs(args)
	if err != nil {
		return err
	}
	condition, err := ifVersion(f.version)
	if err != nil {
		return err
	}
	if f.payload == "" && !a.interactive() {
		return usage("say where the new payload is: --payload FILE, or --payload - for standard input")
	}
	var payload json.RawMessage
	if f.payload != "" {
		if payload, err = a.readPayload(f.payload); err != nil {
			return err
		}
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	id := ids[0]
	var job *pgqueue.JobDetail
	if payload == nil {
		job, err = s.inspector.Get(ctx, id) // to be edited: all of it
	} else {
		job, err = s.inspector.Peek(ctx, id, 0)
	}
	if err != nil {
		return err
	}
	if err := f.editable(job); err != nil {
		return err
	}
	if condition == nil {
		condition = []pgqueue.ActionOption{pgqueue.IfVersion(job.Version())}
	}
	kept := ""
	if payload == nil {
		if payload, kept, err = a.payloadFromEditor(ctx, job); err != nil {
			return err
		}
		if payload == nil {
			a.notef("the payload is as it was: nothing was done")
			return nil
		}
	}
	outcome, err := f.apply(ctx, s.inspector, id, payload, condition)
	if err != nil {
		if kept != "" {
			a.notef("what you wrote is in %s", visible(kept))
		}
		return err
	}
	if kept != "" {
		if err := os.Remove(kept); err != nil {
			a.notef("%v", err)
		}
	}
	return a.writeOutcome(jobOutcome{ID: id, Outcome: outcome})
}

// apply sends the new payload. The state was looked at before; that the job is still the same is checked by its version.
func (f *editFlags) apply(ctx context.Context, inspector *pgqueue.Inspector, id int64, payload json.RawMessage, condition []pgqueue.ActionOption) (string, error) {
	if f.retry {
		return "retried with the new payload", inspector.RetryWith(ctx, id, payload, condition...)
	}
	state, err := inspector.EditPayload(ctx, id, payload, condition...)
	if state == pgqueue.JobRunning {
		return "edited; its present run counts for nothing, and it runs again", err
	}
	return "edited; it waits with the new payload", err
}

// editable tells whether the state of the job fits what was asked for.
func (f *editFlags) editable(job *pgqueue.JobDetail) error {
	conflict := func(err error, hint string) error {
		return &exitError{code: exitConflict, err: fmt.Errorf("edit job %d: %w%s", job.ID, err, hint)}
	}
	switch {
	case job.State == pgqueue.JobSucceeded || job.State == pgqueue.JobCancelled:
		return conflict(pgqueue.ErrJobEnded, ": it is "+string(job.State))
	case !job.State.Live() && !f.retry:
		return conflict(pgqueue.ErrJobEnded, ": it is "+string(job.State)+"; --retry brings it back with the new payload")
	case job.State.Live() && f.retry:
		return conflict(pgqueue.ErrJobLive, ": it is "+string(job.State)+"; edit it without --retry")
	case job.State == pgqueue.JobRunning && !f.supersede:
		return conflict(pgqueue.ErrJobRunning, "; --supersede edits it all the same: its present run then counts for nothing, and it runs again")
	default:
		return nil
	}
}

// readPayload reads a new payload and checks that it is JSON. Errors quote nothing of it.
func (a *app) readPayload(name string) (json.RawMessage, error) {
	raw, err := readBounded(name, a.in)
	if err != nil {
		return nil, err
	}
	return checkedPayload(raw)
}

func checkedPayload(raw []byte) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, usage("the payload is empty; {} is a payload without anything in it")
	}
	if !json.Valid(raw) {
		line := "its end"
		var syntax *json.SyntaxError
		if errors.As(json.Unmarshal(raw, new(json.RawMessage)), &syntax) && syntax.Offset <= int64(len(raw)) {
			line = fmt.Sprintf("line %d", 1+bytes.Count(raw[:syntax.Offset], []byte("\n")))
		}
		return nil, usage("the payload is not JSON: look at %s", line)
	}
	return raw, nil
}

// payloadFromEditor lets somebody edit the payload of a job in a file that only they can read. It returns nil if it is as it was, and
// otherwise the file too, for the case that the edit is refused.
func (a *app) payloadFromEditor(ctx context.Context, job *pgqueue.JobDetail) (payload json.RawMessage, file string, err error) {
	if sealed, ok := job.Sealed["payload"]; ok {
		return nil, "", &exitError{code: exitConflict, err: fmt.Errorf("the payload of job %d cannot be edited here: it is %s; --payload replaces it", job.ID, visible(sealed.String()))}
	}
	var before bytes.Buffer
	if err := json.Indent(&before, job.Payload, "", "  "); err != nil {
		return nil, "", err
	}
	before.WriteByte('\n')
	temp, err := os.CreateTemp("", fmt.Sprintf("pgqueue-job-%d-*.json", job.ID)) // mode 0600
	if err != nil {
		return nil, "", err
	}
	file = temp.Name()
	defer func() {
		if payload == nil && err == nil {
			err = os.Remove(file)
		}
	}()
	_, err = temp.Write(before.Bytes())
	if err = errors.Join(err, temp.Close()); err != nil {
		return nil, "", err
	}
	if err := a.runEditor(ctx, file); err != nil {
		return nil, "", fmt.Errorf("%w; the payload is in %s", err, visible(file))
	}
	after, err := os.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	if bytes.Equal(bytes.TrimSpace(after), bytes.TrimSpace(before.Bytes())) {
		return nil, file, nil
	}
	if payload, err = checkedPayload(after); err != nil {
		return nil, "", fmt.Errorf("%w; what you wrote is in %s", err, visible(file))
	}
	return payload, file, nil
}

// runEditor runs the user's editor, which may be a command with arguments, on the terminal.
func (a *app) runEditor(ctx context.Context, file string) error {
	editor := "vi"
	if runtime.GOOS == "windows" {
		editor = "notepad"
	}
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if value, ok := a.lookupEnv(name); ok && strings.TrimSpace(value) != "" {
			editor = value
			break
		}
	}
	words := strings.Fields(editor)
	if _, err := exec.LookPath(editor); err == nil {
		words = []string{editor} // a path with blanks in it
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], file)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.in, a.out, a.err
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the editor %s: %w", visible(words[0]), err)
	}
	return nil
}
