package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/internal/jsontext"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// Redaction is what a RedactFunc is asked about: one value that is about to be shown.
type Redaction struct {
	Viewer Identity
	JobID  int64 // 0: of a schedule
	Kind   string
	Queue  string
	// Field is "payload", "metadata", "result", "progress" or "message".
	Field string
}

// RedactFunc returns what may be shown of a value: a JSON document or, where Field is "message", a JSON string. Nil shows nothing of it.
// What was cut for its size is not valid JSON and is not passed: it is shown as its size alone where a RedactFunc is set. It is called
// by many goroutines at once. A panic in it shows nothing of the value, and is logged.
type RedactFunc func(ctx context.Context, about Redaction, value json.RawMessage) json.RawMessage

// withheld stands where a RedactFunc shows nothing.
const withheld = "[redacted]"

// shown is what may be shown of a value: indented, and cut to limit bytes (0: not at all). Text is empty for no value.
func (r *request) shown(about Redaction, value json.RawMessage, limit int) pgqueue.Excerpt {
	if value == nil {
		return pgqueue.Excerpt{}
	}
	value = r.redacted(about, value)
	size := len(value)
	if limit > 0 && size > limit {
		return cut(string(value), size, limit)
	}
	return pgqueue.Excerpt{Text: string(jsontext.Indent(value)), Size: size}
}

// shownExcerpt is what may be shown of a value of which only a beginning may have been read: one of a list, or one of Peek's Cut.
func (r *request) shownExcerpt(about Redaction, value pgqueue.Excerpt) pgqueue.Excerpt {
	switch {
	case r.console.config.Redact == nil || value.Text == "":
		return value
	case value.Cut || value.Sealed != nil: // nothing that the function could judge
		return pgqueue.Excerpt{Cut: true, Size: value.Size}
	}
	value.Text = string(r.redacted(about, json.RawMessage(value.Text)))
	value.Size = len(value.Text)
	return value
}

// shownMessage is what may be shown of an error's message.
func (r *request) shownMessage(about Redaction, message string) string {
	if r.console.config.Redact == nil || message == "" {
		return message
	}
	about.Field = "message"
	quoted, err := json.Marshal(message)
	if err != nil { // a string always is JSON
		return withheld
	}
	text := ""
	if json.Unmarshal(r.redacted(about, quoted), &text) != nil {
		return withheld
	}
	return text
}

// redacted is a whole value as the one who asks may see it. Downloads go through it, too.
func (r *request) redacted(about Redaction, value json.RawMessage) (redacted json.RawMessage) {
	if r.console.config.Redact == nil {
		return value
	}
	about.Viewer = r.identity
	defer func() {
		if p := recover(); p != nil {
			r.console.logger.ErrorContext(r.Context(), "console: Redact panicked", "job", about.JobID, "field", about.Field, "panic", fmt.Sprintf("%T", p))
			redacted = json.RawMessage(`"` + withheld + `"`)
		}
	}()
	redacted = r.console.config.Redact(r.Context(), about, bytes.Clone(value))
	if redacted == nil {
		return json.RawMessage(`"` + withheld + `"`)
	}
	return redacted
}

// cut is the beginning of a text that is too large, and no half character.
func cut(text string, size, limit int) pgqueue.Excerpt {
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return pgqueue.Excerpt{Text: text[:limit], Cut: true, Size: size}
}
