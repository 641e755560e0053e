package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/schedule"
)

// scheduleLine is a schedule as JSON.
type scheduleLine struct {
	Schedule    string     `json:"schedule"`
	State       string     `json:"state"` // enabled, disabled, failing, ended or retired
	Spec        string     `json:"spec"`
	TimeZone    string     `json:"time_zone"`
	Kind        string     `json:"kind"`
	Queue       string     `json:"queue"`
	Key         string     `json:"key,omitempty"`
	Priority    int        `json:"priority"`
	MaxAttempts int        `json:"max_attempts"`
	Tags        []string   `json:"tags,omitempty"`
	CatchUp     string     `json:"catch_up"`
	Jitter      float64    `json:"jitter_seconds,omitempty"`
	Dynamic     bool       `json:"dynamic,omitempty"`
	Source      string     `json:"source,omitempty"`
	NextRunAt   *time.Time `json:"next_run_at,omitempty"`
	LastRunAt   *time.Time `json:"last_run_at,omitempty"`
	LastJob     int64      `json:"last_job,omitempty"`
	Failures    int        `json:"failures,omitempty"`
	LastError   string     `json:"last_error,omitempty"`
	RetryAt     *time.Time `json:"retry_at,omitempty"`
	RetiredAt   *time.Time `json:"retired_at,omitempty"`
}

func newScheduleLine(s *schedule.Stored) scheduleLine {
	return scheduleLine{
		Schedule: s.Name, State: scheduleState(s), Spec: s.Spec, TimeZone: s.TimeZone, Kind: s.Kind, Queue: s.Queue, Key: s.Key, Priority: s.Priority,
		MaxAttempts: s.MaxAttempts, Tags: s.Tags, CatchUp: string(s.CatchUp), Jitter: s.Jitter.Seconds(), Dynamic: s.Dynamic, Source: s.Source,
		NextRunAt: timeOrNil(s.NextRunAt), LastRunAt: timeOrNil(s.LastRunAt), LastJob: s.LastJobID, Failures: s.Failures, LastError: s.LastError,
		RetryAt: timeOrNil(s.RetryAt), RetiredAt: timeOrNil(s.RetiredAt),
	}
}

// scheduleDetail is a schedule with its ticks as JSON.
type scheduleDetail struct {
	scheduleLine
	Payload json.RawMessage `json:"payload"`
	Next    []time.Time     `json:"next"`
	Ticks   []scheduleTick  `json:"ticks"`
}

type scheduleTick struct {
	At         time.Time `json:"at"`
	EnqueuedAt time.Time `json:"enqueued_at"`
	Job        int64     `json:"job,omitempty"` // absent: none was wanted
}

func newScheduleDetail(s *schedule.Stored, next []time.Time, past []schedule.PastTick) scheduleDetail {
	detail := scheduleDetail{scheduleLine: newScheduleLine(s), Payload: s.Payload, Next: []time.Time{}, Ticks: []scheduleTick{}}
	for _, at := range next {
		detail.Next = append(detail.Next, at.UTC())
	}
	for _, tick := range past {
		detail.Ticks = append(detail.Ticks, scheduleTick{tick.At.UTC(), tick.EnqueuedAt.UTC(), tick.JobID})
	}
	return detail
}

// writeSchedule writes one schedule for people.
func (a *app) writeSchedule(s *schedule.Stored, next []time.Time, past []schedule.PastTick, now time.Time) error {
	zone, err := schedule.LoadZone(s.TimeZone)
	if err != nil {
		zone = time.UTC // a broken row is shown all the same; LastError says so
	}
	var ticks []string
	for _, at := range next {
		ticks = append(ticks, at.In(zone).Format("Mon 2006-01-02 15:04:05 MST")+" ("+distance(at, now)+")")
	}
	failed := ""
	if s.LastError != "" {
		failed = fmt.Sprintf("%s (%s in a row, next try %s)", s.LastError, plural(s.Failures, "failure", "failures"), timeText(s.RetryAt, now))
	}
	if err := a.writeFacts([][2]string{
		{"schedule", s.Name}, {"state", scheduleState(s)}, {"spec", s.Spec}, {"zone", s.TimeZone}, {"kind", s.Kind}, {"queue", s.Queue}, {"key", s.Key},
		{"priority", fmt.Sprint(s.Priority)}, {"max attempts", fmt.Sprint(s.MaxAttempts)}, {"tags", strings.Join(s.Tags, ", ")},
		{"catch-up", string(s.CatchUp)}, {"registered by", s.Source}, {"payload", string(indented(s.Payload))}, {"error", failed},
		{"last tick", timeText(s.LastRunAt, now)}, {"next ticks", strings.Join(ticks, "\n")},
	}); err != nil {
		return err
	}
	if len(past) == 0 {
		return nil
	}
	rows := make([][]string, len(past))
	for n, tick := range past {
		job := "-"
		if tick.JobID != 0 {
			job = fmt.Sprint(tick.JobID)
		}
		rows[n] = []string{tick.At.UTC().Format("2006-01-02 15:04:05Z"), span(tick.EnqueuedAt.Sub(tick.At)), job}
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	return a.writeTable([]string{"TICK", "ENQUEUED AFTER", "JOB"}, rows)
}
