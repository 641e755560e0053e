package pgqueue

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

const (
	bulkScan    = 10_000 // rows that are looked at to find a batch
	bulkRetries = 5      // of a batch that met another transaction
)

// bulkRun is one bulk action under way.
type bulkRun struct {
	inspector *Inspector
	action    bulkAction
	filter    Filter // as the audit log is told
	stored    *jobstore.Filter
	options   BulkOptions
	place     bulkPlace
	size      int // of a batch; becomes smaller where one takes too long
	result    BulkResult
}

// bulkPlace is where a bulk action is; as JSON in base64 it is the cursor.
type bulkPlace struct {
	Version int    `json:"v"`
	Action  Action `json:"a"`
	Filter  string `json:"f"` // a digest: a cursor of another filter would leave jobs out
	After   int64  `json:"i"` // the last number that was looked at
	Until   int64  `json:"u"` // the last number to look at
}

func (p bulkPlace) String() string {
	text, _ := json.Marshal(p) // numbers and short texts: no error
	return base64.RawURLEncoding.EncodeToString(text)
}

// newBulkRun validates everything and finds where to begin and to end.
func (i *Inspector) newBulkRun(ctx context.Context, action bulkAction, filter Filter, options BulkOptions) (*bulkRun, error) {
	if err := runsOn(i.q); err != nil {
		return nil, err
	}
	if _, ok := i.q.(txBeginner); !ok {
		return nil, invalid("querier", "must be a pool or a connection for a bulk action: each batch is a transaction of its own")
	}
	if err := options.check(action); err != nil {
		return nil, err
	}
	if action.fallback != nil {
		if len(filter.States) == 0 {
			filter.States = action.fallback
		}
		for n, state := range filter.States {
			if !slices.Contains(action.fallback, state) {
				return nil, invalid(fmt.Sprintf("filter.states[%d]", n), fmt.Sprintf("is %q, of which there is no %s", string(state), action.name))
			}
		}
	}
	stored, err := filter.check()
	if err != nil {
		return nil, err
	}
	run := &bulkRun{inspector: i, action: action, filter: filter, stored: stored, options: options, size: options.BatchSize}
	if options.DryRun {
		run.size = MaxBulkBatch
	}
	if err := run.begin(ctx); err != nil {
		return nil, err
	}
	if stored.MaxID == nil || *stored.MaxID > run.place.Until {
		stored.MaxID = &run.place.Until
	}
	return run, nil
}

// begin takes the place from the cursor, or begins at the first job.
func (r *bulkRun) begin(ctx context.Context) error {
	digest, err := r.filter.digest()
	if err != nil {
		return err
	}
	r.place = bulkPlace{Version: 1, Action: r.action.name, Filter: digest}
	if r.options.Cursor == "" {
		r.place.Until, err = r.inspector.store.Highest(ctx, r.inspector.q)
		return err
	}
	var from bulkPlace
	raw, err := base64.RawURLEncoding.DecodeString(r.options.Cursor)
	if err != nil || json.Unmarshal(raw, &from) != nil || from.Version != 1 {
		return invalid("options.cursor", "is not one that a bulk action returned")
	}
	if from.Action != r.place.Action || from.Filter != r.place.Filter {
		return invalid("options.cursor", "belongs to another action or filter")
	}
	r.place = from
	return nil
}

// all goes from batch to batch.
func (r *bulkRun) all(ctx context.Context) error {
	for {
		r.result.Cursor = r.place.String()
		size := r.size
		if r.options.Limit > 0 {
			if size = min(size, r.options.Limit-r.result.Matched); size <= 0 {
				return nil
			}
		}
		batch, err := r.inspector.store.Find(ctx, r.inspector.q, r.stored, r.place.After, size, max(bulkScan, size))
		if err != nil {
			return err
		}
		if !r.options.DryRun && len(batch.Targets) > 0 {
			if err := r.act(ctx, batch.Targets); err != nil {
				return err
			}
		}
		r.result.Matched += len(batch.Targets)
		r.place.After = batch.Last
		if batch.More && batch.Last < r.place.Until {
			r.result.Cursor = r.place.String()
		} else {
			r.result.Cursor = ""
		}
		if r.options.Progress != nil {
			told := r.result
			told.Skips = slices.Clone(told.Skips)
			r.options.Progress(told)
		}
		if r.result.Cursor == "" {
			return nil
		}
		if err := pause(ctx, r.options.Pause, len(batch.Targets) > 0 && !r.options.DryRun); err != nil {
			return err
		}
	}
}

