package jobstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/reaper"
)

// reapState is where the next pass starts: the oldest claim that was open at the last one. It only saves walking dead
// index entries, so every so often a pass starts from the very beginning, in case somebody set claimed_at by hand, or a
// prepared transaction held a claim back.
type reapState struct {
	mu     sync.Mutex
	from   pgtype.Timestamptz
	passes int
}

const fullReapEvery = 120 // passes; ten minutes at the reaper's default interval

// begin says where the next pass starts.
func (r *reapState) begin() pgtype.Timestamptz {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passes%fullReapEvery == 0 {
		r.from = beginning().runAt
	}
	r.passes++
	return r.from
}

// move sets where later passes start.
func (r *reapState) move(from pgtype.Timestamptz) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from = from
}

// Recover returns at most limit jobs whose lease has run out, in one statement. Any number of processes may do so at
// once; each lapse is counted by one of them.
func (q *Queue) Recover(ctx context.Context, limit int) (reaper.Recovered, error) {
	var recovered reaper.Recovered
	var ended []int64
	if limit < 1 {
		return recovered, q.wrap("recovery", errors.New("the limit must be at least 1"))
	}
	from := q.reap.begin()
	pass := func() error {
		return q.do(ctx, func(s session) error {
			recovered, ended = reaper.Recovered{}, nil
			rows, err := s.Query(ctx, q.sql.reap, q.statement(q.config.Name, limit, from)...)
			if err != nil {
				return err
			}
			var id int64
			var fate string
			_, err = pgx.ForEachRow(rows, []any{&id, &fate}, func() error {
				switch fate {
				case "pending":
					recovered.Requeued++
				case "dead":
					recovered.Dead++
					ended = append(ended, id)
				case "superseded":
					recovered.Superseded++
				case "cancelled":
					recovered.Cancelled++
					ended = append(ended, id)
				default:
					return fmt.Errorf("job %d: unknown fate %q", id, fate)
				}
				return nil
			})
			return err
		})
	}
	err := pass()
	if noPartition(err) { // a cancelled job's day
		if err = q.ensureHistory(ctx, 0); err == nil {
			err = pass()
		}
	}
	if err != nil {
		return reaper.Recovered{}, q.wrap("recovery", err)
	}
	if len(ended) > 0 && q.config.Ends != nil && q.config.Ends.Watching() {
		q.config.Ends.Recovered(ended)
	}

	// After a full page there may be more behind it, and the start stays.
	if recovered.Total() < limit {
		var since pgtype.Timestamptz
		if err := q.one(ctx, &since, q.sql.reapFrom, q.config.Name, from); err != nil {
			q.log.WarnContext(ctx, "pgqueue: where the next recovery starts could not be read", "error", err)
			return recovered, nil // what was recovered counts
		}
		q.reap.move(since)
	}
	return recovered, nil
}

// Maintain makes the partitions of history for the next two weeks, drops those that are older than the configured time,
// and deletes old failed and dead jobs, unique keys whose time has passed, and old entries of the audit log, in batches. What is busy is left
// to the next call.
func (q *Queue) Maintain(ctx context.Context) error {
	if err := q.ensureHistory(ctx, daysAhead); err != nil {
		return err
	}
	for range maxDrops {
		var dropped *string
		if err := q.one(ctx, &dropped, q.sql.dropHistory, seconds(q.config.KeepHistory)); err != nil {
			return q.wrap("retention", err)
		}
		if dropped == nil || *dropped == "" {
			break
		}
		q.log.InfoContext(ctx, "pgqueue: dropped expired history", "partition", *dropped)
	}
	for range maxDrops {
		var gone int
		if err := q.one(ctx, &gone, q.sql.expireAttention, seconds(q.config.KeepAttention), expireBatch); err != nil {
			return q.wrap("retention", err)
		}
		if gone < expireBatch {
			break
		}
	}
	if err := q.expireProgress(ctx); err != nil {
		return err
	}
	if err := q.expireUniqueKeys(ctx); err != nil {
		return err
	}
	return q.expireAudit(ctx)
}

const (
	daysAhead   = 14
	maxDrops    = 400 // bounds one call of Maintain; the next goes on
	expireBatch = 1000
)

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// ensureHistory makes the partitions from yesterday to ahead days from now.
func (q *Queue) ensureHistory(ctx context.Context, ahead int) error {
	var made int
	return q.wrap("partitions", q.one(ctx, &made, q.sql.ensureHistory, ahead))
}

// one runs a statement that answers with one value.
func (q *Queue) one(ctx context.Context, dst any, sql string, args ...any) error {
	return q.do(ctx, func(s session) error {
		rows, err := s.Query(ctx, sql, q.statement(args...)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(dst); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// Ping tells whether the database answers. It takes nothing.
func (q *Queue) Ping(ctx context.Context) error {
	return q.wrap("ping", q.pool.Ping(ctx))
}
