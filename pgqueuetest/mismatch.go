package pgqueuetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	shownJobs  = 5   // in a failure message
	shownBytes = 300 // of one job's arguments
)

// report says why not exactly one job matches.
func (c *candidates) report(ctx context.Context, q Querier) string {
	var text strings.Builder
	if len(c.matching) > 1 {
		fmt.Fprintf(&text, "%d live jobs match where one is wanted: %s\n", len(c.matching), c.search.wanted())
		c.list(&text)
		return text.String()
	}
	fmt.Fprintf(&text, "no live job matches: %s\n", c.search.wanted())
	if len(c.close) == 0 {
		c.search.others(ctx, q, &text)
		return text.String()
	}
	slices.SortStableFunc(c.close, func(a, b *near) int { return cmp.Compare(len(a.differences), len(b.differences)) })
	for _, near := range c.close[:min(shownJobs, len(c.close))] {
		fmt.Fprintf(&text, "  %s\n", near.job)
		for _, difference := range near.differences {
			fmt.Fprintf(&text, "    - %s: %s (wanted)\n    + %s: %s\n", difference.what, difference.want, difference.what, difference.is)
		}
	}
	more(&text, len(c.close))
	return text.String()
}

// unwanted lists the jobs that should not be there.
func (c *candidates) unwanted() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d live jobs match where none is wanted: %s\n", len(c.matching), c.search.wanted())
	c.list(&text)
	return text.String()
}

func (c *candidates) list(text *strings.Builder) {
	for _, job := range c.matching[:min(shownJobs, len(c.matching))] {
		fmt.Fprintf(text, "  %s\n", job)
	}
	more(text, len(c.matching))
}

func more(text *strings.Builder, n int) {
	if n > shownJobs {
		fmt.Fprintf(text, "  and %d more\n", n-shownJobs)
	}
}

// wanted describes the search in one line.
func (s *search) wanted() string {
	parts := []string{"any kind"}
	if s.kind != "" {
		parts[0] = fmt.Sprintf("kind %q", s.kind)
	}
	for _, condition := range s.conditions {
		parts = append(parts, condition.want)
	}
	return strings.Join(parts, ", ")
}

// others says what there is when there is no live job of the wanted kind. It must not make a failure worse: what cannot be
// read is left out.
func (s *search) others(ctx context.Context, q Querier, text *strings.Builder) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	live := s.count(ctx, q, `SELECT format('%s of kind %s on queue %s', count(*), to_json(kind), to_json(queue))
		FROM {schema}.jobs GROUP BY kind, queue ORDER BY count(*) DESC, kind, queue LIMIT 10`)
	if len(live) > 0 {
		fmt.Fprintf(text, "  there is no live job of this kind; the live jobs are:\n    %s\n", strings.Join(live, "\n    "))
	} else {
		fmt.Fprintf(text, "  there is no live job at all in schema %q\n", s.schema)
	}
	finished := s.count(ctx, q, `SELECT format('%s %s', count(*), state)
		FROM {schema}.history WHERE $1::text = '' OR kind = $1::text GROUP BY state ORDER BY state`, s.kind)
	if len(finished) > 0 {
		fmt.Fprintf(text, "  of this kind have finished already: %s\n", strings.Join(finished, ", "))
	}
	if _, ok := q.(pgx.Tx); !ok {
		text.WriteString("  a job that is enqueued in an open transaction is seen through that transaction only\n")
	}
}

func (s *search) count(ctx context.Context, q Querier, sql string, args ...any) []string {
	rows, err := q.Query(ctx, s.sql(sql), args...)
	if err != nil {
		return nil
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil
	}
	return lines
}

// String is one line about the job.
func (j *liveJob) String() string {
	parts := []string{fmt.Sprintf("job %d: %s, queue %q", j.ID, j.State, j.Queue)}
	if j.Key != "" {
		parts = append(parts, fmt.Sprintf("key %q", j.Key))
	}
	if j.Failures > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d attempts failed", j.Failures, j.MaxAttempts))
	}
	if j.State == "pending" {
		parts = append(parts, "due "+j.when())
	}
	return strings.Join(append(parts, "args "+short(string(j.payload))), ", ")
}

// when says when the job is due.
func (j *liveJob) when() string {
	switch {
	case j.Due:
		return "now"
	case j.RunAt.IsZero():
		return "never"
	default:
		return "at " + clock(j.RunAt)
	}
}

func clock(t time.Time) string { return t.Format("2006-01-02 15:04:05.000 -07:00") }

// short cuts text that would bury the rest of a message.
func short(text string) string {
	if cut := truncate(text, shownBytes); cut != text {
		return cut + "…"
	}
	return text
}

// differentJSON lists the members in which two JSON objects differ, or both texts where one is no object.
func differentJSON(want, is json.RawMessage) []different {
	var wanted, found map[string]json.RawMessage
	if json.Unmarshal(want, &wanted) != nil || json.Unmarshal(is, &found) != nil || wanted == nil || found == nil {
		return []different{{"args", short(string(want)), short(string(is))}}
	}
	names := maps.Clone(wanted)
	maps.Copy(names, found)
	var differences []different
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a, b := member(wanted, name), member(found, name); a != b {
			differences = append(differences, different{"args." + name, short(a), short(b)})
		}
	}
	if len(differences) == 0 { // equal but for what Go's decoder made of it
		return []different{{"args", short(string(want)), short(string(is))}}
	}
	return differences
}

// member is one member of an object in a form that can be compared, as Postgres writes JSON in another one than Go.
func member(object map[string]json.RawMessage, name string) string {
	text, ok := object[name]
	if !ok {
		return "(absent)"
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return string(text)
	}
	canonical, err := json.Marshal(value)
	if err != nil {
		return string(text)
	}
	return string(canonical)
}
