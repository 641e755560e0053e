package jobstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

// Codes of failures that this package records by itself.
const (
	// CodeNotCommitted marks an attempt whose handler completed its job in a transaction that did not commit.
	CodeNotCommitted = "tx_not_committed"
	// CodeResultRejected marks an attempt whose result Postgres cannot store.
	CodeResultRejected = "result_rejected"
	// CodeVerdictRejected replaces a verdict that Postgres refused for another reason than its result, such as a
	// trigger of the application's.
	CodeVerdictRejected = "verdict_rejected"
)

// rejectedDelay is how long a job waits after a rejection; its own backoff did not expect one.
const rejectedDelay = time.Second

// item is one verdict on its way.
type item struct {
	position int
	row      *Row
	verdict  runner.Decision
	result   *string
	delay    time.Duration
	bound    int // of the runner; 0: none
	failure  *runner.Failure
	outcome  runner.Outcome // 0 = not known yet
	rejected bool
	asked    bool // by a Confirm that became a Retry
}

// fence is the key under which the statements answer.
type fence struct {
	id      int64
	attempt int
}

func (i *item) fence() fence { return fence{i.row.ID, i.row.Attempt} }

// Report stores verdicts in few statements. Successes without a result take one fast statement, and a second where rows have moved; what they leave out
// joins the other verdicts in finish and put_back, one transaction; what these leave out is looked at. Rows are written
// in order of id and never waited for, so batches cannot deadlock.
//
// Of two verdicts with the same token the first counts and the second is [runner.Lost]. Where a part of the batch was
// stored before an error, Report answers for that part, and [runner.Busy] for the rest.
func (q *Queue) Report(ctx context.Context, verdicts []runner.Verdict[json.RawMessage]) ([]runner.Outcome, error) {
	outcomes := make([]runner.Outcome, len(verdicts))
	slab, items := make([]item, len(verdicts)), make([]*item, len(verdicts))
	for i := range verdicts {
		if err := q.fill(&slab[i], i, &verdicts[i]); err != nil {
			return nil, q.wrap("report", err)
		}
		items[i] = &slab[i]
	}
	slices.SortFunc(items, func(a, b *item) int {
		if a.row.ID != b.row.ID {
			return cmp.Compare(a.row.ID, b.row.ID)
		}
		return cmp.Or(cmp.Compare(a.row.Attempt, b.row.Attempt), cmp.Compare(a.position, b.position))
	})
	first := items[:0]
	for _, item := range items {
		if n := len(first); n > 0 && first[n-1].fence() == item.fence() {
			outcomes[item.position] = runner.Lost
			continue
		}
		first = append(first, item)
	}
	items = first
	q.tellReturning(ctx, items)
	q.sealMessages(ctx, items)

	err := q.settle(ctx, items)
	q.tellEnds(items)
	stored := false
	for _, item := range items {
		outcomes[item.position] = item.outcome
		stored = stored || item.outcome != 0
	}
	if err == nil {
		return outcomes, nil
	}
	if !stored {
		return nil, q.wrap("report", err)
	}
	q.log.WarnContext(ctx, "pgqueue: a part of the verdicts was not stored and will be sent again", "error", err)
	for i, outcome := range outcomes {
		if outcome == 0 {
			outcomes[i] = runner.Busy
		}
	}
	return outcomes, nil
}

// sealMessages encodes what handlers say of their failures, and the runner of them. What is said here, of a verdict that Postgres
// refused, holds nothing of theirs.
func (q *Queue) sealMessages(ctx context.Context, items []*item) {
	if q.config.Seal == nil {
		return
	}
	// A codec that does not answer must leave time to store the verdicts: without their messages, then.
	ctx, cancel := third(ctx)
	defer cancel()
	for _, item := range items {
		if item.failure == nil || item.rejected {
			continue
		}
		sealed := *item.failure
		if sealed.Text != "" {
			sealed.Message = sealed.Text
		}
		sealed.Message = q.config.Seal(ctx, item.row.Kind, safe(sealed.Message))
		item.failure = &sealed
	}
}

