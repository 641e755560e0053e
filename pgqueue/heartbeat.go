package pgqueue

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/internal/pulse"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

const (
	minHeartbeatEvery = 5 * time.Second
	maxHeartbeatEvery = time.Hour // what the function takes
	// goodbyeTimeout bounds the last statement of a stop, which must not be what a stop waits for.
	goodbyeTimeout = 2 * time.Second
)

// heartbeat keeps the worker's row in the table workers, and asks how many other processes serve its queues, which is what
// their runners make their wait after a hint of, and whether jobs wait that nobody has a handler for. Nothing else depends
// on it: whatever fails here, the work goes on.
//
// It costs three statements an interval, whatever the number of queues.
type heartbeat struct {
	worker  *Worker
	every   time.Duration // as promised in the table
	pace    time.Duration // of the loop: every
	timeout time.Duration // of one statement
	host    string
	pulse   pulse.Pulse

	// The loop's own.
	said     bool            // this run has a row
	warned   map[string]bool // queues with jobs of unknown kinds
	refused  atomic.Bool     // a statement was not allowed, or not there: logged
	failing  bool            // logged
	stopping func() bool
}

func newHeartbeat(w *Worker) *heartbeat {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	if len(host) > maxWorkerIDBytes {
		host = host[:maxWorkerIDBytes]
	}
	every := w.config.heartbeatEvery()
	return &heartbeat{worker: w, every: every, pace: every, timeout: w.config.storageTimeout(), host: host, warned: map[string]bool{}}
}

// run reports at intervals until ctx ends; first after the given wait. It leaves the row to whoever ends it, see leave.
func (h *heartbeat) run(ctx context.Context, first time.Duration, stopping func() bool) {
	defer h.pulse.End()
	h.said, h.stopping = false, stopping
	timer := time.NewTimer(first)
	defer timer.Stop()
	next := time.Now().Add(first)
	for {
		h.pulse.Rest(next)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		h.pulse.Beat()
		h.beat(ctx)
		// Up to a tenth early at random, so that processes that started together drift apart.
		wait := h.pace - rand.N(h.pace/10+1)
		next = time.Now().Add(wait)
		timer.Reset(wait)
	}
}

// beat reports once.
func (h *heartbeat) beat(ctx context.Context) {
	h.pulse.Call()
	err := h.report(ctx)
	switch {
	case err == nil:
		h.pulse.Done(nil)
		if h.failing {
			h.failing = false
			h.worker.logger.Info("pgqueue: the worker reports itself again", "id", h.worker.config.ID)
		}
	case ctx.Err() != nil || notAllowed(err):
		h.pulse.Done(nil) // it will not get better, and is nothing that readiness is about
	default:
		h.pulse.Done(err)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	h.complain(err)
}

// complain logs what is new. A role without the rights is told once; so is the beginning of a row of failures.
func (h *heartbeat) complain(err error) {
	logger := h.worker.logger.With("id", h.worker.config.ID)
	switch {
	case notAllowed(err) && !h.refused.Load():
		h.refused.Store(true)
		logger.Warn("pgqueue: the worker cannot report itself, and works without; docs/roles.md has the GRANT", "error", err)
	case notAllowed(err):
	case !h.failing:
		h.failing = true
		logger.Warn("pgqueue: the worker could not report itself; the work goes on", "error", err)
	default:
		logger.Debug("pgqueue: the worker could not report itself", "error", err)
	}
}

// report writes the row and reads how many others there are.
func (h *heartbeat) report(ctx context.Context) error {
	w := h.worker
	queues, kinds, err := h.describe()
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	err = w.client.store.Heartbeat(limited, w.pool, jobstore.Heartbeat{
		ID: w.config.ID, Host: h.host, PID: os.Getpid(), Version: w.config.Version, Started: !h.said, Every: h.every,
		Stopping: h.stopping(), Queues: queues, Kinds: kinds,
	})
	if err != nil {
		return err
	}
	h.said = true
	asking, cancelAsking := context.WithTimeout(ctx, h.timeout)
	defer cancelAsking()
	peers, err := w.client.store.Peers(asking, w.pool, w.config.ID, w.queueNames())
	if err != nil {
		return err
	}
	for name, run := range w.runners {
		run.SetPeers(peers[name])
	}
	h.lookForUnknown(ctx)
	return nil
}

// lookForUnknown warns once a queue of jobs that no live worker has a handler for. It is an extra, and no failure of it matters.
func (h *heartbeat) lookForUnknown(ctx context.Context) {
	w := h.worker
	queues := slices.DeleteFunc(w.queueNames(), func(queue string) bool { return h.warned[queue] })
	if len(queues) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	unknown, err := w.client.store.UnknownKinds(ctx, w.pool, queues, w.kinds)
	for queue, kind := range unknown {
		h.warned[queue] = true
		w.logger.Warn("pgqueue: jobs are due that no live worker has a handler for", "queue", queue, "kind", kind)
	}
	if err != nil {
		w.logger.Debug("pgqueue: could not look for jobs without a handler", "error", err)
	}
}

// reportedQueue and reportedKind are what stands in the table. A time is of this process's clock.
type reportedQueue struct {
	Workers     int        `json:"workers"`
	InFlight    int        `json:"in_flight"`
	Buffered    int        `json:"buffered"`
	Stuck       int        `json:"stuck"`
	PausedUntil *time.Time `json:"paused_until"`
}

type reportedKind struct {
	Workers  int            `json:"workers"`
	InFlight map[string]int `json:"in_flight"`
	AliasOf  string         `json:"alias_of,omitempty"`
}

// describe is what the worker does now, as JSON. A kind that shares a small queue may have a lower bound there; what stands
// beside its name is the highest.
func (h *heartbeat) describe() (queues, kinds string, err error) {
	w := h.worker
	status := w.Status()
	inQueues := make(map[string]reportedQueue, len(status.Queues))
	ofKinds := make(map[string]reportedKind, len(w.kinds))
	for name, queue := range status.Queues {
		one := reportedQueue{Workers: w.config.Queues[name].workers(), InFlight: queue.InFlight, Buffered: queue.Buffered, Stuck: queue.Stuck}
		if !queue.PausedUntil.IsZero() {
			until := queue.PausedUntil.UTC()
			one.PausedUntil = &until
		}
		inQueues[name] = one
		for _, kind := range queue.Kinds {
			sum, ok := ofKinds[kind.Kind]
			if !ok {
				sum.InFlight = map[string]int{}
			}
			sum.Workers = max(sum.Workers, kind.Workers)
			if kind.Running > 0 {
				sum.InFlight[name] = kind.Running
			}
			ofKinds[kind.Kind] = sum
		}
	}
	for alias, of := range w.aliases {
		kind := ofKinds[of]
		kind.AliasOf = of
		ofKinds[alias] = kind
	}
	first, err := json.Marshal(inQueues)
	if err != nil {
		return "", "", err
	}
	second, err := json.Marshal(ofKinds)
	return string(first), string(second), err
}

// leave removes the row after a clean stop. What it cannot remove is seen to be gone by its age.
func (h *heartbeat) leave() {
	if !h.said {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(h.timeout, goodbyeTimeout))
	defer cancel()
	if err := h.worker.client.store.Goodbye(ctx, h.worker.pool, h.worker.config.ID); err != nil {
		h.worker.logger.Debug("pgqueue: the worker could not say goodbye", slog.String("id", h.worker.config.ID), slog.Any("error", err))
	}
}

// notAllowed tells the errors of a role without the right to report, and of a schema that has no place for it.
func notAllowed(err error) bool {
	var fromServer *pgconn.PgError
	if !errors.As(err, &fromServer) {
		return false
	}
	switch fromServer.Code {
	case "42501", // insufficient privilege
		"42883", // no such function
		"42P01": // no such view
		return true
	}
	return false
}
