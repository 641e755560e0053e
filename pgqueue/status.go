package pgqueue

import (
	"github.com/pgqueue/pgqueue/listener"
	"github.com/pgqueue/pgqueue/reaper"
	"github.com/pgqueue/pgqueue/runner"
)

// WorkerStatus is what a worker is doing now. It is a copy.
type WorkerStatus struct {
	ID       string // as written to claimed_by
	Running  bool   // Run has been called and has not returned
	Queues   map[string]runner.Status
	Listener *listener.Status // nil when the listener is disabled
	Reaper   reaper.Status
}

// Status tells what the worker is doing now, without asking the database.
func (w *Worker) Status() WorkerStatus {
	w.mutex.Lock()
	status := WorkerStatus{ID: w.config.ID, Running: w.cancel != nil, Queues: make(map[string]runner.Status, len(w.runners))}
	w.mutex.Unlock()
	for name, run := range w.runners {
		status.Queues[name] = run.Status()
	}
	if w.listens != nil {
		listening := w.listens.Status()
		status.Listener = &listening
	}
	status.Reaper = w.reaps.Status()
	return status
}
