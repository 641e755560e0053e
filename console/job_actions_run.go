package console

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// Each of these does one thing to one job as its form says, on the version that the form was made for.

func retryJob(r *request, id int64, version pgqueue.Version) error {
	return r.inspector().Retry(r.Context(), id, pgqueue.IfVersion(version))
}

func cancelJob(r *request, id int64, version pgqueue.Version) error {
	_, err := r.inspector().Cancel(r.Context(), id, pgqueue.IfVersion(version))
	return err
}

// deleteJob deletes a job in the state that the form shows, and one that runs only if the form says that this is known.
func deleteJob(r *request, id int64, version pgqueue.Version) error {
	state := r.PostForm.Get("state")
	if state == "" {
		return badRequest("The form does not say in which state the job was. Nothing was changed.")
	}
	options := []pgqueue.ActionOption{pgqueue.IfVersion(version), pgqueue.IfState(pgqueue.JobState(state))}
	if r.PostForm.Get("running") == "yes" {
		options = append(options, pgqueue.EvenIfRunning())
	}
	return r.inspector().Delete(r.Context(), id, options...)
}

func retryJobWith(r *request, id int64, version pgqueue.Version) error {
	payload, err := postedPayload(r)
	if err != nil {
		return err
	}
	return r.inspector().RetryWith(r.Context(), id, payload, pgqueue.IfVersion(version))
}

func editJob(r *request, id int64, version pgqueue.Version) error {
	payload, err := postedPayload(r)
	if err != nil {
		return err
	}
	_, err = r.inspector().EditPayload(r.Context(), id, payload, pgqueue.IfVersion(version))
	return err
}

// postedPayload is the payload of a form, with all its digits.
func postedPayload(r *request) (json.RawMessage, error) {
	text := r.PostForm.Get("payload")
	if text == "" {
		return nil, &pgqueue.ValidationError{Field: "payload", Message: "is missing; {} is an empty one"}
	}
	var problem *json.SyntaxError
	if err := json.Unmarshal([]byte(text), &json.RawMessage{}); errors.As(err, &problem) {
		return nil, &pgqueue.ValidationError{Field: "payload", Message: "is no JSON: at byte " + strconv.FormatInt(problem.Offset, 10) + ", " + problem.Error()}
	} else if err != nil {
		return nil, &pgqueue.ValidationError{Field: "payload", Message: "is no JSON"}
	}
	return json.RawMessage(text), nil
}

func rescheduleJob(r *request, id int64, version pgqueue.Version) error {
	var at time.Time
	if due := r.PostForm.Get("due"); due != "" && due != "now" {
		var err error
		if at, err = parseTime("due", due, time.Now()); err != nil {
			return err
		}
	}
	return r.ifSeen("reschedule", id, func(inspector *pgqueue.Inspector) error {
		return inspector.Reschedule(r.Context(), id, at, pgqueue.IfVersion(version))
	})
}

func prioritizeJob(r *request, id int64, version pgqueue.Version) error {
	priority, err := numberIn(r.PostForm, "priority", strconv.Atoi)
	if err != nil {
		return err
	}
	return r.ifSeen("priority", id, func(inspector *pgqueue.Inspector) error {
		_, err := inspector.SetPriority(r.Context(), id, priority, pgqueue.IfVersion(version))
		return err
	})
}

func setJobAttempts(r *request, id int64, version pgqueue.Version) error {
	n, err := numberIn(r.PostForm, "max_attempts", strconv.Atoi)
	if err != nil {
		return err
	}
	return r.ifSeen("max-attempts", id, func(inspector *pgqueue.Inspector) error {
		_, err := inspector.SetMaxAttempts(r.Context(), id, n, pgqueue.IfVersion(version))
		return err
	})
}
