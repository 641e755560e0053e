package console

import (
	"strconv"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// fact is a line of a <dl>.
type fact struct{ Label, Value string }

const (
	factIDs     = 20  // numbers of jobs that are spelled out
	factPayload = 500 // bytes of a payload
)

// filterFacts are the conditions of a filter, one by one, for people. What payloads have to contain is shown as far as payloads are.
func (r *request) filterFacts(f pgqueue.Filter) []fact {
	var facts []fact
	add := func(label, value string) {
		if value != "" {
			facts = append(facts, fact{label, value})
		}
	}
	add("State", stateWords(f.States))
	add("Queue", f.Queue)
	add("Kind", f.Kind)
	add("Key", f.Key)
	add("Tags", strings.Join(f.Tags, ", "))
	if f.Priority != 0 {
		add("Priority", strconv.Itoa(f.Priority))
	}
	if f.IDs != nil {
		add("Jobs", idWords(f.IDs))
	}
	if f.MinID != 0 {
		add("From job", strconv.FormatInt(f.MinID, 10))
	}
	if f.MaxID != 0 {
		add("Up to job", strconv.FormatInt(f.MaxID, 10))
	}
	add("Created", rangeWords(f.Created))
	add("Ended", rangeWords(f.Finished))
	add("Due", rangeWords(f.Due))
	add("Error code", f.ErrorCode)
	add("Payload contains", r.shown(Redaction{Kind: f.Kind, Queue: f.Queue, Field: "payload"}, f.Payload, factPayload).Text)
	add("Worker", f.ClaimedBy)
	return facts
}

// idWords are numbers of jobs, the first few of them.
func idWords(ids []int64) string {
	if len(ids) == 0 {
		return "none"
	}
	words := make([]string, 0, factIDs)
	for _, id := range ids[:min(len(ids), factIDs)] {
		words = append(words, strconv.FormatInt(id, 10))
	}
	text := strings.Join(words, ", ")
	if more := len(ids) - len(words); more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// rangeWords is a span of time in words; empty: it is open on both sides.
func rangeWords(span pgqueue.TimeRange) string {
	text := ""
	if !span.From.IsZero() {
		text = "from " + timeWords(span.From)
	}
	if !span.To.IsZero() {
		text += " before " + timeWords(span.To)
	}
	return strings.TrimSpace(text)
}

func timeWords(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }
