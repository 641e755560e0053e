package console

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// A filter stands in the address of a page, so that it can be bookmarked and sent to somebody. The command line uses the same words
// for its flags.
//
//	state (repeatable), queue, kind, key, tag (repeatable), priority, code, worker, id (repeatable), min_id, max_id,
//	created_from, created_to, finished_from, finished_to, due_from, due_to,
//	payload (JSON) or payload_path and payload_value

// parseFilter reads a filter from an address or a form. What cannot be read is a [*pgqueue.ValidationError] that names the parameter;
// what a [pgqueue.Filter] does not take, its user says.
func parseFilter(values url.Values) (pgqueue.Filter, error) {
	return parseFilterAt(values, time.Now())
}

// parseFilterAt is parseFilter at a time: now is what "-1h" is relative to.
func parseFilterAt(values url.Values, now time.Time) (pgqueue.Filter, error) {
	filter := pgqueue.Filter{
		Queue: values.Get("queue"), Kind: values.Get("kind"), Key: values.Get("key"), ErrorCode: values.Get("code"), ClaimedBy: values.Get("worker"),
	}
	for _, state := range given(values["state"]) {
		if !slices.Contains(filter.States, pgqueue.JobState(state)) {
			filter.States = append(filter.States, pgqueue.JobState(state))
		}
	}
	filter.Tags = given(values["tag"])
	var err error
	if filter.Priority, err = numberIn(values, "priority", strconv.Atoi); err != nil {
		return pgqueue.Filter{}, err
	}
	for _, bound := range []struct {
		name string
		to   *int64
	}{{"min_id", &filter.MinID}, {"max_id", &filter.MaxID}} {
		if *bound.to, err = numberIn(values, bound.name, jobID); err != nil {
			return pgqueue.Filter{}, err
		}
	}
	for _, text := range given(values["id"]) {
		id, err := jobID(text)
		if err != nil {
			return pgqueue.Filter{}, &pgqueue.ValidationError{Field: "id", Message: fmt.Sprintf("must be the number of a job, is %q", text)}
		}
		filter.IDs = append(filter.IDs, id)
	}
	for _, side := range []struct {
		name string
		to   *time.Time
	}{
		{"created_from", &filter.Created.From},
		{"created_to", &filter.Created.To},
		{"finished_from", &filter.Finished.From},
		{"finished_to", &filter.Finished.To},
		{"due_from", &filter.Due.From},
		{"due_to", &filter.Due.To},
	} {
		if *side.to, err = parseTime(side.name, values.Get(side.name), now); err != nil {
			return pgqueue.Filter{}, err
		}
	}
	if filter.Payload, err = parsePayload(values); err != nil {
		return pgqueue.Filter{}, err
	}
	return filter, nil
}

// filterQuery writes a filter as parseFilter reads it. Times are absolute, so that a list can be paged through, and acted on, as it was seen.
func filterQuery(filter pgqueue.Filter) url.Values {
	values := url.Values{}
	for _, state := range filter.States {
		values.Add("state", string(state))
	}
	for _, text := range []struct{ name, value string }{
		{"queue", filter.Queue}, {"kind", filter.Kind}, {"key", filter.Key}, {"code", filter.ErrorCode},
		{"worker", filter.ClaimedBy}, {"payload", string(filter.Payload)},
	} {
		if text.value != "" {
			values.Set(text.name, text.value)
		}
	}
	for _, tag := range filter.Tags {
		values.Add("tag", tag)
	}
	if filter.Priority != 0 {
		values.Set("priority", strconv.Itoa(filter.Priority))
	}
	if filter.IDs != nil && len(filter.IDs) == 0 {
		values.Set("id", "0") // none; without it the filter would mean all
	}
	for _, id := range filter.IDs {
		values.Add("id", strconv.FormatInt(id, 10))
	}
	for name, bound := range map[string]int64{"min_id": filter.MinID, "max_id": filter.MaxID} {
		if bound != 0 {
			values.Set(name, strconv.FormatInt(bound, 10))
		}
	}
	for name, at := range map[string]time.Time{
		"created_from": filter.Created.From, "created_to": filter.Created.To, "finished_from": filter.Finished.From,
		"finished_to": filter.Finished.To, "due_from": filter.Due.From, "due_to": filter.Due.To,
	} {
		if !at.IsZero() {
			values.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return values
}

// parseListOptions reads which page of a list is wanted: order, cursor, limit.
func parseListOptions(values url.Values) (pgqueue.ListOptions, error) {
	limit, err := numberIn(values, "limit", strconv.Atoi)
	if err != nil {
		return pgqueue.ListOptions{}, err
	}
	return pgqueue.ListOptions{Order: pgqueue.ListOrder(values.Get("order")), Cursor: values.Get("cursor"), Limit: limit}, nil
}

// jobID reads the number of a job.
func jobID(text string) (int64, error) {
	id, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err == nil && id < 0 {
		err = strconv.ErrRange
	}
	return id, err
}

// numberIn reads a number that may be left out, which is 0.
func numberIn[T int | int64](values url.Values, name string, parse func(string) (T, error)) (T, error) {
	text := strings.TrimSpace(values.Get(name))
	if text == "" {
		return 0, nil
	}
	n, err := parse(text)
	if err != nil {
		return 0, &pgqueue.ValidationError{Field: name, Message: fmt.Sprintf("must be a number, is %q", text)}
	}
	return n, nil
}

// parseTime reads a time as people and browsers write it: RFC 3339, the same without a zone or without a time of day, which is UTC, or
// how far it is from now: "now", "-1h30m", "+10m", "-7d". Empty is the zero time.
func parseTime(name, text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return time.Time{}, nil
	case text == "now":
		return now, nil
	case text[0] == '-' || text[0] == '+':
		if distance, err := parseDistance(text); err == nil {
			return now.Add(distance), nil
		}
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil && !at.IsZero() { // the zero time would mean none, or now
			return at.UTC(), nil
		}
	}
	return time.Time{}, &pgqueue.ValidationError{
		Field:   name,
		Message: fmt.Sprintf("must be a time such as 2026-01-31T12:00:00Z, 2026-01-31T12:00 (UTC), 2026-01-31, -1h or -7d, is %q", text),
	}
}

// parseDistance reads a duration, also in days.
func parseDistance(text string) (time.Duration, error) {
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseInt(days, 10, 32)
	if err != nil || n < -40_000 || n > 40_000 {
		return 0, fmt.Errorf("%q is no number of days", days)
	}
	distance := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return distance, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 {
		return 0, fmt.Errorf("%q is no rest of a duration", rest)
	}
	if text[0] == '-' {
		more = -more
	}
	return distance + more, nil
}

// parsePayload reads what a payload has to contain: JSON as it is, or a path of members and the value that stands there. A value that is
// JSON is taken as such, with all its digits, and everything else as a string.
func parsePayload(values url.Values) (json.RawMessage, error) {
	whole, path, value := strings.TrimSpace(values.Get("payload")), strings.TrimSpace(values.Get("payload_path")), strings.TrimSpace(values.Get("payload_value"))
	switch {
	case whole != "" && path != "":
		return nil, &pgqueue.ValidationError{Field: "payload_path", Message: "excludes payload: give one of them"}
	case whole != "":
		if !json.Valid([]byte(whole)) {
			return nil, &pgqueue.ValidationError{Field: "payload", Message: `must be JSON that the payload contains, such as {"user": {"id": 7}}`}
		}
		return json.RawMessage(whole), nil
	case path == "" && value != "":
		return nil, &pgqueue.ValidationError{Field: "payload_path", Message: "is missing: where should the value stand?"}
	case path == "":
		return nil, nil
	case value == "":
		return nil, &pgqueue.ValidationError{Field: "payload_value", Message: `is missing; "" means an empty string`}
	}
	document := json.RawMessage(value)
	if !json.Valid(document) {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, &pgqueue.ValidationError{Field: "payload_value", Message: "cannot be written as JSON"}
		}
		document = text
	}
	members := splitPath(path)
	for _, member := range slices.Backward(members) {
		if member == "" {
			return nil, &pgqueue.ValidationError{Field: "payload_path", Message: `must be names with dots between them, such as user.id (\. is a dot in a name)`}
		}
		name, err := json.Marshal(member)
		if err != nil {
			return nil, &pgqueue.ValidationError{Field: "payload_path", Message: "cannot be written as JSON"}
		}
		document = slices.Concat(json.RawMessage("{"), name, json.RawMessage(":"), document, json.RawMessage("}"))
	}
	return document, nil
}

// splitPath cuts at dots that no backslash precedes.
func splitPath(path string) []string {
	members := []string{""}
	escaped := false
	for _, r := range path {
		last := &members[len(members)-1]
		switch {
		case escaped:
			*last += string(r)
			escaped = false
		case r == '\\':
			escaped = true
		case r == '.':
			members = append(members, "")
		default:
			*last += string(r)
		}
	}
	return members
}

// given are the texts that are not empty: forms send their empty fields, too.
func given(texts []string) []string {
	var kept []string
	for _, text := range texts {
		if text != "" {
			kept = append(kept, text)
		}
	}
	return kept
}
