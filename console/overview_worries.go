package console

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/doctor"
	"github.com/pgqueue/pgqueue/pgqueue"
)

const (
	// oldReady is how long a job may be due before the overview speaks of it.
	oldReady = time.Minute
	// maxWorries is how many the page shows.
	maxWorries = 12
	// doctorWorries is how many findings of the doctor are among them.
	doctorWorries = 3
)

// worry is something that needs somebody, in a sentence, with the page that says more.
type worry struct {
	Kind    string // error, warning or info: how bad it is
	Text    string
	Address string
	Link    string
}

// worries are what needs attention, the worst first.
func worries(r *request, seen *overviewSeen) []worry {
	var all []worry
	served := map[string]bool{}
	for n := range seen.workers {
		if w := &seen.workers[n]; w.Alive && !w.Stopping {
			for queue := range w.Queues {
				served[queue] = true
			}
		}
	}
	for n := range seen.queues {
		all = append(all, queueWorries(r, seen, &seen.queues[n], served[seen.queues[n].Queue])...)
	}
	all = append(all, workerWorries(r, seen)...)
	for _, pause := range seen.kinds {
		where := "everywhere"
		if pause.Queue != "" {
			where = "in queue " + quoted(pause.Queue)
		}
		all = append(all, worry{"info", fmt.Sprintf("Kind %s is paused %s%s.", quoted(pause.Kind), where, pauseWords(pause.Until, pause.Reason)), r.url("/kinds", nil), "Paused kinds"})
	}
	if seen.report != nil {
		all = append(all, doctorSays(r, seen.report)...)
	}
	rank := map[string]int{"error": 0, "warning": 1, "info": 2}
	slices.SortStableFunc(all, func(a, b worry) int { return rank[a.Kind] - rank[b.Kind] })
	if len(all) > maxWorries {
		rest := len(all) - maxWorries
		all = append(all[:maxWorries], worry{"info", fmt.Sprintf("And %d more.", rest), r.url("/queues", nil), "Queues"})
	}
	return all
}

// queueWorries are those of one queue.
func queueWorries(r *request, seen *overviewSeen, q *pgqueue.QueueStats, served bool) []worry {
	var all []worry
	name, page := quoted(q.Queue), r.url("/queues/"+segment(q.Queue), nil)
	ready := newCountedQueue(*q, nil, nil).ReadyAll()
	paused := !q.PausedAt.IsZero()
	kind, unhandled := seen.unhandled[q.Queue]
	switch {
	case paused:
		level := "info"
		if ready.N > 0 {
			level = "warning"
		}
		all = append(all, worry{level, fmt.Sprintf("Queue %s is paused%s; %s due.", name, pauseWords(q.PausedUntil, q.PausedReason), jobsAre(ready)), page, "Queue"})
	case ready.N > 0 && !served && seen.workers != nil:
		all = append(all, worry{"error", fmt.Sprintf("No live worker serves queue %s; %s due, the first for %s.", name, jobsAre(ready), duration(q.OldestReady)), page, "Queue"})
	case unhandled:
		all = append(all, worry{
			"error", fmt.Sprintf("Jobs of kind %s are due in queue %s, and no live worker has a handler for it.", quoted(kind), name),
			r.url("/jobs", url.Values{"queue": {q.Queue}, "kind": {kind}, "state": {string(pgqueue.JobPending)}}), "Jobs",
		})
	case q.OldestReady >= oldReady:
		all = append(all, worry{"warning", fmt.Sprintf("Queue %s is behind: %s due, the first for %s.", name, jobsAre(ready), duration(q.OldestReady)), page, "Queue"})
	}
	if q.Expired.N > 0 {
		level, rest := "warning", "The reaper of a live worker takes back such jobs within seconds."
		if !served {
			level, rest = "error", "No live worker of the queue is there to take them back."
		}
		all = append(all, worry{level, fmt.Sprintf("%s of queue %s ran out. %s", countOf(boundedCount{q.Expired}, "lease", "leases"), name, rest), r.jobsIn(q.Queue, string(pgqueue.JobRunning)), "Jobs"})
	}
	if q.Dead.N > 0 {
		all = append(all, worry{"warning", fmt.Sprintf("%s dead in queue %s: all attempts are spent.", jobsAre(boundedCount{q.Dead}), name), r.url("/attention", url.Values{"queue": {q.Queue}}), "Attention"})
	}
	return all
}

// workerWorries are those of the worker processes.
func workerWorries(r *request, seen *overviewSeen) []worry {
	var all []worry
	alive := 0
	for n := range seen.workers {
		worker := &seen.workers[n]
		page := r.url("/workers/"+segment(worker.ID), nil)
		if !worker.Alive {
			all = append(all, worry{"warning", fmt.Sprintf("Worker %s went silent %s ago without saying goodbye.", quoted(worker.ID), duration(seen.at.Sub(worker.SeenAt).Truncate(time.Second))), page, "Worker"})
			continue
		}
		alive++
		stuck := 0
		for _, queue := range worker.Queues {
			stuck += queue.Stuck
		}
		if stuck > 0 {
			all = append(all, worry{"warning", fmt.Sprintf("Worker %s has %s.", quoted(worker.ID), plural(stuck, "handler that does not end although its deadline has passed", "handlers that do not end although their deadlines have passed")), page, "Worker"})
		}
	}
	if alive == 0 && seen.workers != nil && len(seen.queues) > 0 {
		all = append(all, worry{"error", "No live worker process: nothing runs.", r.url("/workers", nil), "Workers"})
	}
	return all
}

// doctorSays are the worst findings of the doctor, but for those that are merely worth knowing.
func doctorSays(r *request, report *doctor.Report) []worry {
	findings := slices.DeleteFunc(slices.Clone(report.Findings), func(f doctor.Finding) bool { return f.Severity < doctor.Warning })
	slices.SortStableFunc(findings, func(a, b doctor.Finding) int { return int(b.Severity) - int(a.Severity) })
	var all []worry
	for n := range findings {
		if n == doctorWorries {
			break
		}
		all = append(all, worry{findings[n].Severity.String(), "Database: " + shortened(findings[n].Summary, 240), r.url("/database", nil), "Database"})
	}
	return all
}

// pauseWords say until when something is paused, and why.
func pauseWords(until time.Time, reason string) string {
	var words strings.Builder
	if !until.IsZero() {
		words.WriteString(" until " + until.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	if reason != "" {
		words.WriteString(" (" + shortened(reason, 120) + ")")
	}
	return words.String()
}

// quoted is a name in a sentence.
func quoted(name string) string { return "“" + shortened(name, 80) + "”" }

func countOf(n boundedCount, one, many string) string {
	if n.N == 1 && !n.More {
		return "1 " + one
	}
	return n.String() + " " + many
}

func jobsAre(n boundedCount) string {
	if n.N == 1 && !n.More {
		return "1 job is"
	}
	return n.String() + " jobs are"
}
