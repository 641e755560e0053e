package console

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed database.sql
var databaseSQL string

// statementsOf cuts database.sql into its statements by name, for a schema.
func statementsOf(schema string) map[string]string {
	texts := map[string]string{}
	for _, section := range strings.Split("\n"+databaseSQL, "\n-- name: ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		var lines []string
		for line := range strings.SplitSeq(body, "\n") {
			// Comments teach the reader of the file; they need not travel with each call.
			if line, _, _ = strings.Cut(line, "--"); strings.TrimSpace(line) != "" {
				lines = append(lines, strings.TrimRight(line, " "))
			}
		}
		text := strings.TrimSuffix(strings.Join(lines, "\n"), ";")
		texts[strings.TrimSpace(name)] = strings.ReplaceAll(text, "{schema}", pgx.Identifier{schema}.Sanitize())
	}
	return texts
}

// part is what one statement of the screen has found, or why it has not.
type part[T any] struct {
	Rows    []T
	Missing string // empty: it was read
}

// First is the first row, or the zero value.
func (p part[T]) First() (row T) {
	if len(p.Rows) > 0 {
		row = p.Rows[0]
	}
	return row
}

// figureReader reads the figures of one page.
type figureReader struct {
	pool  databasePool
	texts map[string]string
	role  string // of the connection, as SQL writes it; for what is missing
	err   error  // why nothing can be read at all, such as a server that is not there
}

// databasePool is what figures are read through.
type databasePool interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// The bounds of a figure. Nobody waits behind them, and they wait for nobody. search_path: nobody's table or function can take the
// place of one of the catalog.
const figureBounds = `SELECT set_config('search_path', 'pg_catalog, pg_temp', true), set_config('statement_timeout', '2s', true),
	set_config('lock_timeout', '200ms', true), set_config('idle_in_transaction_session_timeout', '10s', true), set_config('jit', 'off', true)`

// figureRollback bounds the end of a figure's transaction when the browser has left.
const figureRollback = 5 * time.Second

// readFigures runs one statement in a read-only transaction of its own. What the server refuses becomes the part's Missing; what ends
// all reading stays in r.err, and nothing more is asked then.
func readFigures[T any](ctx context.Context, r *figureReader, name string, args ...any) (found part[T]) {
	if r.err != nil {
		return found
	}
	err := r.inTransaction(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, r.texts[name], args...)
		if err == nil {
			found.Rows, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
		}
		return err
	})
	var refused *pgconn.PgError
	switch {
	case err == nil:
	case errors.As(err, &refused) && !endsAll(refused.Code):
		found = part[T]{Missing: r.whyMissing(refused)}
	default:
		r.err = fmt.Errorf("read the figures %q: %w", name, err)
	}
	return found
}

func (r *figureReader) inTransaction(ctx context.Context, read func(pgx.Tx) error) error {
	tx, err := r.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), figureRollback)
		defer cancel()
		_ = tx.Rollback(ctx) // nothing was written; a connection that cannot roll back is closed by pgx
	}()
	if _, err := tx.Exec(ctx, figureBounds); err != nil {
		return err
	}
	return read(tx)
}

// endsAll says whether a code means that the server goes down, takes nobody, or has lost us: then the next figure would say the same.
// A statement that was cancelled by its own timeout (57014) is not among them.
func endsAll(code string) bool {
	return code != "57014" && (strings.HasPrefix(code, "57") || strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53"))
}

// whyMissing says to a person why a figure is not there.
func (r *figureReader) whyMissing(refused *pgconn.PgError) string {
	switch refused.Code {
	case "42501":
		return r.notVisible()
	case "57014":
		return "It took longer than two seconds, and was given up."
	case "55P03":
		return "Somebody holds a lock on it; look again in a moment."
	}
	return "The server refuses to tell: " + refused.Message + "."
}

// notVisible says which right would show what is hidden.
func (r *figureReader) notVisible() string {
	if r.role == "" {
		return "Not visible to this role: grant pg_monitor to it."
	}
	return "Not visible to this role: GRANT pg_monitor TO " + r.role
}
