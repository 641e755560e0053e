package pgqueue

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/internal/pulse"
)

// How often a worker that was started before its database looks for it, and for how long.
const (
	schemaRetry = time.Second
	// standbyPatience is how long a standby is waited for: a worker that is started during a failover may find the server that will
	// be the primary in a moment, and one that is pointed at a replica by mistake should say so by ending.
	standbyPatience = 30 * time.Second
)

// awaitSchema returns when the schema is there and right. It retries while the database cannot be reached, so that
// worker and database may start in any order.
func (w *Worker) awaitSchema(ctx context.Context) error {
	began, logged := time.Now(), ""
	for {
		err := w.look(ctx)
		if err == nil && logged != "" {
			w.logger.Info("pgqueue: the database answers", "id", w.config.ID)
		}
		if err == nil || !w.mayPass(err, time.Since(began)) {
			return err
		}
		// A standby is told of even if before there was no answer at all: it is another reason.
		if reason := waitReason(err); reason != logged {
			w.logger.Warn("pgqueue: waiting for the database", "id", w.config.ID, "error", err)
			logged = reason
			w.setWaits(safeReason(err))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(schemaRetry):
		}
	}
}

// mayPass tells whether what is wrong with the database may be over soon.
func (w *Worker) mayPass(err error, waited time.Duration) bool {
	var refused *StartError
	var fromServer *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Reason == StartStandby:
		// The next look shall not find the same connection: by then, another server may be where this one was.
		w.stale.refused()
		patience := standbyPatience
		if w.config.standbyWait > 0 {
			patience = w.config.standbyWait
		}
		return waited < patience
	case errors.As(err, &refused), errors.Is(err, ErrInvalid), errors.Is(err, ErrPooler):
		return false
	case errors.As(err, &fromServer):
		return startingUp(fromServer)
	}
	return true
}

// waitReason tells reasons to wait apart.
func waitReason(err error) string {
	if errors.Is(err, ErrReadOnly) {
		return string(StartStandby)
	}
	return "away"
}

// safeReason says why the worker waits, for its health, which anybody may see: of what Postgres, or the network, says it shows no
// words, because these hold addresses and names. A [StartError] is pgqueue's own.
func safeReason(err error) string {
	var refused *StartError
	if errors.As(err, &refused) {
		return refused.Error()
	}
	return pulse.Reason(err)
}

// look looks at the database once. It is bounded, because a database that takes connections and never answers is one that
// cannot be reached.
func (w *Worker) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.config.storageTimeout())
	defer cancel()
	if err := w.client.checkStart(ctx, w.pool); err != nil {
		return err
	}
	return w.client.checkResults(ctx, w.pool, w.results, w.config.Queues)
}

// startingUp tells the errors of a server that will soon answer: class 57 (shutting down, starting up) and 53 (out of
// connections).
func startingUp(err *pgconn.PgError) bool {
	return len(err.Code) == 5 && (err.Code[:2] == "57" || err.Code[:2] == "53")
}

func (w *Worker) setWaits(reason string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.waits = reason
}
