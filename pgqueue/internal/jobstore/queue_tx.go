package jobstore

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/runner"
)

// wholeHistory is a margin that keeps every mark before everything, so that each claim scans fully.
const wholeHistory = 100 * 365 * 24 * time.Hour

// QueueTx makes the consumer's side of one queue inside tx, which stays the caller's to end: what is claimed there is
// seen by nobody else, and vanishes with a rollback. Each call runs behind a savepoint of its own, so a statement that
// Postgres refuses leaves tx usable, and is tried in another way as on a pool.
//
// A connection runs one statement at a time, so unlike a [Queue] over a pool this one is not safe for concurrent use. It
// only claims and reports: nobody else can take what tx has locked, which leaves nothing to renew or to recover.
func (s *Store) QueueTx(tx pgx.Tx, config QueueConfig) (runner.Queue[*Row, json.RawMessage], error) {
	if tx == nil {
		return nil, errors.New("jobstore: QueueTx without a transaction")
	}
	// In a transaction the jobs of its own come with any run_at, and nothing is gained by starting behind one.
	config.Margin = wholeHistory
	q, err := s.queue(config)
	if err != nil {
		return nil, err
	}
	// q.fresh stays empty: plans of a short-lived connection do no harm, and the setting that a batch would make for
	// itself would stay in tx behind it.
	q.tx = tx
	return q, nil
}
