package console

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// A bulk action in an address or a form is a filter, see parseFilter, and beside it:
//
//	action           the name of a bulkKind: retry, cancel, delete, purge, reschedule, set_priority
//	scope=selection  the jobs are ticked ones: without an id nothing is meant, and not everything
//	spread, pause    durations: "10m"
//	new_due          when jobs become due; as parseTime has it, empty for now
//	new_priority     1 to 4
//	running=yes      delete what runs, too
//	batch            jobs a transaction
//	resume           the cursor of an operation that did not get to its end
//
// The form that begins it has besides: operation (a ticket), sure=yes for what cannot be undone, and expected (how many jobs were
// counted, for the progress bar).

// parseBulk reads a bulk action. What cannot be read, or is not meant, is an error for the one who asks.
func parseBulk(values url.Values) (*bulk, error) {
	kind, ok := bulkKindOf(values.Get("action"))
	if !ok {
		return nil, badRequest("There is no such bulk action.")
	}
	b := &bulk{bulkKind: kind, Resume: values.Get("resume"), Running: values.Get("running") == "yes" && kind.Name == pgqueue.ActionDelete}
	var err error
	if b.Filter, err = parseFilter(values); err != nil {
		return nil, err
	}
	if values.Get("scope") == "selection" && len(b.Filter.IDs) == 0 {
		return nil, badRequest("No job is selected. Tick some in the list, or act on all that match.")
	}
	if kind.Spreads {
		if b.Spread, err = durationIn(values, "spread"); err != nil {
			return nil, err
		}
	}
	if b.Pause, err = durationIn(values, "pause"); err != nil {
		return nil, err
	}
	if b.Pause > time.Minute {
		return nil, &pgqueue.ValidationError{Field: "pause", Message: "must be at most 1m"}
	}
	if b.Batch, err = numberIn(values, "batch", strconv.Atoi); err != nil {
		return nil, err
	}
	if kind.Due {
		if b.DueAt, err = parseTime("new_due", values.Get("new_due"), time.Now()); err != nil {
			return nil, err
		}
	}
	if kind.Priority {
		b.NewPriority = pgqueue.PriorityFresh
		if values.Get("new_priority") != "" {
			if b.NewPriority, err = numberIn(values, "new_priority", strconv.Atoi); err != nil {
				return nil, err
			}
		}
	}
	if b.narrow() != nil {
		return nil, badRequest(fmt.Sprintf("%s is for jobs that are %s, and none of these states is meant.", b.Verb, stateWords(b.can)))
	}
	return b, nil
}

// durationIn reads a duration that may be left out, which is 0.
func durationIn(values url.Values, name string) (time.Duration, error) {
	text := strings.TrimSpace(values.Get(name))
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, &pgqueue.ValidationError{Field: name, Message: fmt.Sprintf("must be a duration such as 10m or 1h30m, is %q", text)}
	}
	return d, nil
}

// stateWords are states in a sentence: "failed or dead".
func stateWords(states []pgqueue.JobState) string {
	words := make([]string, len(states))
	for n, state := range states {
		words[n] = string(state)
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// query is the bulk action as an address has it.
func (b *bulk) query() url.Values {
	values := filterQuery(b.Filter)
	if b.Spared {
		values.Add("state", string(pgqueue.JobRunning))
	}
	values.Set("action", string(b.Name))
	for name, d := range map[string]time.Duration{"spread": b.Spread, "pause": b.Pause} {
		if d > 0 {
			values.Set(name, d.String())
		}
	}
	if b.Batch != 0 {
		values.Set("batch", strconv.Itoa(b.Batch))
	}
	if !b.DueAt.IsZero() {
		values.Set("new_due", b.DueAt.UTC().Format(time.RFC3339Nano))
	}
	if b.Priority {
		values.Set("new_priority", strconv.Itoa(b.NewPriority))
	}
	if b.Running {
		values.Set("running", "yes")
	}
	if b.Resume != "" {
		values.Set("resume", b.Resume)
	}
	return values
}

// formField is a hidden field.
type formField struct{ Name, Value string }

// hidden are the fields of the form that nobody changes: the filter, and where to go on.
func (b *bulk) hidden() []formField {
	values := filterQuery(b.Filter)
	if len(b.Filter.States) == 0 { // without any state, the form would mean all of them
		values.Set("state", string(pgqueue.JobRunning))
	}
	values.Set("action", string(b.Name))
	if b.Resume != "" {
		values.Set("resume", b.Resume)
	}
	var fields []formField
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, value := range values[name] {
			fields = append(fields, formField{name, value})
		}
	}
	return fields
}

// formChoice is an option of a <select>.
type formChoice struct {
	Value, Label string
	Selected     bool
}

// durationChoices are the durations among which a form lets choose, and the one that was asked for.
func durationChoices(asked time.Duration, none string, offered ...time.Duration) []formChoice {
	choices := []formChoice{{"", none, asked == 0}}
	if asked > 0 && !slices.Contains(offered, asked) {
		offered = append(offered, asked)
		slices.Sort(offered)
	}
	for _, d := range offered {
		choices = append(choices, formChoice{d.String(), duration(d), d == asked})
	}
	return choices
}
