package pgqueue

import "context"

// StopNow is [Worker.Stop] without the patience, for the second signal: it has a running Run return within about two
// seconds, also when a stop is under way already. The contexts of running handlers end at once, with the cause
// [runner.ErrStopping]. Jobs whose handlers return within a second are settled as in any stop: with an error they are
// released, due as before and with nothing spent. The others are named in Run's error and left to their leases. Two seconds
// after the call what the database has not answered is given up as well.
//
// It waits until Run has returned, and returns what Run did, or until ctx ends, whose error it then returns. It returns nil
// when the worker does not run.
func (w *Worker) StopNow(ctx context.Context) error {
	w.mutex.Lock()
	cancel := w.cancel
	w.mutex.Unlock()
	if cancel == nil {
		return nil
	}
	w.hurried.Store(true)
	cancel() // first: a runner that has not begun yet begins with an ended context then
	for _, run := range w.runners {
		go func() { _ = run.StopNow(ctx) }() // ends with the runner, which Run waits for, or with ctx
	}
	return w.Stop(ctx)
}
