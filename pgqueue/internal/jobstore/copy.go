package jobstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Copier is a [Querier] that speaks COPY.
type Copier interface {
	Querier
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource) (int64, error)
}

// copyColumns are the columns that every copied row fills; run_at follows where a row asks for a time of its own, and is
// otherwise left to its default, the database's clock.
var copyColumns = [...]string{"queue", "kind", "payload", "metadata", "tags", "priority", "max_attempts"} //nolint:gochecknoglobals // only ever read

// Copy writes inputs without keys by COPY and returns how many were written. It is all or nothing.
func (s *Store) Copy(ctx context.Context, q Copier, inputs []Input) (int64, error) {
	source := &copySource{inputs: inputs, next: -1}
	columns := append([]string(nil), copyColumns[:]...)
	for i := range inputs {
		if inputs[i].RunAt != nil || inputs[i].Delay != 0 {
			now, err := s.now(ctx, q)
			if err != nil {
				return 0, fmt.Errorf("enqueue by copy: %w", err)
			}
			source.now, source.dated = now, true
			columns = append(columns, "run_at")
			break
		}
	}
	written, err := q.CopyFrom(ctx, pgx.Identifier{s.schema, "jobs"}, columns, source)
	if err != nil {
		return 0, fmt.Errorf("enqueue by copy: %w", err)
	}
	return written, nil
}

// now asks the database for its time: a delay counts on its clock, and COPY cannot compute.
func (s *Store) now(ctx context.Context, q Querier) (time.Time, error) {
	var now time.Time
	rows, err := q.Query(ctx, s.produce.now)
	if err != nil {
		return now, err
	}
	_, err = pgx.ForEachRow(rows, []any{&now}, func() error { return nil })
	return now, err
}

// copySource hands the inputs to pgx one by one, so that no second copy of them is made.
type copySource struct {
	inputs []Input
	next   int
	dated  bool
	now    time.Time // of the database, where dated
	values [len(copyColumns) + 1]any
}

var _ pgx.CopyFromSource = (*copySource)(nil)

// Next implements [pgx.CopyFromSource].
func (c *copySource) Next() bool {
	c.next++
	return c.next < len(c.inputs)
}

// Values implements [pgx.CopyFromSource]. The slice is used again for the next row.
func (c *copySource) Values() ([]any, error) {
	in := &c.inputs[c.next]
	c.values = [...]any{in.Queue, in.Kind, in.Payload, objectText(in.Metadata), tagList(in.Tags), in.Priority, in.MaxAttempts, nil}
	if !c.dated {
		return c.values[:len(copyColumns)], nil
	}
	due := c.now
	if in.RunAt != nil {
		due = *in.RunAt
	}
	c.values[len(copyColumns)] = due.Add(in.Delay)
	return c.values[:], nil
}

// Err implements [pgx.CopyFromSource].
func (c *copySource) Err() error { return nil }