// pause waits between two batches, if the last one did anything.
func pause(ctx context.Context, d time.Duration, worked bool) error {
	if d <= 0 || !worked {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// act does the action to targets, all in one transaction. What Postgres refuses because of some of them is done in halves, so
// that in the end each of those stands alone and is skipped: in a batch of a thousand, one bad row costs about twenty
// transactions.
func (r *bulkRun) act(ctx context.Context, targets []jobstore.Target) error {
	var err error
	for range bulkRetries {
		if err = r.once(ctx, targets); err == nil {
			return nil
		}
		if code := postgresCode(err); code != "40001" && code != "40P01" { // it met another transaction
			break
		}
	}
	if ctx.Err() != nil || !splittable(err) {
		return err
	}
	if len(targets) == 1 {
		r.skip(refusal(targets[0].ID, err))
		return nil
	}
	half := len(targets) / 2
	if postgresCode(err) == "57014" {
		r.size = max(1, min(r.size, half))
	}
	if err := r.act(ctx, targets[:half]); err != nil {
		return err
	}
	return r.act(ctx, targets[half:])
}

// once does the action in one transaction, and counts what became of it when that has been committed.
func (r *bulkRun) once(ctx context.Context, targets []jobstore.Target) error {
	var answers []jobstore.Answer
	var left []Skip
	err := r.inspector.inTx(ctx, func(tx pgx.Tx) error {
		var err error
		if answers, err = r.action.do(ctx, tx, targets); err != nil {
			return err
		}
		var done []int64
		for _, answer := range answers {
			if reason, bad := reasonOf(answer.Outcome); bad {
				left = append(left, Skip{ID: answer.ID, Reason: reason, Other: answer.Other})
			} else {
				done = append(done, answer.ID)
			}
		}
		untouched, err := r.untouched(ctx, tx, targets, answers)
		if err != nil {
			return err
		}
		left = append(left, untouched...)
		if len(done) == 0 {
			return nil
		}
		return r.inspector.tell(ctx, tx, AuditEntry{Action: r.action.name, Jobs: done, Filter: &r.filter, Detail: r.action.detail})
	})
	if err != nil {
		return err
	}
	r.result.Batches++
	for _, skip := range left {
		r.skip(skip)
	}
	for _, answer := range answers {
		if _, bad := reasonOf(answer.Outcome); bad {
			continue
		}
		r.result.Done++
		if answer.Outcome == jobstore.CancelRequested {
			r.result.Asked++
		}
	}
	return nil
}

// untouched says why some of the targets got no answer: they have another version by now, or somebody holds them.
func (r *bulkRun) untouched(ctx context.Context, tx pgx.Tx, targets []jobstore.Target, answers []jobstore.Answer) ([]Skip, error) {
	if len(answers) == len(targets) {
		return nil, nil
	}
	answered := make(map[int64]bool, len(answers))
	for _, answer := range answers {
		answered[answer.ID] = true
	}
	type found struct {
		version Version
		live    bool // which table it is in
	}
	missing := map[int64]found{}
	var ids []int64
	for _, target := range targets {
		if !answered[target.ID] {
			missing[target.ID] = found{Version{target.Attempt, target.Generation}, JobState(target.State).Live()}
			ids = append(ids, target.ID)
		}
	}
	now, err := r.inspector.store.Versions(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	reasons := map[int64]SkipReason{}
	for _, job := range now {
		if missing[job.ID] == (found{Version{job.Attempt, job.Generation}, JobState(job.State).Live()}) {
			reasons[job.ID] = SkipLocked
		}
	}
	skips := make([]Skip, len(ids))
	for n, id := range ids {
		skips[n] = Skip{ID: id, Reason: SkipChanged}
		if reason, ok := reasons[id]; ok {
			skips[n].Reason = reason
		}
	}
	return skips, nil
}

// skip counts a job that was left as it was, and names it while there is room.
func (r *bulkRun) skip(skip Skip) {
	r.result.Skipped++
	if len(r.result.Skips) < MaxBulkSkips {
		r.result.Skips = append(r.result.Skips, skip)
	}
}

// reasonOf tells why an outcome is none.
func reasonOf(outcome string) (SkipReason, bool) {
	switch outcome {
	case jobstore.KeyTaken:
		return SkipKeyTaken, true
	case jobstore.StillLive, jobstore.NotFound, jobstore.StillRunning:
		return SkipChanged, true
	default:
		return "", false
	}
}

// splittable tells whether an error may be one job's fault. Those of the session, of rights, of the schema and of the server are
// not, nor is one of the audit log.
func splittable(err error) bool {
	var audit *auditError
	code := postgresCode(err)
	if errors.As(err, &audit) || code == "" {
		return false
	}
	if code == "57014" {
		return true
	}
	return !slices.Contains([]string{"08", "0A", "25", "28", "3D", "3F", "42", "53", "54", "57", "58", "F0", "XX"}, code[:2])
}

// refusal is why Postgres refused one job.
func refusal(id int64, err error) Skip {
	var failed *pgconn.PgError
	if !errors.As(err, &failed) {
		return Skip{ID: id, Reason: SkipRefused}
	}
	switch failed.Code {
	case codeReferenced:
		return Skip{ID: id, Reason: SkipReferenced, Detail: failed.SchemaName + "." + failed.TableName + " (" + failed.ConstraintName + ")"}
	case "55P03":
		return Skip{ID: id, Reason: SkipLocked}
	case "57014":
		return Skip{ID: id, Reason: SkipTimeout}
	default:
		return Skip{ID: id, Reason: SkipRefused, Detail: failed.Code + " " + failed.Message}
	}
}
