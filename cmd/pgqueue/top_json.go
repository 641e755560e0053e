package main

import (
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// topLine is one look as JSON.
type topLine struct {
	At            time.Time    `json:"at"`
	WindowSeconds float64      `json:"window_seconds"`
	More          bool         `json:"more,omitempty"` // the window that was asked for is longer
	Total         activityLine `json:"total"`
	Queues        []topQueue   `json:"queues"`
	Workers       []topWorker  `json:"workers"`
}

// activityLine is what ended lately.
type activityLine struct {
	PerSecond float64      `json:"per_second"`
	Succeeded int          `json:"succeeded"`
	Failed    int          `json:"failed"`
	Dead      int          `json:"dead"`
	Cancelled int          `json:"cancelled"`
	Wait      durationLine `json:"wait_seconds"`
	Run       durationLine `json:"run_seconds"`
}

type durationLine struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	Max float64 `json:"max"`
}

type topQueue struct {
	queueLine
	Activity activityLine `json:"activity"`
}

type topWorker struct {
	ID     string                 `json:"id"`
	State  string                 `json:"state"`
	SeenAt time.Time              `json:"seen_at"`
	Queues map[string]workerQueue `json:"queues"`
}

func newTopLine(report *topReport) topLine {
	line := topLine{
		At: report.At.UTC(), WindowSeconds: report.Activity.Until.Sub(report.Activity.Since).Seconds(), More: report.Activity.More,
		Total: newActivityLine(report.Activity.Total), Queues: []topQueue{}, Workers: []topWorker{},
	}
	for n := range report.Queues {
		q := &report.Queues[n]
		line.Queues = append(line.Queues, topQueue{newQueueLine(q), newActivityLine(report.Activity.Queue(q.Queue))})
	}
	for n := range report.Workers {
		w := &report.Workers[n]
		line.Workers = append(line.Workers, topWorker{w.ID, workerState(w), w.SeenAt.UTC(), newWorkerQueues(w)})
	}
	return line
}

func newActivityLine(q pgqueue.QueueActivity) activityLine {
	return activityLine{
		PerSecond: q.PerSecond, Succeeded: q.Succeeded, Failed: q.Failed, Dead: q.Dead, Cancelled: q.Cancelled, Wait: newDurationLine(q.Wait), Run: newDurationLine(q.Run),
	}
}

func newDurationLine(d pgqueue.Durations) durationLine {
	return durationLine{P50: d.P50.Seconds(), P95: d.P95.Seconds(), Max: d.Max.Seconds()}
}
