package outbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/runner"
)

// A statement over many rows fails as a whole when one of them is refused: by a trigger of the application's that raises, or
// a constraint. Then the rows are taken one by one, and the one that is refused has failed an attempt. If even that
// cannot be written, because every update of the row raises, or every way back to pending, it is left out for a while and
// then to its lease, which is all that can be done.

// refused tells whether an error is one that a row brings about, and not the server, the network, or a lock.
func refused(err error) bool {
	var fromServer *pgconn.PgError
	if !errors.As(err, &fromServer) || strings.HasPrefix(fromServer.Code, "40") { // serialization and deadlocks: nobody's fault
		return false
	}
	return raised(fromServer) || !ofServer(fromServer.Code)
}

const (
	// carefulRows bounds how many rows are claimed one by one.
	carefulRows = 64
	// suspendFor is how long a row is left out that cannot be written at all.
	suspendFor = time.Minute
	// maxSuspects bounds how many are remembered.
	maxSuspects = 1000
)

// Codes of failures that this package records by itself.
const (
	// CodeClaimRejected marks a row that could not be claimed, because the table refused it.
	CodeClaimRejected = "claim_rejected"
	// CodeResultRejected marks an attempt whose result the table refused.
	CodeResultRejected = "result_rejected"
	// CodeVerdictRejected marks an attempt whose end the table refused for another reason than its result.
	CodeVerdictRejected = "verdict_rejected"
	// CodeLeaseExpired marks an attempt whose worker did not report in time.
	CodeLeaseExpired = "lease_expired"
	// CodeCancelled marks a cancelled row where the description has no value for that.
	CodeCancelled = "cancelled"
)

// claimCarefully claims rows one by one, after a claim that one of them made fail.
func (q *Queue[P, R]) claimCarefully(ctx context.Context, given args, limit int, cause error) ([]runner.Task[P], error) {
	if ok, suppressed := q.complaints.next("claim", time.Now()); ok {
		q.log.WarnContext(ctx, "outbox: a row refuses to be claimed; claiming one by one", brief(cause), suppressed)
	}
	keys, err := q.peek(ctx, "peek", given, min(limit, carefulRows))
	if err != nil {
		return nil, err
	}
	var tasks []runner.Task[P]
	for _, key := range keys {
		one := maps.Clone(given)
		one["limit"] = int64(1)
		q.addKey(one, key)
		err := q.do(ctx, "claim_one", one, func(rows pgx.Rows) error {
			got, err := q.readClaim(rows, 1)
			tasks = append(tasks, q.distinct(got)...)
			return err
		})
		switch {
		case refused(err):
			q.reject(ctx, key, err)
		case err != nil && len(tasks) > 0:
			q.log.WarnContext(ctx, "outbox: claiming one by one ended early", brief(err))
			return tasks, nil
		case err != nil:
			return nil, err
		}
	}
	return tasks, nil
}

// peek reads the keys that a statement over many rows would have taken.
func (q *Queue[P, R]) peek(ctx context.Context, name string, given args, limit int) (keys [][]string, err error) {
	given = maps.Clone(given)
	given["limit"] = int64(limit)
	q.addKeys(given, "except_", q.suspended.keys())
	err = q.do(ctx, name, given, func(rows pgx.Rows) error {
		keys = nil
		for rows.Next() {
			key := make([]string, len(q.table.Key))
			for i, value := range rows.RawValues() {
				key[i] = string(value)
			}
			keys = append(keys, key)
		}
		return nil
	})
	return keys, err
}

// reject writes that a claim was refused.
func (q *Queue[P, R]) reject(ctx context.Context, key []string, cause error) {
	q.counts.rejected.Add(1)
	given := args{"max": int64(q.config.MaxAttempts), "message": why(cause), "delay_us": q.config.Backoff.Delay(1).Microseconds()}
	q.addKey(given, key)
	err := q.do(ctx, "reject", given, func(rows pgx.Rows) error { rows.Close(); return nil })
	if err == nil {
		if ok, suppressed := q.complaints.next("reject", time.Now()); ok {
			q.log.ErrorContext(ctx, "outbox: a row refused to be claimed; that was a failed attempt", "row", keyText(key), brief(cause), suppressed)
		}
		q.refusal(ctx, keyText(key), cause)
		return
	}
	q.suspend(ctx, key, err)
}

// suspend leaves a row out for a while.
func (q *Queue[P, R]) suspend(ctx context.Context, key []string, cause error) {
	q.suspended.add(key)
	if ok, suppressed := q.complaints.next("suspend", time.Now()); ok {
		q.log.ErrorContext(ctx, "outbox: a row refuses what has to be written and is left out for now", "row", keyText(key),
			"for", suspendFor, brief(cause), suppressed)
	}
	q.refusal(ctx, keyText(key), cause)
}

// addKey adds one key to a statement's parameters.
func (q *Queue[P, R]) addKey(given args, key []string) {
	for i, part := range key {
		given["one_"+keyArg(i)] = part
	}
}

// addKeys adds keys as arrays, one for each column.
func (q *Queue[P, R]) addKeys(given args, prefix string, keys [][]string) {
	for i := range q.table.Key {
		column := make([]string, len(keys))
		for j, key := range keys {
			column[j] = key[i]
		}
		given[prefix+keyArg(i)] = column
	}
}

// keyArg is the name under which templates know a column of the key.
func keyArg(i int) string { return "k_" + string(rune('a'+i)) }

// suspects are rows that are left out, with the time at which they are tried again.
type suspects struct {
	mu   sync.Mutex
	rows map[string]suspect
}

type suspect struct {
	key   []string
	until time.Time
}

func (s *suspects) add(key []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil || len(s.rows) >= maxSuspects {
		s.rows = map[string]suspect{}
	}
	s.rows[keyText(key)] = suspect{slices.Clone(key), time.Now().Add(suspendFor)}
}

// keys returns the keys of those that are still left out; nil if there are none.
func (s *suspects) keys() (keys [][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, row := range s.rows {
		if time.Now().After(row.until) {
			delete(s.rows, name)
			continue
		}
		keys = append(keys, row.key)
	}
	return keys
}

// counters count what the application should know about and no outcome tells.
type counters struct {
	rejected atomic.Uint64 // claims that a row refused
}