// fill checks and translates one verdict.
func (q *Queue) fill(next *item, position int, verdict *runner.Verdict[json.RawMessage]) error {
	row, ok := verdict.Token.(*Row)
	if !ok || row == nil {
		return fmt.Errorf("verdict %d: a token of type %T is not from this queue", position, verdict.Token)
	}
	if row.Queue != q.config.Name {
		return fmt.Errorf("verdict %d: %s belongs to queue %q", position, row, row.Queue)
	}
	*next = item{position: position, row: row, verdict: verdict.Decision, delay: max(verdict.Delay, 0),
		bound: verdict.MaxAttempts}
	switch verdict.Decision {
	case runner.Succeed:
		if verdict.Result != nil && len(*verdict.Result) > 0 && row.History != historyOff {
			text := string(*verdict.Result)
			next.result = &text
			if !storable(text) {
				next.reject("not valid JSON for Postgres")
			}
		}
	case runner.Retry, runner.Fail, runner.Confirm:
		next.failure = verdict.Failure
		if next.failure == nil {
			next.failure = &runner.Failure{Code: "unknown"}
			if verdict.Decision == runner.Confirm {
				next.failure = &runner.Failure{Code: CodeNotCommitted}
			}
		}
	case runner.Cancel:
		next.failure = verdict.Failure
	case runner.Snooze, runner.Release:
	default:
		return fmt.Errorf("verdict %d: unknown decision %d", position, verdict.Decision)
	}
	return nil
}

// reject turns an item that cannot be stored into a failed attempt. It returns false when that was done before.
func (i *item) reject(why string) bool {
	if i.rejected {
		return false
	}
	code := CodeVerdictRejected
	if i.result != nil {
		code = CodeResultRejected
	}
	*i = item{position: i.position, row: i.row, verdict: runner.Retry, delay: max(i.delay, rejectedDelay),
		bound:   i.bound,
		failure: &runner.Failure{Code: code, Message: why}, rejected: true}
	return true
}

// settle finds the outcome of items; those it could not settle before an error stay 0.
func (q *Queue) settle(ctx context.Context, items []*item) error {
	if err := q.confirm(ctx, items); err != nil {
		return err
	}
	for _, history := range []string{historyFull, historySlim, historyOff} {
		plain := where(items, func(i *item) bool {
			return i.outcome == 0 && i.verdict == runner.Succeed && i.result == nil && i.row.history() == history
		})
		send := func(ctx context.Context, part []*item) error { return q.complete(ctx, part, history) }
		if err := q.parts(ctx, plain, send); err != nil {
			return err
		}
	}
	if err := q.parts(ctx, where(items, open), q.finish); err != nil {
		return err
	}
	// What was rejected on the way is a failed attempt now.
	if err := q.parts(ctx, where(items, func(i *item) bool { return open(i) && i.rejected }), q.finish); err != nil {
		return err
	}
	if err := q.leftOut(ctx, where(items, open)); err != nil {
		return err
	}
	lost := where(items, func(i *item) bool { return i.outcome == runner.Lost && i.verdict == runner.Succeed })
	return q.parts(ctx, lost, q.revive)
}

func open(i *item) bool { return i.outcome == 0 }

// where are those of items that keep answers true for, in their order: often all of them, and then items itself.
func where(items []*item, keep func(*item) bool) []*item {
	for i, item := range items {
		if keep(item) {
			continue
		}
		kept := slices.Clip(items[:i])
		for _, item := range items[i+1:] {
			if keep(item) {
				kept = append(kept, item)
			}
		}
		return kept
	}
	return items
}

// confirm answers the questions among items. A claim that still stands is a transaction that did not commit: the
// question becomes a failed attempt. It may also be one that has not ended; then the row is locked, and the failed attempt
// comes back Busy.
func (q *Queue) confirm(ctx context.Context, items []*item) error {
	asked := where(items, func(i *item) bool { return i.verdict == runner.Confirm })
	for part := range slices.Chunk(asked, maxRows) {
		rows, err := q.look(ctx, ids(part))
		if err != nil {
			return err
		}
		for _, item := range part {
			if row, ok := rows[item.row.ID]; ok && row.attempt == item.row.Attempt && row.open {
				item.verdict, item.asked = runner.Retry, true
			} else {
				item.outcome = runner.Succeeded
			}
		}
	}
	return nil
}

// leftOut tells what is locked from what is lost. A transaction that was asked about and ended since then has succeeded like one that
// had ended before.
func (q *Queue) leftOut(ctx context.Context, items []*item) error {
	for part := range slices.Chunk(items, maxRows) {
		rows, err := q.look(ctx, ids(part))
		if err != nil {
			return err
		}
		for _, item := range part {
			row, ok := rows[item.row.ID]
			ours := ok && row.attempt == item.row.Attempt && row.open && (row.running || item.verdict == runner.Succeed)
			switch {
			case ours:
				item.outcome = runner.Busy
			case item.asked:
				item.outcome = runner.Succeeded
			default:
				item.outcome = runner.Lost
			}
		}
	}
	return nil
}
