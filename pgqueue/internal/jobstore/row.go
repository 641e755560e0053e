package jobstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/runner"
)

// Row is one claimed job, and the token of its claim: (ID, Attempt) is the fence of every verdict. It is not changed
// after the claim, but for what isCompleting and inPlace tell, so it may be read by any goroutine.
type Row struct {
	ID            int64
	Queue         string
	Kind          string
	Key, Revision *string // nil = none
	Priority      int16

	// RunAt, CreatedAt and ClaimedAt are the database's times. An infinite one, which only SQL by hand can write, is
	// the zero time.
	RunAt, CreatedAt, ClaimedAt time.Time

	Attempt     int // claims so far, this one included
	Failures    int // attempts that failed before
	MaxAttempts int
	Generation  int // the number of the input that this claim was given

	Payload, Metadata json.RawMessage
	Tags              []string

	// History is the queue's setting when the job was claimed, "full", "slim" or "off". Completion follows it without
	// asking again; empty means "full".
	History string

	// place is where the claim left the row in its table; see complete_at. Invalid: not known.
	place pgtype.TID
	moved uint32 // 1 once a renewal has written the row anew, elsewhere

	// completing is 1 once CompleteTx has completed the job in a transaction whose end is not known here.
	completing uint32
	reported   uint32 // 1 once the handler has said how far it is; see SetReported
}

// setCompleting notes that the handler has completed the job in a transaction of its own.
func (r *Row) setCompleting() { atomic.StoreUint32(&r.completing, 1) }

// isCompleting tells whether setCompleting was called.
func (r *Row) isCompleting() bool { return atomic.LoadUint32(&r.completing) == 1 }

// setMoved notes that the row no longer lies where its claim left it.
func (r *Row) setMoved() { atomic.StoreUint32(&r.moved, 1) }

// inPlace tells whether the row may still lie where its claim left it.
func (r *Row) inPlace() bool { return r.place.Valid && atomic.LoadUint32(&r.moved) == 0 }

var _ runner.Token = (*Row)(nil)

// String names the claim, for logs and errors.
func (r *Row) String() string { return fmt.Sprintf("job %d attempt %d", r.ID, r.Attempt) }

// envelope is what a claim says beside its rows.
type envelope struct {
	now         pgtype.Timestamptz // when the claim's transaction began
	pausedUntil pgtype.Timestamptz // valid: the queue is paused
	pausedKinds *string            // see readHolds
	hides       bool               // jobs of the kinds that were asked for are paused
	took        int64              // µs that the scan took on the server
}

// claimedRow is one row of a claim's answer.
type claimedRow struct {
	row *Row
	at  int64 // run_at as stored, infinity included, as micros counts
	err error // why the row cannot be used
}

// mark is the row's place in the index.
func (c claimedRow) mark() mark {
	at := mark{runAt: pgtype.Timestamptz{Valid: true}, id: c.row.ID}
	switch c.at {
	case math.MaxInt64:
		at.runAt.InfinityModifier = pgtype.Infinity
	case math.MinInt64:
		at.runAt.InfinityModifier = pgtype.NegativeInfinity
	default:
		at.runAt.Time = time.UnixMicro(c.at)
	}
	return at
}

// sortClaimed puts rows in the order in which they should start: RETURNING has none. Rows of the same instant, as a bulk
// insert makes them, go by id.
func sortClaimed(rows []claimedRow, classes []int16) {
	place := func(priority int16) int {
		if i := slices.Index(classes, priority); i >= 0 {
			return i
		}
		return len(classes)
	}
	slices.SortFunc(rows, func(a, b claimedRow) int {
		if a.row.Priority != b.row.Priority {
			return cmp.Compare(place(a.row.Priority), place(b.row.Priority))
		}
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		return cmp.Compare(a.row.ID, b.row.ID)
	})
}

// finite is t, or the zero time for an infinite one.
func finite(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time
}

// micros orders database times, which count in microseconds, with the infinite ones at the ends.
func micros(t pgtype.Timestamptz) int64 {
	switch t.InfinityModifier {
	case pgtype.Infinity:
		return math.MaxInt64
	case pgtype.NegativeInfinity:
		return math.MinInt64
	default:
		return t.Time.UnixMicro()
	}
}
