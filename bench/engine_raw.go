package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// The statements that pgqueue ships, copied: a module cannot embed what lies outside of it. A test keeps the copy true.
//
//go:embed raw.sql
var rawStatements string

const (
	rawFetchers = 2
	rawBatch    = 1000
)

// rawEngine is the ceiling: pgqueue's own statements, sent by a bare loop that decodes nothing but the fence, runs no
// handler and renews no lease.
func rawEngine(history bool) engine {
	return engine{
		family: "raw", history: history, settings: fmt.Sprintf("fetchers=%d batch=%d", rawFetchers, rawBatch),
		open: func(ctx context.Context, db *database) (system, error) {
			base, err := openPgqueue(ctx, db.pool, pgqueue.QueueConfig{}, history)
			if err != nil {
				return nil, err
			}
			return &rawSystem{pgqueueSystem: base, history: history}, nil
		},
	}
}

// rawSystem fills and counts as pgqueue does.
type rawSystem struct {
	*pgqueueSystem
	history bool
}

// rawStatement is a section of raw.sql.
func rawStatement(name string) string {
	_, text, _ := strings.Cut(rawStatements, "-- name: "+name+"\n")
	text, _, _ = strings.Cut(text, "-- name: ")
	return strings.ReplaceAll(text, "{schema}", "pgqueue")
}

// work runs the fetchers until all of them find nothing, which is their only end: cancelled, one would leave its claim half done.
func (s *rawSystem) work(ctx context.Context, _ load) (*running, error) {
	var done atomic.Int64
	moved := make(chan struct{}, 1)
	worker := watch(ctx, done.Load, moved, func(ctx context.Context) error {
		var group sync.WaitGroup
		errs := make([]error, rawFetchers)
		for i := range rawFetchers {
			group.Go(func() {
				errs[i] = s.fetch(ctx, func(n int) { done.Add(int64(n)); wake(moved) })
			})
		}
		group.Wait()
		return errors.Join(errs...)
	})
	worker.halt = func(context.Context) error { return nil }
	return worker, nil
}

// fence is what a completion has to name.
type fence struct {
	id      int64
	attempt int32
}

// fetch claims from its own mark and completes, until nothing is left. The other fetcher's claim may hold the lock of a row for
// the moment in which it finds that the row is taken. The completion leaves such a row out, and the next one has it again.
func (s *rawSystem) fetch(ctx context.Context, done func(n int)) error {
	mark, markID := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}, int64(0)
	open := make(map[fence]pgtype.TID, 2*rawBatch)
	for more := true; more || len(open) > 0; {
		if more {
			claimed, last, err := s.claim(ctx, mark, markID)
			if err != nil {
				return err
			}
			for at, place := range claimed {
				open[at] = place
				markID = max(markID, at.id)
			}
			mark, more = last, len(claimed) > 0
		}
		n, err := s.complete(ctx, open)
		if err != nil {
			return err
		}
		done(n)
	}
	return nil
}

// complete takes what it could complete out of open.
func (s *rawSystem) complete(ctx context.Context, open map[fence]pgtype.TID) (done int, err error) {
	ids, attempts, places := make([]int64, 0, len(open)), make([]int32, 0, len(open)), make([]pgtype.TID, 0, len(open))
	for _, at := range slices.SortedFunc(maps.Keys(open), func(a, b fence) int { return cmp.Compare(a.id, b.id) }) {
		ids, attempts, places = append(ids, at.id), append(attempts, at.attempt), append(places, open[at])
	}
	sql, args := rawStatement("complete_forget_at"), []any{pgx.QueryExecModeCacheDescribe, "default", ids, attempts, places}
	if s.history {
		sql, args = rawStatement("complete_at"), append(args, false)
	}
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		values := rows.RawValues()
		delete(open, fence{int64(binary.BigEndian.Uint64(values[0])), int32(binary.BigEndian.Uint32(values[1]))})
		done++
	}
	return done, rows.Err()
}

// claim reads four columns of the answer, in binary. The mark is the latest run_at, and the highest id: fill gives the jobs of
// a batch one run_at, and later batches later ones and higher ids.
func (s *rawSystem) claim(ctx context.Context, mark pgtype.Timestamptz, markID int64) (claimed map[fence]pgtype.TID, last pgtype.Timestamptz, err error) {
	rows, err := s.pool.Query(ctx, rawStatement("claim"), pgx.QueryExecModeCacheDescribe, "default", rawBatch,
		(30 * time.Second).Microseconds(), "raw", []string{"noop"}, []int16{1, 2, 3, 4},
		[]pgtype.Timestamptz{mark, mark, mark, mark}, []int64{markID, markID, markID, markID})
	if err != nil {
		return nil, last, err
	}
	defer rows.Close()
	claimed = make(map[fence]pgtype.TID, rawBatch)
	var latest uint64
	for rows.Next() {
		values := rows.RawValues()
		if values[rawID] == nil {
			continue // the envelope alone
		}
		claimed[fence{int64(binary.BigEndian.Uint64(values[rawID])), int32(binary.BigEndian.Uint32(values[rawAttempt]))}] = pgtype.TID{
			BlockNumber: binary.BigEndian.Uint32(values[rawPlace]), OffsetNumber: binary.BigEndian.Uint16(values[rawPlace][4:]), Valid: true}
		latest = max(latest, binary.BigEndian.Uint64(values[rawRunAt]))
	}
	return claimed, pgtype.Timestamptz{Time: fromMicros(latest), Valid: true}, rows.Err()
}

// Columns of the claim's answer.
const (
	rawID      = 0
	rawAttempt = 1
	rawRunAt   = 4
	rawPlace   = 13
)

// fromMicros is a binary timestamptz: microseconds since 2000.
func fromMicros(n uint64) time.Time {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Microsecond)
}
