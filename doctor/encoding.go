package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// inUTF8 is a database whose transactions speak UTF-8, as pgx does, whatever the connection was told: else texts of the catalog arrive
// as something else, or not at all (22P05), and nothing could be compared.
type inUTF8 struct{ db Database }

// BeginTx begins a transaction; the encoding is local to it.
func (d inUTF8) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	tx, err := d.db.BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	// The server reports it unasked, also through a pooler, so that this costs nothing where all is well.
	if goodEncoding(tx.Conn().PgConn().ParameterStatus("client_encoding")) {
		return tx, nil
	}
	if _, err := tx.Exec(ctx, "SELECT set_config('client_encoding', 'UTF8', true)", pgx.QueryExecModeExec); err != nil {
		rollBack(ctx, tx)
		return nil, fmt.Errorf("set the encoding: %w", err)
	}
	return tx, nil
}

// goodEncoding says whether a client_encoding, in any spelling that Postgres takes, leaves the bytes of pgx as they are. SQL_ASCII does:
// the server converts nothing.
func goodEncoding(name string) bool {
	letters := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' {
			return c
		}
		return -1
	}, strings.ToLower(name))
	switch letters {
	case "utf8", "unicode", "sqlascii":
		return true
	}
	return false
}
