package outbox

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/runner"
)

// maxRows bounds one statement.
const maxRows = 2000

// rejectedDelay is how long a row waits at least after its end was refused; its own backoff did not expect that.
const rejectedDelay = time.Second

// item is one verdict on its way.
type item struct {
	position int
	token    *claimToken
	verdict  string // as the statements know it
	delay    time.Duration
	bound    *int64
	started  bool
	failure  *runner.Failure
	result   *string
	outcome  runner.Outcome // 0: not known yet
	rejected bool
}

// verdicts are the names of decisions in the statements.
func verdictOf(d runner.Decision) (string, bool) {
	switch d {
	case runner.Succeed:
		return "success", true
	case runner.Retry:
		return "retry", true
	case runner.Confirm:
		return "confirm", true
	case runner.Fail:
		return "fail", true
	case runner.Cancel:
		return "cancel", true
	case runner.Snooze:
		return "snooze", true
	case runner.Release:
		return "release", true
	}
	return "", false
}

// Report stores verdicts in few statements: successes without a result in a fast one, and the rest in another; what these leave
// out is looked at. Rows are written in the order of their keys and never waited for, so batches cannot deadlock.
//
// Of two verdicts with the same token the first counts and the second is [runner.Lost]. Where a part of the batch was
// stored before an error, Report answers for that part, and [runner.Busy] for the rest.
func (q *Queue[P, R]) Report(ctx context.Context, verdicts []runner.Verdict[R]) ([]runner.Outcome, error) {
	outcomes := make([]runner.Outcome, len(verdicts))
	slab, items := make([]item, len(verdicts)), make([]*item, 0, len(verdicts))
	seen := make(map[*claimToken]bool, len(verdicts))
	for i := range verdicts {
		if err := q.fill(&slab[i], i, &verdicts[i]); err != nil {
			return nil, q.wrap("report", err)
		}
		if seen[slab[i].token] {
			outcomes[i] = runner.Lost
			continue
		}
		seen[slab[i].token] = true
		items = append(items, &slab[i])
	}
	slices.SortFunc(items, func(a, b *item) int { return slices.Compare(a.token.key, b.token.key) })

	err := q.settle(ctx, items)
	stored := false
	for _, item := range items {
		outcomes[item.position] = item.outcome
		stored = stored || item.outcome != 0
		if item.outcome > runner.Busy {
			q.held.drop(item.token)
		}
	}
	if err == nil {
		return outcomes, nil
	}
	if !stored {
		return nil, q.wrap("report", err)
	}
	q.log.WarnContext(ctx, "outbox: a part of the verdicts was not stored and will be sent again", brief(err))
	for i, outcome := range outcomes {
		if outcome == 0 {
			outcomes[i] = runner.Busy
		}
	}
	return outcomes, nil
}

// fill checks and translates one verdict.
func (q *Queue[P, R]) fill(next *item, position int, v *runner.Verdict[R]) error {
	token, ok := q.asToken(v.Token)
	if !ok {
		return fmt.Errorf("verdict %d: token %v is not from this queue", position, v.Token)
	}
	verdict, ok := verdictOf(v.Decision)
	if !ok {
		return fmt.Errorf("verdict %d: unknown decision %d", position, v.Decision)
	}
	*next = item{position: position, token: token, verdict: verdict, delay: max(v.Delay, 0), started: v.Started, failure: v.Failure}
	if v.MaxAttempts > 0 {
		bound := int64(v.MaxAttempts)
		next.bound = &bound
	}
	switch {
	case verdict == "success":
		next.failure = nil
		if v.Result != nil && q.table.Result.Name != "" {
			text, err := q.encode(*v.Result)
			if err != nil || strings.ContainsRune(text, 0) {
				next.reject(CodeResultRejected, fmt.Sprintf("the result of type %T cannot be encoded", *v.Result))
				return nil
			}
			next.result = &text
		}
	case next.failure == nil && verdict == "cancel" && q.table.Status.Cancelled == "":
		next.failure = &runner.Failure{Code: CodeCancelled}
	case next.failure == nil && (verdict == "retry" || verdict == "fail" || verdict == "confirm"):
		next.failure = &runner.Failure{Code: runner.CodeError}
	case verdict == "snooze" || verdict == "release":
		next.failure = nil
	}
	return nil
}

