package jobstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Right is one privilege on one object of the schema.
type Right struct {
	Kind      string // schema, table, function
	Object    string // empty for the schema
	Privilege string
}

// What stands in the way of a right.
const (
	Missing = "missing" // it was not granted
	Barred  = "barred"  // row-level security holds, and the setting row_security makes an error of that
	Hidden  = "hidden"  // row-level security lets no row through
	Partial = "partial" // row-level security may keep rows back
)

// Lack is a right that a role does not have, or not for every row.
type Lack struct {
	Problem   string // Missing, Barred, Hidden or Partial
	Target    string // "table pgqueue.jobs"
	Privilege string
}

// Session is what a session is, and what its role lacks.
type Session struct {
	Standby    bool // the server is in recovery
	ReadOnly   bool // transactions are, by default or because it is a standby
	Encoding   string
	DateStyle  string
	ArrayNulls bool // NULL in the text of an array is a null, and not the word
	Role       string
	Lacks      []Lack
}

// StartCheck looks at a session of q, and at whether its role has these rights, in one round trip.
func (s *Store) StartCheck(ctx context.Context, q Querier, rights []Right) (Session, error) {
	kinds, objects, privileges := make([]string, len(rights)), make([]string, len(rights)), make([]string, len(rights))
	for i, right := range rights {
		kinds[i], objects[i], privileges[i] = right.Kind, right.Object, right.Privilege
	}
	var found Session
	rows, err := q.Query(ctx, s.sql.startCheck, slices.Concat(freshFor(q), []any{s.schema, kinds, objects, privileges})...)
	if err != nil {
		return found, fmt.Errorf("look at the session: %w", err)
	}
	var problem, target, privilege *string
	into := []any{
		&found.Standby, &found.ReadOnly, &found.Encoding, &found.DateStyle, &found.ArrayNulls, &found.Role, &problem, &target, &privilege,
	}
	if _, err := pgx.ForEachRow(rows, into, func() error {
		if problem != nil && target != nil && privilege != nil {
			found.Lacks = append(found.Lacks, Lack{Problem: *problem, Target: *target, Privilege: *privilege})
		}
		return nil
	}); err != nil {
		return found, fmt.Errorf("look at the session: %w", err)
	}
	return found, nil
}
