package jobstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/runner"
)

// singleStatements are those about single jobs: who awaits them, and how far they have come.
type singleStatements struct {
	tell           string
	awaitLive      string
	awaitRead      string
	progressWrite  string
	progressForget string
	progressRead   string
	expireProgress string
}

func (c *singleStatements) load(found statements) error {
	for name, text := range map[string]*string{
		"tell":            &c.tell,
		"await_live":      &c.awaitLive,
		"await_read":      &c.awaitRead,
		"progress_write":  &c.progressWrite,
		"progress_forget": &c.progressForget,
		"progress_read":   &c.progressRead,
		"expire_progress": &c.expireProgress,
	} {
		var err error
		if *text, err = found.get(name); err != nil {
			return err
		}
	}
	return nil
}

// Ends is told of jobs that have ended for good, after that was written. It is called from the goroutine that wrote it, and
// must not block.
type Ends interface {
	// Watching says whether anybody wants to know. It is asked once for each batch of verdicts.
	Watching() bool
	// Ended is told of jobs that were ended by verdicts.
	Ended(rows []*Row)
	// Recovered is told of jobs that the reaper has ended.
	Recovered(ids []int64)
}

// tellEnds tells of those of items that have ended.
func (q *Queue) tellEnds(items []*item) {
	if q.config.Ends == nil || !q.config.Ends.Watching() {
		return
	}
	var rows []*Row
	for _, item := range items {
		switch item.outcome {
		case runner.Succeeded, runner.Failed, runner.Dead, runner.Cancelled:
			rows = append(rows, item.row)
		default:
		}
	}
	if len(rows) > 0 {
		q.config.Ends.Ended(rows)
	}
}

// tellReturning tells of those of items that may be claimed again as soon as they are written, and have said something.
func (q *Queue) tellReturning(ctx context.Context, items []*item) {
	if q.config.Returning == nil {
		return
	}
	var rows []*Row
	for _, item := range items {
		switch item.verdict {
		case runner.Retry, runner.Snooze, runner.Release, runner.Confirm:
			if item.row.Reported() {
				rows = append(rows, item.row)
			}
		default:
		}
	}
	if len(rows) == 0 {
		return
	}
	ctx, cancel := third(ctx)
	defer cancel()
	q.config.Returning(ctx, rows)
}

// third leaves two thirds of the time that there is to what comes behind.
func third(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/3)
}

// Tell sends one message for each of ids to channel.
func (s *Store) Tell(ctx context.Context, q Querier, channel, word string, ids []int64) error {
	if err := s.discard(ctx, q, s.single.tell, channel, word, ids); err != nil {
		return fmt.Errorf("tell %q of %d jobs: %w", word, len(ids), err)
	}
	return nil
}

// Live tells which of ids are live jobs. The value says that their queue would keep nothing of a success.
func (s *Store) Live(ctx context.Context, q Querier, ids []int64) (map[int64]bool, error) {
	rows, err := q.Query(ctx, s.single.awaitLive, slices.Concat(freshFor(q), []any{ids})...)
	if err != nil {
		return nil, fmt.Errorf("look at %d jobs: %w", len(ids), err)
	}
	live := make(map[int64]bool, len(ids))
	var id int64
	var forgotten bool
	_, err = pgx.ForEachRow(rows, []any{&id, &forgotten}, func() error {
		live[id] = forgotten
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at %d jobs: %w", len(ids), err)
	}
	return live, nil
}

// ReadMany returns those of the jobs that there are, by number, as Read does, from one snapshot.
func (s *Store) ReadMany(ctx context.Context, q Querier, ids []int64) (map[int64]*Record, error) {
	rows, err := q.Query(ctx, s.single.awaitRead, slices.Concat(freshFor(q), []any{ids})...)
	if err != nil {
		return nil, fmt.Errorf("read %d jobs: %w", len(ids), err)
	}
	defer rows.Close()
	found := make(map[int64]*Record, len(ids))
	for rows.Next() {
		var scan recordScan
		if err := rows.Scan(append([]any{&scan.row.ID}, scan.into()...)...); err != nil {
			return nil, fmt.Errorf("read %d jobs: %w", len(ids), err)
		}
		if _, ok := found[scan.row.ID]; ok {
			continue
		}
		if found[scan.row.ID], err = scan.record(); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read %d jobs: %w", len(ids), err)
	}
	return found, nil
}