// encodeDefault writes a result as JSON, or as it is where it is text for a text column.
func encodeDefault[R any](columnType string) func(R) (string, error) {
	return func(result R) (string, error) {
		if text, ok := any(result).(string); ok && columnType == "text" {
			return text, nil
		}
		text, err := json.Marshal(result)
		return string(text), err
	}
}

// reject turns an item that cannot be stored into a failed attempt. It returns false when that was done before.
func (i *item) reject(code, why string) bool {
	if i.rejected {
		return false
	}
	i.verdict, i.result, i.started, i.rejected = "retry", nil, true, true
	i.delay, i.failure = max(i.delay, rejectedDelay), &runner.Failure{Code: code, Message: why}
	return true
}

func open(i *item) bool { return i.outcome == 0 }

// where are those of items that keep answers true for.
func where(items []*item, keep func(*item) bool) (kept []*item) {
	for _, item := range items {
		if keep(item) {
			kept = append(kept, item)
		}
	}
	return kept
}

// settle finds the outcome of items; those it could not settle before an error stay 0.
func (q *Queue[P, R]) settle(ctx context.Context, items []*item) error {
	asked := where(items, func(i *item) bool { return i.verdict == "confirm" })
	if err := q.confirm(ctx, asked); err != nil {
		return err
	}
	plain := where(items, func(i *item) bool { return open(i) && i.verdict == "success" && i.result == nil })
	if err := q.parts(ctx, plain, q.succeed); err != nil {
		return err
	}
	rest := func(i *item) bool { return open(i) && (i.verdict != "success" || i.result != nil) }
	if err := q.parts(ctx, where(items, rest), q.report); err != nil {
		return err
	}
	// What was rejected on the way is a failed attempt now.
	if err := q.parts(ctx, where(items, func(i *item) bool { return open(i) && i.rejected }), q.report); err != nil {
		return err
	}
	return q.leftOut(ctx, where(items, open))
}

