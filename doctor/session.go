package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// rollbackTimeout bounds the end of a transaction after the caller's context has ended.
const rollbackTimeout = 5 * time.Second

// How a transaction of the doctor is set up; all of it is local to the transaction.
const (
	// Texts of the catalog are the same for every role and database.
	textsSQL = `
		SELECT set_config('search_path', $1::text, true), set_config('datestyle', 'ISO, YMD', true), set_config('intervalstyle', 'postgres', true),
		       set_config('quote_all_identifiers', 'off', true), set_config('standard_conforming_strings', 'on', true),
		       set_config('extra_float_digits', '1', true), set_config('jit', 'off', true)`
	// lock_timeout: the doctor waits for nobody, and nobody shall queue behind it.
	timeoutsSQL = `, set_config('statement_timeout', $2::text, true), set_config('lock_timeout', '200ms', true),
		       set_config('idle_in_transaction_session_timeout', '10s', true)`
	// Whatever the statistics say, jobs are read by index: where they are old, a scan of millions of rows looks cheap.
	byIndexSQL = `, set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)`
)

// safePath finds nothing but the catalog: nobody's function in another schema can take the place of one that the doctor means.
const safePath = "pg_catalog, pg_temp"

// read runs one query in a read-only transaction of its own, so that none stays open, an error spoils no other query, and a pooler in
// transaction mode is no trouble. {schema} in the query stands for the quoted schema.
func read[T any](ctx context.Context, x *examination, sql string, args ...any) ([]T, error) {
	return readWith[T](ctx, x, x.db, textsSQL+timeoutsSQL, sql, args...)
}

// readByIndex is read for queries that look at jobs.
func readByIndex[T any](ctx context.Context, x *examination, sql string, args ...any) ([]T, error) {
	return readWith[T](ctx, x, x.db, textsSQL+timeoutsSQL+byIndexSQL, sql, args...)
}

// readAsSet is read without timeouts and an encoding of its own, for the query that looks at these.
func readAsSet[T any](ctx context.Context, x *examination, sql string, args ...any) ([]T, error) {
	return readWith[T](ctx, x, x.asSet, textsSQL, sql, args...)
}

// readOne is read for a query that returns exactly one row.
func readOne[T any](ctx context.Context, x *examination, sql string, args ...any) (T, error) {
	rows, err := read[T](ctx, x, sql, args...)
	if err == nil && len(rows) != 1 {
		err = fmt.Errorf("%d rows where one was expected", len(rows))
	}
	if err != nil {
		var none T
		return none, err
	}
	return rows[0], nil
}

// readWith sets up the transaction, runs the query and collects its rows.
func readWith[T any](ctx context.Context, x *examination, db Database, setUp, sql string, args ...any) ([]T, error) {
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	defer rollBack(ctx, tx)
	if err := x.prepare(ctx, tx, setUp, safePath); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, strings.ReplaceAll(sql, "{schema}", ident(x.o.Schema)), append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// rollBack ends a transaction, also after the caller's context has ended.
func rollBack(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx) // nothing was written; a connection that cannot roll back is closed by pgx
}

// prepare sets up a transaction.
func (x *examination) prepare(ctx context.Context, tx pgx.Tx, setUp, path string) error {
	args := []any{pgx.QueryExecModeExec, path}
	if strings.Contains(setUp, "$2") {
		args = append(args, fmt.Sprintf("%dms", max(1, x.o.StatementTimeout.Milliseconds())))
	}
	if _, err := tx.Exec(ctx, setUp, args...); err != nil {
		return fmt.Errorf("set up the transaction: %w", err)
	}
	return nil
}

// one is a row of a single value, for read.
type one[T any] struct{ Value T }

// reasonToSkip turns the server's refusal of one query into the reason why a check was skipped. Any other error, such as a lost
// connection or the end of the context, ends the examination.
func reasonToSkip(err error) (string, bool) {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return "", false
	}
	switch {
	case refused.Code == "42501":
		return "the role has no right to look: " + refused.Message, true
	case refused.Code == "22P05", refused.Code == "22021":
		return "a text cannot be had in the encoding of the connection or of the database, see setting-encoding: " + refused.Message, true
	case refused.Code == "57014":
		return "it took longer than the statement timeout: " + refused.Message, true
	case refused.Code == "55P03":
		return "somebody holds a lock on it: " + refused.Message, true
	case strings.HasPrefix(refused.Code, "57"), strings.HasPrefix(refused.Code, "08"), strings.HasPrefix(refused.Code, "53"):
		return "", false // the server goes down, or takes nobody
	}
	return "the server answers " + refused.Code + ": " + refused.Message, true
}
