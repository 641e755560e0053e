package migrations

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// versionTable is the name of the version table in the schema of pgqueue.
const versionTable = "pgqueue_migrations"

// driver lets golang-migrate work inside one transaction of ours, which already holds the lock. golang-migrate's own driver for pgx
// sets the dirty flag, runs the file and clears the flag in three transactions, waits for its lock in a statement that holds a snapshot,
// knows no context and closes the pool it was given. Here all of a step is one transaction: its end is what counts.
type driver struct {
	ctx    context.Context // the interface of golang-migrate has no context; the driver lives for one call only
	tx     pgx.Tx
	schema string
}

// table is the quoted name of the version table.
func (d *driver) table() string {
	return pgx.Identifier{d.schema, versionTable}.Sanitize()
}

// Open is how golang-migrate makes a driver from a URL, which never happens here.
func (d *driver) Open(string) (database.Driver, error) {
	return nil, errors.New("migrations: this driver is not opened by a URL")
}

// Close does nothing: the transaction belongs to the caller.
func (d *driver) Close() error { return nil }

// Lock does nothing: the transaction holds the lock.
func (d *driver) Lock() error { return nil }

// Unlock does nothing: the end of the transaction gives the lock back.
func (d *driver) Unlock() error { return nil }

// Run applies one file. It is sent without arguments, that is by the simple protocol, which takes many statements in one message.
func (d *driver) Run(migration io.Reader) error {
	text, err := io.ReadAll(migration)
	if err != nil {
		return fmt.Errorf("read the migration: %w", err)
	}
	_, err = d.tx.Exec(d.ctx, string(text))
	return err
}

// SetVersion writes the version. The dirty mark that golang-migrate wants to set before the file runs is not written: nobody could
// see it before the transaction ends, and then it is wrong.
func (d *driver) SetVersion(version int, dirty bool) error {
	if dirty {
		return nil
	}
	if _, err := d.tx.Exec(d.ctx, `DELETE FROM `+d.table()); err != nil {
		return fmt.Errorf("write the version: %w", err)
	}
	if version == database.NilVersion {
		return nil
	}
	if _, err := d.tx.Exec(d.ctx, `INSERT INTO `+d.table()+` (version, dirty) VALUES ($1, false)`, pgx.QueryExecModeExec, version); err != nil {
		return fmt.Errorf("write the version: %w", err)
	}
	return nil
}

// Version reads the version; none is -1.
func (d *driver) Version() (version int, dirty bool, err error) {
	err = d.tx.QueryRow(d.ctx, `SELECT version, dirty FROM `+d.table()+` ORDER BY version DESC LIMIT 1`, pgx.QueryExecModeExec).
		Scan(&version, &dirty)
	if errors.Is(err, pgx.ErrNoRows) {
		return database.NilVersion, false, nil
	}
	if isCode(err, codeUndefinedColumn) {
		return 0, false, &ConflictError{Schema: d.schema, Message: versionTable + " exists, but is not a version table of golang-migrate", err: err}
	}
	if err != nil {
		return 0, false, fmt.Errorf("read the version: %w", err)
	}
	return version, dirty, nil
}

// Drop is refused: it is golang-migrate's way to empty a whole database.
func (d *driver) Drop() error {
	return errors.New("migrations: dropping everything is not supported")
}

// isCode says whether an error came from Postgres with one of the SQLSTATE codes.
func isCode(err error, codes ...string) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	for _, code := range codes {
		if pgErr.Code == code {
			return true
		}
	}
	return false
}