// parts sends items in bounded parts. A part that is refused because of one of its rows is halved until that row is
// alone; its verdict becomes a failed attempt. If that is refused too, the row is given up: sending it again would
// change nothing, and a worker whose verdicts are not stored soon has no place for other rows.
func (q *Queue[P, R]) parts(ctx context.Context, items []*item, send func(context.Context, []*item) error) error {
	for part := range slices.Chunk(items, maxRows) {
		if err := q.part(ctx, part, send); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue[P, R]) part(ctx context.Context, part []*item, send func(context.Context, []*item) error) error {
	err := send(ctx, part)
	switch {
	case !refused(err):
		return err
	case len(part) > 1:
		if err := q.part(ctx, part[:len(part)/2], send); err != nil {
			return err
		}
		return q.part(ctx, part[len(part)/2:], send)
	}
	q.counts.rejected.Add(1)
	code := CodeVerdictRejected
	if part[0].result != nil {
		code = CodeResultRejected
	}
	if part[0].reject(code, why(err)) {
		if ok, suppressed := q.complaints.next("verdict", time.Now()); ok {
			q.log.ErrorContext(ctx, "outbox: the end of an attempt was refused; that counts as a failed attempt", "task", part[0].token.String(),
				brief(err), suppressed)
		}
		q.refusal(ctx, part[0].token.row(), err)
		return nil // sent again as such
	}
	part[0].outcome = runner.Lost
	q.suspend(ctx, part[0].token.key, err)
	return nil
}

// claimed adds the fence of items to a statement's parameters.
func (q *Queue[P, R]) claimed(tokens []*claimToken) args {
	given := args{}
	for i := range q.table.Key {
		column := make([]string, len(tokens))
		for j, t := range tokens {
			column[j] = t.key[i]
		}
		given[keyArg(i)] = column
	}
	attempts := make([]int64, len(tokens))
	for i, t := range tokens {
		attempts[i] = t.attempts
	}
	given["attempts"] = attempts
	if q.table.Token != "" {
		random := make([]string, len(tokens))
		for i, t := range tokens {
			random[i] = t.random
		}
		given["token"] = random
		return given
	}
	at := make([]pgtype.Timestamptz, len(tokens))
	for i, t := range tokens {
		at[i] = t.attemptedAt
	}
	given["attempted_at"] = at
	return given
}

func tokens(items []*item) []*claimToken {
	found := make([]*claimToken, len(items))
	for i, item := range items {
		found[i] = item.token
	}
	return found
}

// succeed writes successes without results.
func (q *Queue[P, R]) succeed(ctx context.Context, part []*item) error {
	var written []int64
	err := q.do(ctx, "success", q.claimed(tokens(part)), func(rows pgx.Rows) (err error) {
		written, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	if err != nil {
		return err
	}
	for _, at := range written {
		part[at-1].outcome = runner.Succeeded
	}
	return nil
}

// report writes verdicts of any kind.
func (q *Queue[P, R]) report(ctx context.Context, part []*item) error {
	given := q.claimed(tokens(part))
	n := len(part)
	verdict, delay, bound := make([]string, n), make([]int64, n), make([]*int64, n)
	started, code, message, result := make([]bool, n), make([]*string, n), make([]*string, n), make([]*string, n)
	for i, item := range part {
		verdict[i], delay[i], bound[i], started[i], result[i] = item.verdict, item.delay.Microseconds(), item.bound, item.started, item.result
		if f := item.failure; f != nil {
			text := f.Message
			if q.table.ErrorCode == "" { // it has no column of its own
				text = strings.TrimSuffix(f.Code+": "+f.Message, ": ")
			}
			code[i], message[i] = &f.Code, &text
		}
	}
	given["verdict"], given["delay_us"], given["bound"], given["started"] = verdict, delay, bound, started
	given["code"], given["message"], given["result"], given["max"] = code, message, result, int64(q.config.MaxAttempts)

	type answer struct {
		at   int64
		fate string
	}
	var answers []answer
	err := q.do(ctx, "report", given, func(rows pgx.Rows) (err error) {
		answers, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a answer, err error) { return a, row.Scan(&a.at, &a.fate) })
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range answers {
		part[a.at-1].outcome = q.outcome(a.fate)
	}
	return nil
}

// outcome translates what a statement answered.
func (q *Queue[P, R]) outcome(fate string) runner.Outcome {
	switch fate {
	case "success":
		return runner.Succeeded
	case "retry":
		return runner.Retrying
	case "fail":
		return runner.Failed
	case "dead":
		return runner.Dead
	case "snooze":
		return runner.Snoozed
	case "release":
		return runner.Released
	}
	if q.table.Status.Cancelled == "" {
		return runner.Failed
	}
	return runner.Cancelled
}

// look asks which claims still stand; running by position, absent if the claim does not stand.
func (q *Queue[P, R]) look(ctx context.Context, tokens []*claimToken) (map[int]bool, error) {
	found := make(map[int]bool, len(tokens))
	err := q.do(ctx, "look", q.claimed(tokens), func(rows pgx.Rows) error {
		clear(found)
		var at int64
		var running bool
		_, err := pgx.ForEachRow(rows, []any{&at, &running}, func() error {
			found[int(at-1)] = running
			return nil
		})
		return err
	})
	return found, err
}

// confirm answers the questions among items. A claim that still stands is a transaction that did not commit: a failed
// attempt. It may also be one that has not ended; then the row is locked, and the failed attempt comes back Busy.
func (q *Queue[P, R]) confirm(ctx context.Context, items []*item) error {
	for part := range slices.Chunk(items, maxRows) {
		found, err := q.look(ctx, tokens(part))
		if err != nil {
			return err
		}
		for i, item := range part {
			if _, stands := found[i]; stands {
				item.verdict = "retry"
			} else {
				item.outcome = runner.Succeeded
			}
		}
	}
	return nil
}

// leftOut tells what is locked from what is lost.
func (q *Queue[P, R]) leftOut(ctx context.Context, items []*item) error {
	for part := range slices.Chunk(items, maxRows) {
		found, err := q.look(ctx, tokens(part))
		if err != nil {
			return err
		}
		for i, item := range part {
			running, stands := found[i]
			item.outcome = runner.Lost
			if stands && (running || item.verdict == "success") {
				item.outcome = runner.Busy
			}
		}
	}
	return nil
}

// byKey orders tokens as statements should lock them.
func byKey(a, b *claimToken) int {
	return cmp.Or(slices.Compare(a.key, b.key), cmp.Compare(a.attempts, b.attempts))
}
