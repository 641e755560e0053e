package pgqueue

import "time"

// EchoEvery makes the listener of a worker prove more often that it hears.
func (c *WorkerConfig) EchoEvery(every time.Duration) { c.echoEvery = every }

// ReportEvery makes a worker that was not run yet report itself more often than the configuration allows.
func (w *Worker) ReportEvery(every time.Duration) { w.beats.pace = every }

// StandbyWait makes the start of a worker wait less long for a standby.
func (c *WorkerConfig) StandbyWait(wait time.Duration) { c.standbyWait = wait }

// Describe is what the worker would report of itself now.
func (w *Worker) Describe() (queues, kinds string, err error) { return w.beats.describe() }
