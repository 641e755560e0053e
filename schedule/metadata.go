package schedule

import (
	"encoding/json"
	"time"
)

// Members of the metadata of a job that a schedule has enqueued.
const (
	metadataSchedule = "schedule"
	metadataTick     = "tick"
)

// TickOf tells which tick a job is for, by its metadata ([pgqueue.JobInfo]): each job of a schedule has the members "schedule" and "tick",
// the latter as RFC 3339 in UTC. ok is false for other jobs, and for those of [Editor.TriggerNow], which are for no tick.
func TickOf(metadata json.RawMessage) (tick Tick, ok bool) {
	var members struct {
		Schedule string    `json:"schedule"`
		Tick     time.Time `json:"tick"`
	}
	if len(metadata) == 0 || json.Unmarshal(metadata, &members) != nil || members.Schedule == "" || members.Tick.IsZero() {
		return Tick{}, false
	}
	return Tick{Schedule: members.Schedule, At: members.Tick.UTC()}, true
}

// stamp is a tick as metadata holds it.
func stamp(tick time.Time) string { return tick.UTC().Format(time.RFC3339Nano) }
