package migrations

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATE codes that mean something here.
const (
	codeLockNotAvailable  = "55P03"
	codeDeadlock          = "40P01"
	codeDuplicateTable    = "42P07"
	codeDuplicateObject   = "42710"
	codeDuplicateFunction = "42723"
	codeUndefinedColumn   = "42703"
	codeDependentObjects  = "2BP01"
)

// NewerSchemaError says that the schema was migrated by a binary that knows more versions than this one. Nothing was changed.
type NewerSchemaError struct {
	// Schema is the schema's name.
	Schema string
	// Version is the version that the schema has.
	Version uint
	// Latest is the newest version that this binary knows.
	Latest uint
}

// Error names both versions.
func (e *NewerSchemaError) Error() string {
	return fmt.Sprintf("schema %q has version %d, but this binary knows versions up to %d: use a newer binary", e.Schema, e.Version, e.Latest)
}

// Compatible says whether this binary may work with the schema all the same: it promises to for one version more than its own. A
// service that is rolled back may then log the error and start.
func (e *NewerSchemaError) Compatible() bool {
	return e.Version == e.Latest+1
}

// ConflictError says that an object which pgqueue does not own stands in the way. Nothing was changed.
type ConflictError struct {
	// Schema is the schema's name.
	Schema string
	// Message is what Postgres said; it names the object.
	Message string
	// Detail is Postgres' detail, if there is one: for Down, the objects that are built upon ours.
	Detail string
	err    error
}

// Error names the object.
func (e *ConflictError) Error() string {
	if e.Detail != "" {
		return fmt.Sprintf("schema %q: %s (%s)", e.Schema, e.Message, e.Detail)
	}
	return fmt.Sprintf("schema %q: %s", e.Schema, e.Message)
}

// Unwrap returns the error of Postgres.
func (e *ConflictError) Unwrap() error { return e.err }

// JobsLeftError says that Down would delete live jobs. Nothing was changed. Pass [DiscardJobs] if that is what you want.
type JobsLeftError struct {
	// Schema is the schema's name.
	Schema string
	// Pending and Running count the live jobs.
	Pending, Running int64
}

// Error says how many jobs there are and how to go on.
func (e *JobsLeftError) Error() string {
	return fmt.Sprintf("schema %q still holds %d pending and %d running jobs: work them off first, or delete them with migrations.DiscardJobs()",
		e.Schema, e.Pending, e.Running)
}

// asConflict turns Postgres' "already exists" and "others depend on it" into a ConflictError and leaves other errors alone.
func asConflict(schema string, err error) error {
	var already *ConflictError
	var pgErr *pgconn.PgError
	if errors.As(err, &already) || !errors.As(err, &pgErr) {
		return err
	}
	switch pgErr.Code {
	case codeDuplicateTable, codeDuplicateObject, codeDuplicateFunction, codeDependentObjects:
		return &ConflictError{Schema: schema, Message: pgErr.Message, Detail: pgErr.Detail, err: err}
	}
	return err
}
