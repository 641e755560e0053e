package pgqueue

import "sync/atomic"

// settlement says who completed a job before its handler returned. The zero value means nobody: the runner does, with
// the next batch.
type settlement struct{ state atomic.Int32 }

const (
	// settledByCaller: CompleteTx ran in a transaction that the handler commits, or not. The runner must ask.
	settledByCaller int32 = iota + 1
	// settledByUs: HandleTx saw its own transaction commit. There is nothing left to report.
	settledByUs
	// settledUnknown: the COMMIT of HandleTx was sent and its answer was lost. The runner must ask.
	settledUnknown
)

func (s *settlement) set(state int32) { s.state.Store(state) }
func (s *settlement) get() int32      { return s.state.Load() }
