package pgqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// What is longer is cut, in bytes, before it is written to the audit log: a long reason must not keep somebody from acting.
const (
	maxAuditName    = 128
	maxAuditActor   = 255
	maxAuditSubject = 512
	maxAuditDetail  = 1_024
	maxAuditTags    = 20 // of a filter; as many of its IDs
)

// MaxAuditJobs is how many jobs one entry of the audit log names. A batch that did something to more of them is several entries.
const MaxAuditJobs = 1_000

// RecordAudit makes an [AuditFunc] that writes the table audit of a schema ("" is [migrations.DefaultSchema]), for [InspectorConfig].Audit;
// [Inspector.AuditLog] reads it. via says which tool acts, such as "cli". The action and its entry become true together.
//
// An entry says who was connected to Postgres (session_user), beside the actor, of whom Postgres knows nothing. It never holds a payload,
// also not the one that a [Filter] asks for. Text that Postgres cannot store becomes U+FFFD, and long text is cut.
//
// The function returns [ErrSchema] where the table is not there, which is before schema version 5, and so the action is undone: what must
// be recorded is not done unrecorded. The role needs EXECUTE on record_action, see docs/roles.md, and no right on the table.
func RecordAudit(schema, via string) AuditFunc {
	if schema == "" {
		schema = migrations.DefaultSchema
	}
	via = auditText(via, maxAuditName)
	store, err := auditStore(schema)
	return func(ctx context.Context, tx pgx.Tx, entry AuditEntry) error {
		if err != nil {
			return err
		}
		if entry.Action == "" {
			return invalid("action", "must not be empty")
		}
		written, err := newAuditEntry(entry, via)
		if err != nil {
			return err
		}
		jobs := entry.Jobs
		for first := true; first || len(jobs) > 0; first = false {
			written.Jobs, jobs = jobs[:min(len(jobs), MaxAuditJobs)], jobs[min(len(jobs), MaxAuditJobs):]
			if err := store.RecordAction(ctx, tx, written); err != nil {
				return auditRefused(schema, err)
			}
		}
		return nil
	}
}

// auditStore has the statements for a schema.
func auditStore(schema string) (*jobstore.Store, error) {
	if err := migrations.ValidateSchema(schema); err != nil {
		return nil, &ValidationError{Field: "schema", Message: "is no usable name: " + err.Error(), cause: err}
	}
	store, err := jobstore.New(schema, migrations.Channel(schema))
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return store, nil
}

// auditRefused says what to do where the log cannot be written or read.
func auditRefused(schema string, err error) error {
	switch postgresCode(err) {
	case "42P01", "42883", "3F000":
		return fmt.Errorf("%w: the schema %q has no audit log, which comes with version 5: run pgqueue migrate up (migrations.Up): %w", ErrSchema, schema, err)
	case "42501":
		return fmt.Errorf("the role lacks a right for the audit log, which version 5 of the schema brings (docs/roles.md has the GRANT): %w", err)
	}
	return err
}

// newAuditEntry makes what is written of an entry, its jobs excepted.
func newAuditEntry(entry AuditEntry, via string) (*jobstore.AuditEntry, error) {
	written := &jobstore.AuditEntry{
		Via: via, Actor: auditText(entry.Actor, maxAuditActor), Action: auditText(string(entry.Action), maxAuditName),
		Queue: auditText(entry.Queue, maxAuditName), Kind: auditText(entry.Kind, maxAuditName),
		Subject: auditText(entry.Subject, maxAuditSubject), Detail: auditText(entry.Detail, maxAuditDetail),
	}
	if entry.Filter == nil {
		return written, nil
	}
	text, err := json.Marshal(newAuditedFilter(entry.Filter))
	if err != nil {
		return nil, fmt.Errorf("write the filter: %w", err)
	}
	written.Filter = new(string(text))
	return written, nil
}

// auditText is text as Postgres can store it, of at most limit bytes, and no character in two.
func auditText(text string, limit int) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
	if len(text) <= limit {
		return text
	}
	const more = "…"
	for limit -= len(more); limit > 0 && !utf8.RuneStart(text[limit]); limit-- {
	}
	return text[:limit] + more
}

