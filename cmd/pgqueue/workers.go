package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// workersCommand is the group about worker processes.
func (a *app) workersCommand() *cobra.Command {
	group := &cobra.Command{Use: "workers", Short: "Show the processes that work", Aliases: []string{"worker"}}
	group.AddCommand(a.workersListCommand())
	return group
}

// workerLine is a worker process as JSON.
type workerLine struct {
	ID        string                        `json:"id"`
	Host      string                        `json:"host"`
	PID       int                           `json:"pid"`
	Version   string                        `json:"version,omitempty"`
	State     string                        `json:"state"` // alive, stopping or gone
	StartedAt time.Time                     `json:"started_at"`
	SeenAt    time.Time                     `json:"seen_at"`
	Queues    map[string]workerQueue        `json:"queues"`
	Kinds     map[string]pgqueue.WorkerKind `json:"kinds"`
}

// workerQueue is a queue of a worker process as JSON: one that is not paused says nothing of a pause.
type workerQueue struct {
	pgqueue.WorkerQueue
	PausedUntil time.Time `json:"paused_until,omitzero"`
}

func newWorkerQueues(w *pgqueue.WorkerReport) map[string]workerQueue {
	queues := make(map[string]workerQueue, len(w.Queues))
	for name, queue := range w.Queues {
		queues[name] = workerQueue{queue, queue.PausedUntil}
	}
	return queues
}

// workerState is one word for how a worker process is.
func workerState(w *pgqueue.WorkerReport) string {
	switch {
	case !w.Alive:
		return "gone"
	case w.Stopping:
		return "stopping"
	}
	return "alive"
}

func (a *app) workersListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Worker processes, what they serve and how busy they are", Args: cobra.NoArgs, Aliases: []string{"ls"},
		Long: `Worker processes that have reported themselves within the last hour. A process that died without a word is "gone"; its jobs come back when their
leases have run out, at most 35 seconds later at defaults.`,
		Example: `  pgqueue workers list`,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx := command.Context()
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.close()
			workers, err := s.inspector.Workers(ctx)
			if err != nil {
				return err
			}
			if a.flags.json {
				lines := make([]workerLine, len(workers))
				for n := range workers {
					w := &workers[n]
					lines[n] = workerLine{
						ID: w.ID, Host: w.Host, PID: w.PID, Version: w.Version, State: workerState(w), StartedAt: w.StartedAt.UTC(), SeenAt: w.SeenAt.UTC(),
						Queues: newWorkerQueues(w), Kinds: w.Kinds,
					}
				}
				return a.writeJSON(lines)
			}
			if len(workers) == 0 {
				a.notef("no worker process has reported itself within the last hour")
			}
			now, err := (&databaseClock{pool: s.pool}).now(ctx)
			if err != nil {
				return err
			}
			rows := make([][]string, len(workers))
			for n := range workers {
				rows[n] = workerRow(&workers[n], now)
			}
			return a.writeTable([]string{"WORKER", "STATE", "HOST", "PID", "VERSION", "UP", "SEEN", "QUEUES (BUSY/SLOTS)", "KINDS"}, rows)
		},
	}
}

func workerRow(w *pgqueue.WorkerReport, now time.Time) []string {
	kinds := slices.Sorted(maps.Keys(w.Kinds))
	const most = 5
	if len(kinds) > most {
		kinds = append(kinds[:most:most], fmt.Sprintf("and %d more", len(kinds)-most))
	}
	return []string{
		w.ID, workerState(w), w.Host, fmt.Sprint(w.PID), w.Version, span(w.SeenAt.Sub(w.StartedAt)), distance(w.SeenAt, now), busyText(w), strings.Join(kinds, ", "),
	}
}

// busyText says how many of its slots a worker process uses, by queue.
func busyText(w *pgqueue.WorkerReport) string {
	parts := make([]string, 0, len(w.Queues))
	for _, queue := range slices.Sorted(maps.Keys(w.Queues)) {
		q := w.Queues[queue]
		part := fmt.Sprintf("%s %d/%d", queue, q.InFlight, q.Workers)
		if q.Stuck > 0 {
			part += fmt.Sprintf(" (%d stuck)", q.Stuck)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
