package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/reaper"
	"github.com/pgqueue/pgqueue/runner"
)

// What an event can be.
const (
	eventReady     = "ready"     // the worker is made; Worker has its id
	eventListening = "listening" // LISTEN is in force
	eventStart     = "start"     // a handler begins
	eventHeld      = "held"      // a handler has done its writes and waits to be told to go on
	eventFinish    = "finish"    // a handler returns; Err is what, Cause why its context ended, if it has
	eventVerdict   = "verdict"   // the end of a claim that the runner reported; Outcome
	eventReaped    = "reaped"    // this process returned stale leases; Requeued and Dead
	eventStopping  = "stopping"  // the signal to stop has arrived
	eventEnded     = "ended"     // Run or Drain has returned; Err, Claimed (of a drain) and Outcomes
)

// event is one line that a child process prints.
type event struct {
	What     string           `json:"what"`
	Worker   string           `json:"worker,omitempty"`
	Job      int64            `json:"job,omitempty"`
	Kind     string           `json:"kind,omitempty"`
	Attempt  int              `json:"attempt,omitempty"`
	Err      string           `json:"err,omitempty"`
	Cause    string           `json:"cause,omitempty"`
	Outcome  runner.Outcome   `json:"outcome,omitempty"`
	Requeued int              `json:"requeued,omitempty"`
	Dead     int              `json:"dead,omitempty"`
	Claimed  int              `json:"claimed,omitempty"`
	Outcomes *runner.Outcomes `json:"outcomes,omitempty"`
}

// is matches events by what they are.
func is(what string) func(event) bool {
	return func(e event) bool { return e.What == what }
}

// of matches events by what they are and the job they are about.
func of(what string, job int64) func(event) bool {
	return func(e event) bool { return e.What == what && e.Job == job }
}

// voice prints the events of a child process. Each is one write, so that no line is cut when the process is killed.
type voice struct{ mu sync.Mutex }

func (v *voice) say(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		line = fmt.Appendf(nil, `{"what":"unprintable","err":%q}`, err.Error())
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	_, _ = os.Stdout.Write(append(line, '\n')) // nobody listens: the parent is gone, and so are we in a moment
}

// about is an event of a job.
func about(what string, job pgqueue.JobInfo) event {
	return event{What: what, Job: job.ID, Kind: job.Kind, Attempt: job.Attempt}
}

// ListenerConnected implements listener.ConnectedObserver.
func (v *voice) ListenerConnected() { v.say(event{What: eventListening}) }

// VerdictDone implements runner.VerdictObserver.
func (v *voice) VerdictDone(e runner.VerdictEvent) {
	said := event{What: eventVerdict, Kind: e.Kind, Outcome: e.Outcome}
	if _, err := fmt.Sscanf(e.Token.String(), "job %d attempt %d", &said.Job, &said.Attempt); err != nil {
		said.Err = "a token that says " + e.Token.String()
	}
	v.say(said)
}

// ReaperRecovered implements reaper.RecoveredObserver.
func (v *voice) ReaperRecovered(_ string, recovered reaper.Recovered) {
	v.say(event{What: eventReaped, Requeued: recovered.Requeued, Dead: recovered.Dead})
}