// auditedFilter is a filter as the log keeps it, in the words of the command line and of the console's URLs. A payload that was asked for
// may hold what nobody should read there; that there was one is kept.
type auditedFilter struct {
	States       []string   `json:"state,omitempty"`
	Queue        string     `json:"queue,omitempty"`
	Kind         string     `json:"kind,omitempty"`
	Key          string     `json:"key,omitempty"`
	Tags         []string   `json:"tag,omitempty"`
	Priority     int        `json:"priority,omitempty"`
	IDs          []int64    `json:"id,omitempty"`
	NumberOfIDs  *int       `json:"ids,omitempty"` // of all of them
	MinID        int64      `json:"min_id,omitempty"`
	MaxID        int64      `json:"max_id,omitempty"`
	CreatedFrom  *time.Time `json:"created_from,omitempty"`
	CreatedTo    *time.Time `json:"created_to,omitempty"`
	FinishedFrom *time.Time `json:"finished_from,omitempty"`
	FinishedTo   *time.Time `json:"finished_to,omitempty"`
	DueFrom      *time.Time `json:"due_from,omitempty"`
	DueTo        *time.Time `json:"due_to,omitempty"`
	Code         string     `json:"code,omitempty"`
	Payload      string     `json:"payload,omitempty"`
	Worker       string     `json:"worker,omitempty"`
}

func newAuditedFilter(f *Filter) auditedFilter {
	kept := auditedFilter{
		Queue: auditText(f.Queue, maxAuditName), Kind: auditText(f.Kind, maxAuditName), Key: auditText(f.Key, maxKeyBytes), Priority: f.Priority,
		IDs: f.IDs[:min(len(f.IDs), maxAuditTags)], MinID: f.MinID, MaxID: f.MaxID,
		CreatedFrom: auditTime(f.Created.From), CreatedTo: auditTime(f.Created.To), FinishedFrom: auditTime(f.Finished.From),
		FinishedTo: auditTime(f.Finished.To), DueFrom: auditTime(f.Due.From), DueTo: auditTime(f.Due.To),
		Code: auditText(f.ErrorCode, maxAuditName), Worker: auditText(f.ClaimedBy, maxKeyBytes),
	}
	for _, state := range f.States[:min(len(f.States), maxAuditTags)] {
		kept.States = append(kept.States, auditText(string(state), maxAuditName))
	}
	for _, tag := range f.Tags[:min(len(f.Tags), maxAuditTags)] {
		kept.Tags = append(kept.Tags, auditText(tag, maxTagBytes))
	}
	if f.IDs != nil {
		kept.NumberOfIDs = new(len(f.IDs))
	}
	if len(f.Payload) > 0 {
		kept.Payload = "not kept"
	}
	return kept
}

func auditTime(at time.Time) *time.Time {
	if year := at.UTC().Year(); at.IsZero() || year < 1 || year > 9999 { // encoding/json refuses others
		return nil
	}
	return new(at.UTC())
}

// Record does something that is not the inspector's own, such as changing a schedule, and tells the audit log of it, in one transaction:
// both become true, or neither. entry.Actor is that of [Inspector.As]. Without [InspectorConfig].Audit it only does it. An error of do is
// returned as it is, and undoes what do did. do must not end tx.
func (i *Inspector) Record(ctx context.Context, entry AuditEntry, do func(tx pgx.Tx) error) error {
	return i.RecordResult(ctx, func(tx pgx.Tx) (AuditEntry, error) { return entry, do(tx) })
}

// RecordResult is [Inspector.Record] for what knows its entry only afterwards: the number of a job that was enqueued. An entry without an
// Action is none: nothing was there to do, and nothing is told.
func (i *Inspector) RecordResult(ctx context.Context, do func(tx pgx.Tx) (AuditEntry, error)) error {
	if err := runsOn(i.q); err != nil {
		return err
	}
	return i.inTx(ctx, func(tx pgx.Tx) error {
		entry, err := do(tx)
		if err != nil || entry.Action == "" {
			return err
		}
		if err := i.tell(ctx, tx, entry); err != nil {
			return fmt.Errorf("%s: %w", entry.Action, err)
		}
		return nil
	})
}

// auditExplained is explained for the audit log.
func (i *Inspector) auditExplained(err error) error {
	if errors.Is(err, ErrSchema) {
		return err
	}
	return auditRefused(i.client.schema, err)
}
