package pgqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// maxWorkersListed bounds [Inspector.Workers].
const maxWorkersListed = 10_000

// QueueNames lists the queues that Queues finds by itself, sorted, at most [MaxStatsQueues], and counts nothing: for a list of many, of
// which only a part is counted.
func (i *Inspector) QueueNames(ctx context.Context) ([]string, error) {
	if err := runsOn(i.q); err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	names, err := i.store.QueueNames(ctx, i.q, MaxStatsQueues)
	return names, explained(err)
}

// Queues counts what queues hold and tells their settings, exactly as [Client.Stats] does; without names it finds the
// queues by itself.
func (i *Inspector) Queues(ctx context.Context, queues ...string) ([]QueueStats, error) {
	return i.QueuesUpTo(ctx, MaxStatsCount, queues...)
}

// QueuesUpTo is Queues with a bound of the caller's, from 1 to [MaxStatsCount], beyond which no number is counted: for a list of many queues
// that is asked for often, where 1,000 and 10,000 are both much, and one costs a tenth of the other.
func (i *Inspector) QueuesUpTo(ctx context.Context, bound int, queues ...string) ([]QueueStats, error) {
	if err := runsOn(i.q); err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	if bound < 1 || bound > MaxStatsCount {
		return nil, fmt.Errorf("list queues: %w", invalid("bound", fmt.Sprintf("must be from 1 to %d, is %d", MaxStatsCount, bound)))
	}
	for n, queue := range queues {
		if err := checkName(fmt.Sprintf("queues[%d]", n), queue); err != nil {
			return nil, fmt.Errorf("list queues: %w", err)
		}
	}
	stats, err := i.client.statsUpTo(ctx, i.q, queues, bound)
	return stats, explained(err)
}

// PauseQueue pauses a queue; see [Client.PauseQueue].
func (i *Inspector) PauseQueue(ctx context.Context, queue, reason string) error {
	return i.audited(ctx, AuditEntry{Action: ActionPause, Queue: queue, Detail: reason}, func(q Querier) error {
		return explained(i.client.PauseQueue(ctx, q, queue, reason))
	})
}

// ResumeQueue ends the pause of a queue; see [Client.ResumeQueue].
func (i *Inspector) ResumeQueue(ctx context.Context, queue string) error {
	return i.audited(ctx, AuditEntry{Action: ActionResume, Queue: queue}, func(q Querier) error {
		return explained(i.client.ResumeQueue(ctx, q, queue))
	})
}

// SetHistory sets what a queue keeps of its successes; see [Client.SetHistory].
func (i *Inspector) SetHistory(ctx context.Context, queue string, history History) error {
	return i.audited(ctx, AuditEntry{Action: ActionSetHistory, Queue: queue, Detail: string(history)}, func(q Querier) error {
		return explained(i.client.SetHistory(ctx, q, queue, history))
	})
}

// WorkerReport is what a worker process says about itself, in its last heartbeat.
type WorkerReport struct {
	ID      string // as in ClaimedBy
	Host    string
	PID     int
	Version string // of the application; empty where it told none

	StartedAt time.Time
	SeenAt    time.Time     // its last heartbeat, by the database's clock
	Every     time.Duration // how often it means to send one
	// Alive is whether its last heartbeat is recent enough; see the view live_workers. Stopping means that it claims nothing
	// more. A process that stops says goodbye and leaves the list; one that died is in it for an hour, not alive.
	Alive    bool
	Stopping bool

	Queues map[string]WorkerQueue
	Kinds  map[string]WorkerKind
}

// WorkerQueue is a queue as one worker process serves it.
type WorkerQueue struct {
	Workers     int       `json:"workers"`   // how many jobs it runs at once at most
	InFlight    int       `json:"in_flight"` // how many it runs now
	Buffered    int       `json:"buffered"`  // how many it has claimed and not started
	Stuck       int       `json:"stuck"`     // how many of those that run are past their deadline and do not end
	PausedUntil time.Time `json:"paused_until"`
}

// WorkerKind is a kind as one worker process serves it.
type WorkerKind struct {
	Workers  int            `json:"workers"`   // how many of a queue it runs at once at most; 0: no bound of its own
	InFlight map[string]int `json:"in_flight"` // how many it runs now, by queue
	AliasOf  string         `json:"alias_of"`  // the kind whose handler serves it
}

// Workers lists the worker processes that have reported themselves during the last hour, by id, at most 10,000. What one
// reports in another form than this version knows is left out.
func (i *Inspector) Workers(ctx context.Context) ([]WorkerReport, error) {
	if err := runsOn(i.q); err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	rows, err := i.store.Workers(ctx, i.q, maxWorkersListed)
	if err != nil {
		return nil, explained(err)
	}
	reports := make([]WorkerReport, len(rows))
	for n, row := range rows {
		reports[n] = WorkerReport{
			ID: row.ID, Host: row.Host, PID: row.PID, Version: row.Version, StartedAt: row.StartedAt, SeenAt: row.SeenAt, Every: row.Every,
			Alive: row.Alive, Stopping: row.Stopping, Queues: members[WorkerQueue](row.QueuesJSON), Kinds: members[WorkerKind](row.KindsJSON),
		}
	}
	return reports, nil
}

// members decodes an object member by member, and leaves out what does not decode.
func members[T any](text string) map[string]T {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) != nil {
		return nil
	}
	decoded := make(map[string]T, len(object))
	for name, member := range object {
		var value T
		if json.Unmarshal(member, &value) == nil {
			decoded[name] = value
		}
	}
	return decoded
}
