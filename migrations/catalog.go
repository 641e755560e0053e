package migrations

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// driver makes the driver of one transaction.
func (m *migrator) driver(ctx context.Context, tx pgx.Tx) *driver {
	return &driver{ctx: ctx, tx: tx, schema: m.schema}
}

// hasVersionTable asks the catalog, which needs no right on the schema.
func (m *migrator) hasVersionTable(ctx context.Context, tx pgx.Tx) (bool, error) {
	var exists bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		               WHERE n.nspname = $1::text AND c.relname = $2::text AND c.relkind IN ('r', 'p'))`,
		pgx.QueryExecModeExec, m.schema, versionTable).Scan(&exists)
	if err != nil {
		return false, fmt.Errorf("look for the version table: %w", err)
	}
	return exists, nil
}

// createSchema makes the schema if it is missing. It looks first: CREATE SCHEMA IF NOT EXISTS asks for the right to create in the
// database even where the schema exists.
func (m *migrator) createSchema(ctx context.Context, tx pgx.Tx) error {
	var exists bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text)`,
		pgx.QueryExecModeExec, m.schema).Scan(&exists)
	if err != nil {
		return fmt.Errorf("look for the schema: %w", err)
	}
	if exists {
		return nil
	}
	name := pgx.Identifier{m.schema}.Sanitize()
	if _, err := tx.Exec(ctx, `CREATE SCHEMA `+name); err != nil {
		return fmt.Errorf("create the schema: %w", err)
	}
	if _, err := tx.Exec(ctx, `COMMENT ON SCHEMA `+name+` IS 'pgqueue: jobs in Postgres.'`); err != nil {
		return fmt.Errorf("comment on the schema: %w", err)
	}
	return nil
}

// createVersionTable makes the version table in the form that golang-migrate's own driver for pgx gives it.
func (m *migrator) createVersionTable(ctx context.Context, tx pgx.Tx) error {
	exists, err := m.hasVersionTable(ctx, tx)
	if err != nil || exists {
		return err
	}
	table := pgx.Identifier{m.schema, versionTable}.Sanitize()
	if _, err := tx.Exec(ctx, `CREATE TABLE `+table+` (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)`); err != nil {
		return fmt.Errorf("create the version table: %w", err)
	}
	return nil
}

// version reads the version under the lock, refuses one that is too new, and puts a dirty one right.
func (m *migrator) version(ctx context.Context, tx pgx.Tx, d *driver) (uint, error) {
	recorded, dirty, err := d.Version()
	if err != nil {
		return 0, err
	}
	version := asVersion(recorded)
	if version > m.latest {
		return 0, &NewerSchemaError{Schema: m.schema, Version: version, Latest: m.latest}
	}
	if !dirty {
		return version, nil
	}
	actual, err := m.installed(ctx, tx)
	if err != nil {
		return 0, err
	}
	m.logger.WarnContext(ctx, "pgqueue: a migration was interrupted, its version is put right",
		"schema", m.schema, "recorded", recorded, "actual", actual)
	if actual == 0 {
		return 0, d.SetVersion(-1, false)
	}
	return actual, d.SetVersion(int(actual), false)
}

// installed finds out by the objects which version is there.
func (m *migrator) installed(ctx context.Context, tx pgx.Tx) (uint, error) {
	for version := m.latest; version > 0; version-- {
		var applied bool
		if err := tx.QueryRow(ctx, `SELECT `+m.probe(version), pgx.QueryExecModeExec, m.schema).Scan(&applied); err != nil {
			return 0, fmt.Errorf("look for the objects of version %d: %w", version, err)
		}
		if applied {
			return version, nil
		}
	}
	return 0, nil
}

// refuseLiveJobs counts the live jobs under the lock that the removal needs anyway, so that none can arrive in between.
func (m *migrator) refuseLiveJobs(ctx context.Context, tx pgx.Tx) error {
	if m.discardJobs {
		return nil
	}
	jobs := pgx.Identifier{m.schema, "jobs"}.Sanitize()
	if _, err := tx.Exec(ctx, `LOCK TABLE `+jobs+` IN ACCESS EXCLUSIVE MODE`); err != nil {
		return fmt.Errorf("lock the jobs: %w", err)
	}
	left := &JobsLeftError{Schema: m.schema}
	err := tx.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state <> 'pending') FROM `+jobs,
		pgx.QueryExecModeExec).Scan(&left.Pending, &left.Running)
	if err != nil {
		return fmt.Errorf("count the jobs: %w", err)
	}
	if left.Pending+left.Running > 0 {
		return left
	}
	return nil
}

// asVersion turns golang-migrate's -1 for "none" into 0.
func asVersion(version int) uint {
	if version < 0 {
		return 0
	}
	return uint(version)
}
