package console

import (
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// jobEvent is something that happened to a job, or will.
type jobEvent struct {
	State   string // of the mark
	Title   string
	At      time.Time // zero: not known
	Started time.Time
	Took    time.Duration // 0: not known
	Waited  time.Duration // due before it was claimed; 0: not known
	Worker  string
	Code    string
	Message string
	Note    string
}

// jobTimeline tells the life of a job, the earliest first.
func jobTimeline(r *request, job *pgqueue.JobDetail) []jobEvent {
	events := []jobEvent{{State: "info", Title: "Enqueued", At: job.CreatedAt, Note: inputNote(job.Generation)}}
	about := aboutJob(job, "message")
	known := 0 // the number of the latest attempt that was told
	if n := job.ErrorCount - len(job.Failed); n > 0 && len(job.Failed) > 0 {
		known = job.Failed[0].Attempt - 1
		events = append(events, jobEvent{State: "warning", Title: plural(n, "earlier failed attempt", "earlier failed attempts"), Note: "Only the last ten are stored."})
	}
	for n := range job.Attempts {
		attempt := &job.Attempts[n]
		events = append(events, givenBack(known+1, attempt.Number-1)...)
		known = max(known, attempt.Number)
		event := jobEvent{
			State: string(attempt.State), Title: fmt.Sprintf("Attempt %d %s", attempt.Number, attemptWord(attempt.State)), At: attempt.EndedAt,
			Started: attempt.StartedAt, Worker: attempt.Worker, Code: attempt.Code, Message: r.shownMessage(about, attempt.Message),
		}
		if attempt.State == pgqueue.AttemptRunning {
			event.At, event.Started = attempt.StartedAt, time.Time{}
		}
		if !attempt.StartedAt.IsZero() && attempt.EndedAt.After(attempt.StartedAt) {
			event.Took = attempt.EndedAt.Sub(attempt.StartedAt)
		}
		if attempt.Number == job.Attempt && attempt.StartedAt.Equal(job.ClaimedAt) && !job.RunAt.IsZero() && job.ClaimedAt.After(job.RunAt) {
			event.Waited = job.ClaimedAt.Sub(job.RunAt)
		}
		events = append(events, event)
	}
	events = append(events, givenBack(known+1, job.Attempt)...)
	if job.CancelWanted {
		events = append(events, jobEvent{State: "warning", Title: "Asked to stop", Note: "Its worker learns that when it renews the lease."})
	}
	return append(events, jobEnd(job, known)...)
}

// jobEnd is what comes last: the end of the job, or what it waits for.
func jobEnd(job *pgqueue.JobDetail, known int) []jobEvent {
	switch job.State {
	case pgqueue.JobPending:
		switch {
		case job.Failures > 0:
			return []jobEvent{{
				State: "retrying", Title: "Next attempt", At: job.RunAt,
				Note: fmt.Sprintf("%d of at most %d attempts have failed.", job.Failures, job.MaxAttempts),
			}}
		case job.Attempt == 0:
			return []jobEvent{{State: "scheduled", Title: "Due", At: job.RunAt}}
		default:
			return []jobEvent{{State: "scheduled", Title: "Due again", At: job.RunAt}}
		}
	case pgqueue.JobDead:
		return []jobEvent{{State: "dead", Title: "Dead", At: job.FinishedAt, Note: fmt.Sprintf("%d of %d attempts have failed: the budget is spent.", job.Failures, job.MaxAttempts)}}
	case pgqueue.JobFailed:
		return []jobEvent{{State: "failed", Title: "Failed for good", At: job.FinishedAt, Note: "Its handler said that trying again is pointless."}}
	case pgqueue.JobCancelled:
		if known < job.Attempt || len(job.Attempts) == 0 || job.Attempts[len(job.Attempts)-1].State != pgqueue.AttemptCancelled {
			return []jobEvent{{State: "cancelled", Title: "Cancelled", At: job.FinishedAt}}
		}
	}
	return nil // the last attempt says it
}

// givenBack is a gap in the numbers of the attempts that are stored.
func givenBack(from, to int) []jobEvent {
	if from > to {
		return nil
	}
	title := fmt.Sprintf("Attempt %d was given back", from)
	if from < to {
		title = fmt.Sprintf("Attempts %d to %d were given back", from, to)
	}
	return []jobEvent{{State: "info", Title: title, Note: "A snooze, a stop of the worker, or an input that was replaced: it spent nothing, and no more of it is stored."}}
}

func attemptWord(state pgqueue.AttemptState) string {
	if state == pgqueue.AttemptRunning {
		return "is running"
	}
	if state == pgqueue.AttemptCancelled {
		return "was cancelled"
	}
	return string(state)
}

func inputNote(generation int) string {
	if generation <= 1 {
		return ""
	}
	return "Its input has been replaced " + plural(generation-1, "time", "times") + " since."
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
