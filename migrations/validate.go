package migrations

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// Validate compares a schema ("" = [DefaultSchema]) with what the migrations of this binary make: tables, columns, constraints, indexes,
// sequences, functions with their bodies, views with their queries, storage parameters, whether there are comments, and the version. It
// answers whether somebody changed by hand what a migration made, whether a restore was complete, whether an index is broken.
//
//	drift, err := migrations.Validate(ctx, pool, "")
//	if err == nil && !drift.Empty() {
//		log.Print(drift) // one line for each difference
//	}
//
// A schema of another version differs in the version and in what that version has not, or has beyond; see [Status] for the version alone.
// Left out are objects of others in the same schema, the daily partitions of history, owners, grants (but for functions that everybody
// may call), triggers, row level security, and publications: package doctor looks at those, and has the statements that mend a difference.
//
// It reads the catalog and the version table in one read-only transaction, changes nothing, needs no right beyond reading the version
// table, and works on a standby. For a server newer than this binary knows, what servers write differently from version to version is not
// compared. Errors: [*SchemaError], else the error of Postgres or of ctx, wrapped; a difference is no error.
func Validate(ctx context.Context, db Database, schema string) (Drift, error) {
	m, err := newMigrator(db, schema, nil)
	if err != nil {
		return Drift{}, err
	}
	drift, err := m.validate(ctx)
	if err != nil {
		return Drift{}, fmt.Errorf("migrations: validate schema %q: %w", m.schema, err)
	}
	return drift, nil
}

func (m *migrator) validate(ctx context.Context) (Drift, error) {
	tx, err := m.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly})
	if err != nil {
		return Drift{}, fmt.Errorf("begin: %w", err)
	}
	defer rollback(ctx, tx)
	state, err := m.stateIn(ctx, tx)
	if err != nil {
		return Drift{}, err
	}
	var number int
	// The texts of views are read under locks; whoever alters a table is not waited for.
	if err := tx.QueryRow(ctx, `SELECT current_setting('server_version_num')::int FROM set_config('lock_timeout', $1, true)`,
		pgx.QueryExecModeExec, strconv.FormatInt(lockTimeout.Milliseconds(), 10)+"ms").Scan(&number); err != nil {
		return Drift{}, fmt.Errorf("read the server's version: %w", err)
	}
	have, err := readFacts(ctx, tx, m.schema)
	if err != nil {
		return Drift{}, err
	}
	want, uncertain, err := expectation(number / 10000)
	if err != nil {
		return Drift{}, err
	}
	have, want = append(have, state.facts(m.schema)...), append(want, State{Version: Latest, Exists: true}.facts(m.schema)...)
	return compare(gather(want), gather(have), uncertain), nil
}

// facts tells the version in the form of all other properties.
func (s State) facts(schema string) []fact {
	if !s.Exists {
		return nil
	}
	facts := []fact{{"schema", schema, "version", strconv.FormatUint(uint64(s.Version), 10)}}
	if s.Dirty {
		facts = append(facts, fact{"schema", schema, "dirty", "true"})
	}
	return facts
}
