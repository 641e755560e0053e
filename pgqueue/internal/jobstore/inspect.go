package jobstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Filter says which jobs are meant. What is nil does not filter; all that is set must hold.
type Filter struct {
	States                   []string
	Queue, Kind, Key         *string
	Tags                     []string // all of them
	Priority                 *int16
	MinID, MaxID             *int64 // inclusive
	CreatedFrom, CreatedTo   *time.Time
	FinishedFrom, FinishedTo *time.Time
	DueFrom, DueTo           *time.Time
	Code, Payload, ClaimedBy *string
	IDs                      []int64
}

// args are $1 to $18 of the statements in inspect.sql.
func (f *Filter) args() []any {
	return []any{
		f.States, f.Queue, f.Kind, f.Key, f.Tags, f.Priority, f.MinID, f.MaxID, f.CreatedFrom, f.CreatedTo, f.FinishedFrom, f.FinishedTo,
		f.DueFrom, f.DueTo, f.Code, f.Payload, f.ClaimedBy, f.IDs,
	}
}

// inspectStatements are the texts of inspect.sql and inspect_bulk.sql, put together from their parts. Those with two forms
// have the descending one first.
type inspectStatements struct {
	byID, byFinished, byFinishedInQueue, byDue, few [2]string

	count, countInQueue, countIDs    string
	attention, attentionInQueue      string
	activity, activityByID           string
	sampleDays, samplesOfDay         string
	samplesOfPages, samplesReach     string
	samplesOfAttention               [2]string // of all queues, of one
	countAttention                   [2]string
	peek, workers, whyNotRunning     string
	highest, find                    string
	batchSettings, retryMany, spread string
	cancelMany                       string
	deleteLive, deleteEnded          string
	deleteOne, versions              string
}

// The forms of a statement with two directions.
const (
	descending = 0
	ascending  = 1
)

// load puts the statements together.
func (s *inspectStatements) load(schema string, found statements) error {
	b := builder{found: found, schema: pgx.Identifier{schema}.Sanitize()}
	for direction, words := range []map[string]string{
		descending: {"order": "DESC", "beyond": "<"},
		ascending:  {"order": "ASC", "beyond": ">"},
	} {
		b.with = words
		const ended = "s.finished_at {order}, s.id {order}"
		s.byID[direction] = b.build("list", "scan", "{by_id}", "at", "s.finished_at", "sorted", "s.id {order}")
		s.byFinished[direction] = b.build("list", "scan", "{by_finished}", "at", "s.finished_at", "sorted", ended,
			"queue_is", "", "queue_first", "")
		s.byFinishedInQueue[direction] = b.build("list", "scan", "{by_finished}", "at", "s.finished_at", "sorted", ended,
			"queue_is", inQueue, "queue_first", "h.queue {order},")
		s.byDue[direction] = b.build("list", "scan", "{by_due}", "at", "s.run_at",
			"sorted", "s.priority {order}, s.run_at {order}, s.id {order}")
		s.few[direction] = b.build("list_few")
	}
	s.find = b.build("find", "scan", "{by_id}") // ascending, as b is left
	s.countIDs = b.build("count_ids", "scan", "{by_id}")
	s.count = b.build("count", "queue_is", "", "queue_first", "")
	s.countInQueue = b.build("count", "queue_is", inQueue, "queue_first", "h.queue DESC,")
	s.attention = b.build("attention", "queue_is", "", "queue_first", "")
	s.attentionInQueue = b.build("attention", "queue_is", inQueue, "queue_first", "h.queue DESC,")
	s.activity = b.build("activity", "pages", "{activity_pages}", "tail", "{activity_tail}", "tail_cut", "{activity_tail_cut}", "holes", "{activity_holes}")
	s.activityByID = b.build("activity", "pages", "{activity_no_pages}", "tail", "{activity_latest}", "tail_cut", "{activity_latest_cut}", "holes", "false")
	for n, words := range [][]string{{"queue_is", "AND $2::text IS NULL", "queue_first", ""}, {"queue_is", inQueue, "queue_first", "h.queue DESC,"}} {
		s.samplesOfAttention[n] = b.build("samples_of_attention", words...)
		s.countAttention[n] = b.build("count_attention", words...)
	}
	for name, text := range map[string]*string{
		"sample_days": &s.sampleDays, "samples_of_day": &s.samplesOfDay, "samples_of_pages": &s.samplesOfPages, "samples_reach": &s.samplesReach,
		"peek": &s.peek, "workers": &s.workers, "why_not_running": &s.whyNotRunning, "highest": &s.highest,
		"batch_settings": &s.batchSettings, "retry_many": &s.retryMany, "spread": &s.spread, "cancel_many": &s.cancelMany,
		"delete_live": &s.deleteLive, "delete_ended": &s.deleteEnded, "delete_one": &s.deleteOne, "versions": &s.versions,
	} {
		*text = b.build(name)
	}
	return b.err
}

// inQueue makes a scan of failed and dead jobs one of the index that starts with the queue.
const inQueue = "AND h.queue BETWEEN $2::text AND $2::text"

// builder puts statements together. {name} stands for a word that is given, or else for the section "part_name".
type builder struct {
	found  statements
	schema string // its quoted name, which may hold braces of its own
	with   map[string]string
	err    error // the first one
}

// get is a section with something that no name can hold in the place of the schema's.
func (b *builder) get(name string) (string, error) {
	text, err := b.found.get(name)
	return strings.ReplaceAll(text, b.schema, "\x00"), err
}

// build is the statement of that name with its parts; words are pairs of a name and what stands for it.
func (b *builder) build(name string, words ...string) string {
	given := map[string]string{}
	for i := 0; i+1 < len(words); i += 2 {
		given[words[i]] = words[i+1]
	}
	text, err := b.get(name)
	for err == nil {
		before, rest, ok := strings.Cut(text, "{")
		if !ok {
			break
		}
		word, after, _ := strings.Cut(rest, "}")
		part, ok := given[word]
		if !ok {
			part, ok = b.with[word]
		}
		if !ok {
			part, err = b.get("part_" + word)
		}
		text = before + part + after
	}
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("%s: %w", name, err)
	}
	return strings.ReplaceAll(text, "\x00", b.schema)
}

// text is what a nullable text column holds.
func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}
