package jobstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/runner"
)

// What a queue keeps of its successes.
const (
	historyFull = "full"
	historySlim = "slim" // without the payload
	historyOff  = "off"
)

// One statement takes at most so many verdicts, and so many bytes of results and messages.
const (
	maxRows  = 5000
	maxBytes = 4 << 20
)

// parts sends items in statements of bounded size.
func (q *Queue) parts(ctx context.Context, items []*item, send func(context.Context, []*item) error) error {
	for len(items) > 0 {
		n, size := 0, 0
		for n < len(items) && n < maxRows {
			if size += items[n].size(); size > maxBytes && n > 0 {
				break
			}
			n++
		}
		if err := q.halves(ctx, items[:n], send); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

// size is about what item adds to a statement.
func (i *item) size() int {
	size := 64
	if i.result != nil {
		size += len(*i.result)
	}
	if i.failure != nil {
		size += len(i.failure.Message)
	}
	return size
}

// halves sends items, and where Postgres refuses the data of one, sends them in halves until that one is alone. It then
// counts as a failed attempt, and the others are stored.
func (q *Queue) halves(ctx context.Context, items []*item, send func(context.Context, []*item) error) error {
	err := send(ctx, items)
	if noPartition(err) {
		if err = q.ensureHistory(ctx, 0); err == nil {
			err = send(ctx, items)
		}
	}
	if err == nil || !refused(err) {
		return err
	}
	if len(items) > 1 {
		middle := len(items) / 2
		if err := q.halves(ctx, items[:middle], send); err != nil {
			return err
		}
		return q.halves(ctx, items[middle:], send)
	}
	if !items[0].reject("Postgres refused it with SQLSTATE " + sqlState(err)) {
		return err
	}
	// The text may quote what was to be stored.
	row := items[0].row
	q.log.WarnContext(ctx, "pgqueue: a verdict was refused and counts as a failed attempt", "job", row.ID, "kind", row.Kind,
		"attempt", row.Attempt, "sqlstate", sqlState(err))
	q.log.DebugContext(ctx, "pgqueue: text of a refusal", "job", row.ID, "error", err)
	return nil
}

// refused tells an error about the data of a row from one about the statement or the server: data exceptions,
// constraints, and limits on the size of one value.
func refused(err error) bool {
	state := sqlState(err)
	return strings.HasPrefix(state, "22") || strings.HasPrefix(state, "23") || strings.HasPrefix(state, "54")
}

// noPartition tells that history has no partition for today. Upkeep makes them two weeks ahead; where it could not, a
// completion makes the one it needs.
func noPartition(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "23514" && pgErr.TableName == "history" && pgErr.ConstraintName == ""
}

// complete ends plain successes: first those whose rows lie where their claims left them, then those that lie elsewhere by now.
func (q *Queue) complete(ctx context.Context, items []*item, history string) error {
	inPlace := where(items, func(i *item) bool { return open(i) && i.row.inPlace() })
	if err := q.completeInPlace(ctx, inPlace, history); err != nil {
		return err
	}
	if items = where(items, open); len(items) == 0 {
		return nil
	}
	ids, attempts := fences(items)
	sql, args := q.sql.complete, []any{q.config.Name, ids, attempts, history == historySlim}
	if history == historyOff {
		sql, args = q.sql.completeForget, args[:3]
	}
	return q.succeeded(ctx, items, sql, args)
}

// completeInPlace ends those of items whose rows nobody has written since their claims.
func (q *Queue) completeInPlace(ctx context.Context, items []*item, history string) error {
	if len(items) == 0 {
		return nil
	}
	ids, attempts := fences(items)
	places := make([]pgtype.TID, len(items))
	for i, item := range items {
		places[i] = item.row.place
	}
	sql, args := q.sql.completeAt, []any{q.config.Name, ids, attempts, places, history == historySlim}
	if history == historyOff {
		sql, args = q.sql.forgetAt, args[:4]
	}
	return q.succeeded(ctx, items, sql, args)
}

// revive turns successes that came back lost into what they are, where the reaper had declared their attempt dead.
func (q *Queue) revive(ctx context.Context, items []*item) error {
	ids, attempts := fences(items)
	results, histories := make([]*string, len(items)), make([]string, len(items))
	for i, item := range items {
		results[i], histories[i] = item.result, item.row.history()
	}
	return q.succeeded(ctx, items, q.sql.revive, []any{q.config.Name, ids, attempts, results, histories})
}

// finish runs finish and put_back in one transaction and one round trip.
func (q *Queue) finish(ctx context.Context, items []*item) error {
	ids, attempts := fences(items)
	n := len(items)
	verdicts, histories := make([]string, n), make([]string, n)
	delays, bounds := make([]*int64, n), make([]*int32, n)
	codes, messages, results := make([]*string, n), make([]*string, n), make([]*string, n)
	for i, item := range items {
		verdicts[i], results[i], histories[i] = word(item.verdict), item.result, item.row.history()
		if item.verdict == runner.Retry || item.verdict == runner.Snooze {
			delay := int64((item.delay + time.Microsecond - 1) / time.Microsecond)
			if item.delay > maxDelay {
				delay = int64(maxDelay / time.Microsecond)
			}
			delays[i] = &delay
		}
		if item.bound > 0 {
			bound := int32(min(item.bound, math.MaxInt32))
			bounds[i] = &bound
		}
		if item.failure != nil {
			code, message := safe(item.failure.Code), safe(item.failure.Message)
			codes[i], messages[i] = &code, &message
		}
	}
	args := []any{q.config.Name, ids, attempts, verdicts, delays, codes, messages, results, histories, bounds}

	var found map[fence]runner.Outcome
	var back []putBack
	err := q.do(ctx, func(s session) error {
		found, back = make(map[fence]runner.Outcome, n), nil
		batch := q.batch()
		batch.Queue(q.sql.finish, args...).Query(func(rows pgx.Rows) error {
			var at fence
			var state string
			_, err := pgx.ForEachRow(rows, []any{&at.id, &at.attempt, &state}, func() error {
				found[at] = ended(state)
				return nil
			})
			return err
		})
		batch.Queue(q.sql.putBack, args...).Query(func(rows pgx.Rows) error {
			var at fence
			var state string
			var row putBack
			_, err := pgx.ForEachRow(rows, []any{&at.id, &at.attempt, &state, &row.priority, &row.at.runAt}, func() error {
				found[at] = ended(state)
				row.at.id = at.id
				back = append(back, row)
				return nil
			})
			return err
		})
		return s.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return err
	}
	for _, item := range items {
		item.outcome = found[item.fence()]
	}
	for _, row := range back {
		q.marks.lower(row.priority, row.at)
	}
	return nil
}

// putBack is where a job now stands in line.
type putBack struct {
	priority int16
	at       mark
}

// maxDelay keeps a due time inside what a timestamptz holds.
const maxDelay = 200 * 365 * 24 * time.Hour

// word is the statements' name of a decision. Confirm has none: it was decided before.
func word(decision runner.Decision) string {
	switch decision {
	case runner.Succeed:
		return "success"
	case runner.Retry:
		return "retry"
	case runner.Fail:
		return "fail"
	case runner.Cancel:
		return "cancel"
	case runner.Snooze:
		return "snooze"
	case runner.Release:
		return "release"
	default:
		return ""
	}
}

// ended is the outcome that a statement names.
func ended(state string) runner.Outcome {
	switch state {
	case "succeeded":
		return runner.Succeeded
	case "superseded":
		return runner.Superseded
	case "cancelled":
		return runner.Cancelled
	case "failed":
		return runner.Failed
	case "dead":
		return runner.Dead
	case "retry":
		return runner.Retrying
	case "snooze":
		return runner.Snoozed
	case "release":
		return runner.Released
	default:
		return 0
	}
}

// safe is text without what Postgres refuses. The runner has seen to that already; here it costs nothing to be sure.
func safe(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}

func (r *Row) history() string {
	if r.History == "" {
		return historyFull
	}
	return r.History
}

func ids(items []*item) []int64 {
	all := make([]int64, len(items))
	for i, item := range items {
		all[i] = item.row.ID
	}
	return all
}

func fences(items []*item) (ids []int64, attempts []int32) {
	ids, attempts = make([]int64, len(items)), make([]int32, len(items))
	for i, item := range items {
		ids[i], attempts[i] = item.row.ID, int32(item.row.Attempt)
	}
	return ids, attempts
}

// succeeded runs a statement that answers with id and attempt, and notes the success of those of items that it names. items
// are in the order of their fences, as Report and everything below it keeps them.
func (q *Queue) succeeded(ctx context.Context, items []*item, sql string, args []any) error {
	var done []fence
	err := q.do(ctx, func(s session) error {
		done = make([]fence, 0, len(items))
		rows, err := s.Query(ctx, sql, q.statement(args...)...)
		if err != nil {
			return err
		}
		done, err = readFences(rows, done)
		return err
	})
	if err != nil {
		return err
	}
	if !slices.IsSortedFunc(done, cmpFence) { // RETURNING has no order, but as a rule that of the ids
		slices.SortFunc(done, cmpFence)
	}
	for _, item := range items {
		at := item.fence()
		for len(done) > 0 && cmpFence(done[0], at) < 0 {
			done = done[1:]
		}
		if len(done) > 0 && done[0] == at {
			item.outcome = runner.Succeeded
		}
	}
	return nil
}

// readFences appends the rows of an answer of id and attempt to fences.
func readFences(rows pgx.Rows, fences []fence) ([]fence, error) {
	defer rows.Close()
	var scan scanner
	binaryFormat := false
	for rows.Next() {
		values := rows.RawValues()
		if scan.types == nil {
			scan = newScanner(rows)
			binaryFormat = scan.binary(pgtype.Int8OID, pgtype.Int4OID)
		}
		var at fence
		if binaryFormat {
			at.id, at.attempt = int64(binary.BigEndian.Uint64(values[0])), int(int32(binary.BigEndian.Uint32(values[1])))
		} else if err := errors.Join(scan.value(0, values[0], &at.id), scan.value(1, values[1], &at.attempt)); err != nil {
			return nil, err
		}
		fences = append(fences, at)
	}
	return fences, rows.Err()
}

// looked is what look says about a job.
type looked struct {
	attempt                   int
	running, open, superseded bool
}

// look reads how jobs stand, without locking. An id that is missing in the answer is no live job.
func (q *Queue) look(ctx context.Context, ids []int64) (map[int64]looked, error) {
	slices.Sort(ids)
	var found map[int64]looked
	err := q.do(ctx, func(s session) error {
		found = make(map[int64]looked, len(ids))
		rows, err := s.Query(ctx, q.sql.look, q.statement(q.config.Name, ids)...)
		if err != nil {
			return err
		}
		var id int64
		var row looked
		_, err = pgx.ForEachRow(rows, []any{&id, &row.attempt, &row.running, &row.open, &row.superseded}, func() error {
			found[id] = row
			return nil
		})
		return err
	})
	return found, err
}

func cmpFence(a, b fence) int {
	return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.attempt, b.attempt))
}
