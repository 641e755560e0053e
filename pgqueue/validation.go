package pgqueue

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// newInput validates one job and makes what is written of it. Whatever it accepts, Postgres accepts: no job that passed
// leaves the caller's transaction aborted.
func newInput(args Args, options []EnqueueOption, limit int, codecs *codecs) (jobstore.Input, *ValidationError) {
	var in jobstore.Input
	args, zero, err := resolveArgs(args)
	if err != nil {
		return in, err
	}
	s := collectSettings(args, options)
	in.Kind = args.Kind()
	if err := checkName("kind", in.Kind); err != nil {
		return in, err
	}
	if err := s.fill(&in, limit); err != nil {
		return in, err
	}
	if in.Payload, err = encodePayload(args, zero, limit); err != nil {
		return in, err
	}
	if err := reserved("payload", in.Payload); err != nil {
		return in, err
	}
	return in, s.fillUnique(&in, codecs)
}

// fill validates the settings into in.
func (s *enqueueSettings) fill(in *jobstore.Input, limit int) *ValidationError {
	if err := checkName("queue", s.queue); err != nil {
		return err
	}
	in.Queue = s.queue
	if err := s.fillKey(in); err != nil {
		return err
	}
	if err := s.fillDue(in); err != nil {
		return err
	}
	if s.priority < PriorityFresh || s.priority > PriorityCatchUp {
		return invalid("priority", fmt.Sprintf("must be from %d to %d, is %d", PriorityFresh, PriorityCatchUp, s.priority))
	}
	in.Priority = int16(s.priority)
	if s.maxAttempts < 1 || s.maxAttempts > maxMaxAttempts {
		return invalid("max_attempts", fmt.Sprintf("must be from 1 to %d, is %d", maxMaxAttempts, s.maxAttempts))
	}
	in.MaxAttempts = int16(s.maxAttempts)
	if err := checkTags(s.tags); err != nil {
		return err
	}
	in.Tags = s.tags
	var err *ValidationError
	in.Metadata, err = s.encodeMetadata(limit)
	return err
}

func (s *enqueueSettings) fillKey(in *jobstore.Input) *ValidationError {
	if s.key != nil {
		if err := checkText("key", *s.key, maxKeyBytes); err != nil {
			return err
		}
	}
	if s.revision != nil {
		if s.key == nil {
			return invalid("revision", "needs a key")
		}
		if err := checkText("revision", *s.revision, maxKeyBytes); err != nil {
			return err
		}
	}
	in.Key, in.Revision = s.key, s.revision
	return nil
}

func (s *enqueueSettings) fillDue(in *jobstore.Input) *ValidationError {
	if s.due == (due{}) {
		s.due = s.ofType
	}
	if s.runAt != nil && s.delay != nil {
		return invalid("delay", "cannot be combined with run_at")
	}
	if s.delay != nil {
		if *s.delay < 0 || *s.delay > maxDelay {
			return invalid("delay", fmt.Sprintf("must be from 0 to %s, is %s", maxDelay, *s.delay))
		}
		in.Delay = *s.delay
	}
	if s.runAt != nil && !s.runAt.IsZero() {
		at := s.runAt.UTC()
		if year := at.Year(); year < 1 || year > 9999 {
			return invalid("run_at", fmt.Sprintf("must lie in the years 1 to 9999, is in %d", year))
		}
		// Postgres stores microseconds and would round up: a job must not become due in the year 10000.
		at = at.Truncate(time.Microsecond)
		in.RunAt = &at
	}
	return nil
}

// checkTags checks the number of tags and each of them.
func checkTags(tags []string) *ValidationError {
	if len(tags) > maxTags {
		return invalid("tags", fmt.Sprintf("are too many: %d where %d are allowed", len(tags), maxTags))
	}
	for i, tag := range tags {
		if err := checkText(fmt.Sprintf("tags[%d]", i), tag, maxTagBytes); err != nil {
			return err
		}
	}
	return nil
}

// encodeMetadata writes the metadata as a JSON object.
func (s *enqueueSettings) encodeMetadata(limit int) (json.RawMessage, *ValidationError) {
	text, err := s.encodeObject(limit)
	if err != nil || len(s.members) == 0 {
		return text, err
	}
	return s.addMembers(text, limit)
}

// encodeObject writes what WithMetadata gave.
func (s *enqueueSettings) encodeObject(limit int) (json.RawMessage, *ValidationError) {
	const field = "metadata"
	if s.noMetadata() {
		return json.RawMessage(emptyObject), nil
	}
	var (
		text json.RawMessage
		err  *ValidationError
	)
	if raw, ok := s.metadata.(json.RawMessage); ok {
		text, err = rawJSON(field, raw, limit)
	} else {
		text, err = encodeJSON(field, s.metadata, limit)
	}
	if err == nil && text[0] != '{' {
		err = invalid(field, "must be a JSON object")
	}
	return text, err
}

// checkName checks the name of a queue or a kind.
func checkName(field, name string) *ValidationError {
	return checkText(field, name, maxNameBytes)
}

// checkText checks what is stored in a text column: not empty, bounded in bytes, valid UTF-8 without NUL.
func checkText(field, value string, limit int) *ValidationError {
	switch {
	case value == "":
		return invalid(field, "must not be empty")
	case len(value) > limit:
		return invalid(field, fmt.Sprintf("is too long: %d bytes where %d are allowed", len(value), limit))
	case !utf8.ValidString(value):
		return invalid(field, "is not valid UTF-8 (a binary value can be given in hex)")
	case strings.IndexByte(value, 0) >= 0:
		return invalid(field, "holds the character NUL, which Postgres cannot store")
	}
	return nil
}

// isNil tells whether an interface holds nothing or a nil pointer.
func isNil(value any) bool {
	if value == nil {
		return true
	}
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
