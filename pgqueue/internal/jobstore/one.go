package jobstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// One is a pending job that is to be claimed alone: its place in the index from which claims read.
type One struct {
	ID          int64
	Queue, Kind string

	priority int16
	runAt    pgtype.Timestamptz
}

// HoldOne locks a pending job in tx, makes it due, and says where it is; nil if there is none that is pending and free.
func (s *Store) HoldOne(ctx context.Context, tx pgx.Tx, id int64) (*One, error) {
	one := &One{ID: id}
	err := tx.QueryRow(ctx, s.sql.holdOne, id).Scan(&one.Queue, &one.Kind, &one.priority, &one.runAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("hold job %d: %w", id, err)
	}
	return one, nil
}

// from is where a claim begins whose first job is this one, and the classes that it goes through. The job is locked by the same
// transaction, so the first one that it finds is this one, unless its queue or kind is paused.
func (o *One) from(whole start) (start, []int16) {
	whole.runAt, whole.id = []pgtype.Timestamptz{o.runAt}, []int64{o.ID}
	return whole, []int16{o.priority}
}
