package pgqueue

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// MaxFilterIDs is how many jobs a [Filter] may name.
const MaxFilterIDs = 10_000

// Filter says which jobs are meant, live or finished. The zero value means all; a field that is set narrows it, and all
// that are set must hold.
type Filter struct {
	// States are those that are wanted: any of them.
	States []JobState
	Queue  string
	Kind   string
	// Key is the key of the work. The live job of a queue, kind and key is found by index, if States holds only live ones.
	Key string
	// Tags must all be there.
	Tags []string
	// Priority is from 1 to 4; 0 means any.
	Priority int

	// MinID and MaxID bound the numbers of jobs, themselves included; 0 means no bound. IDs names jobs, at most
	// [MaxFilterIDs]; it means any if it is nil, and none if it is empty.
	MinID, MaxID int64
	IDs          []int64

	// Created, Finished and Due bound times, by the database's clock. Only jobs that have ended have a Finished, and Due is
	// when a job becomes due, or did.
	Created, Finished, Due TimeRange

	// ErrorCode is the code of the last attempt that failed; see [FailedAttempt].
	ErrorCode string
	// Payload is JSON that the payload contains in the sense of Postgres's @>: {"user": {"id": 7}} matches each payload that
	// has at least that. Numbers are compared exactly.
	Payload json.RawMessage
	// ClaimedBy is the worker of the latest attempt.
	ClaimedBy string
}

// TimeRange is from a time, included, to another, excluded. A zero time leaves that side open.
type TimeRange struct {
	From, To time.Time
}

// check validates the filter and writes it as jobstore takes it.
func (f *Filter) check() (*jobstore.Filter, error) {
	out := &jobstore.Filter{IDs: f.IDs, Tags: f.Tags}
	for n, state := range f.States {
		if !state.known() {
			return nil, invalid(fmt.Sprintf("filter.states[%d]", n), fmt.Sprintf("is no state of a job: %q", string(state)))
		}
		out.States = append(out.States, string(state))
	}
	for _, text := range []struct {
		field string
		value string
		limit int
		to    **string
	}{
		{"queue", f.Queue, maxNameBytes, &out.Queue},
		{"kind", f.Kind, maxNameBytes, &out.Kind},
		{"key", f.Key, maxKeyBytes, &out.Key},
		{"error_code", f.ErrorCode, maxNameBytes, &out.Code},
		{"claimed_by", f.ClaimedBy, maxKeyBytes, &out.ClaimedBy},
	} {
		if text.value == "" {
			continue
		}
		if err := checkText("filter."+text.field, text.value, text.limit); err != nil {
			return nil, err
		}
		*text.to = &text.value
	}
	if err := checkTags(f.Tags); err != nil {
		err.Field = "filter." + err.Field
		return nil, err
	}
	if len(f.Tags) == 0 {
		out.Tags = nil
	}
	if f.Priority != 0 {
		if f.Priority < PriorityFresh || f.Priority > PriorityCatchUp {
			return nil, invalid("filter.priority", fmt.Sprintf("must be from %d to %d, or 0 for any, is %d", PriorityFresh, PriorityCatchUp, f.Priority))
		}
		priority := int16(f.Priority)
		out.Priority = &priority
	}
	if err := f.checkIDs(out); err != nil {
		return nil, err
	}
	if err := f.checkTimes(out); err != nil {
		return nil, err
	}
	if len(f.Payload) > 0 {
		payload, err := rawJSON("filter.payload", f.Payload, DefaultMaxPayload)
		if err != nil {
			return nil, err
		}
		text := string(payload)
		out.Payload = &text
	}
	return out, nil
}

func (f *Filter) checkIDs(out *jobstore.Filter) error {
	for _, bound := range []struct {
		field string
		value int64
		to    **int64
	}{{"min_id", f.MinID, &out.MinID}, {"max_id", f.MaxID, &out.MaxID}} {
		if bound.value < 0 {
			return invalid("filter."+bound.field, fmt.Sprintf("must not be negative, is %d", bound.value))
		}
		if bound.value > 0 {
			*bound.to = &bound.value
		}
	}
	if f.MaxID > 0 && f.MinID > f.MaxID {
		return invalid("filter.min_id", fmt.Sprintf("is above max_id: %d and %d", f.MinID, f.MaxID))
	}
	if len(f.IDs) > MaxFilterIDs {
		return invalid("filter.ids", fmt.Sprintf("are too many: %d where %d are allowed", len(f.IDs), MaxFilterIDs))
	}
	return nil
}

func (f *Filter) checkTimes(out *jobstore.Filter) error {
	for _, span := range []struct {
		field    string
		value    TimeRange
		from, to **time.Time
	}{
		{"created", f.Created, &out.CreatedFrom, &out.CreatedTo},
		{"finished", f.Finished, &out.FinishedFrom, &out.FinishedTo},
		{"due", f.Due, &out.DueFrom, &out.DueTo},
	} {
		var err error
		if *span.from, *span.to, err = checkRange("filter."+span.field, span.value); err != nil {
			return err
		}
	}
	return nil
}

// only tells whether nothing but these states is wanted.
func (f *Filter) only(states ...JobState) bool {
	return len(f.States) > 0 && !slices.ContainsFunc(f.States, func(s JobState) bool { return !slices.Contains(states, s) })
}

// byNumber tells whether the filter names jobs, or a range of them.
func (f *Filter) byNumber() bool { return f.IDs != nil || f.MinID > 0 || f.MaxID > 0 }

// few tells whether an index may know a small set of jobs that holds all that match.
func (f *Filter) few() bool {
	switch {
	case f.byNumber():
		return false
	case f.only(JobRunning):
		return true
	case f.Queue != "" && f.only(JobPending, JobRunning, JobFailed, JobDead):
		return true
	default:
		return false
	}
}

// known tells whether there is such a state.
func (s JobState) known() bool { return s.Live() || s.ended() }

// ended tells whether it is a state of a job that has ended.
func (s JobState) ended() bool {
	return s == JobSucceeded || s == JobCancelled || s == JobFailed || s == JobDead
}
