package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/migrations"
)

// Database is what is examined: a *pgxpool.Pool or a *pgx.Conn, connected in any way that lets the application work, a pooler in
// transaction mode included. Of a pool one connection at a time is used.
type Database = migrations.Database

// Examine looks at an installation and reports what is wrong with it. It changes nothing: every query is a read-only transaction of
// its own, with a statement timeout and a lock timeout. What the connection's role may not see, or the server refuses to tell, is
// in the report's Skipped.
//
// Everything is read from catalogs, statistics, or by index and bounded, so the cost does not grow with the number of jobs. It may be
// called while workers run, and by several processes at once.
//
// Errors: an [*OptionError] before any query; otherwise the database could not be reached, or ctx ended. Findings are no error.
func Examine(ctx context.Context, db Database, options Options) (*Report, error) {
	if db == nil {
		return nil, errors.New("doctor: the database must not be nil")
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("doctor: %w", err)
	}
	x := &examination{db: inUTF8{db}, asSet: db, o: options}
	report, err := x.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("doctor: examine schema %q: %w", options.Schema, err)
	}
	return report, nil
}

// examination is one call of Examine: what was asked, and what several checks want to know.
type examination struct {
	db     Database // every transaction is in UTF-8
	asSet  Database // the same, with the settings of the connection
	o      Options
	server Server
	state  migrations.State
	// stateErr says why the version could not be read.
	stateErr error
	// installed says that there is something to examine.
	installed bool
	skipped   []Skipped
	current   string // the check under way

	drifts   *drift // see drift.go
	setUp    []effective
	setKnown bool // setUp was read
}

func (x *examination) run(ctx context.Context) (*Report, error) {
	start := time.Now()
	if err := x.getBearings(ctx); err != nil {
		return nil, err
	}
	report := &Report{Schema: x.o.Schema, SchemaVersion: x.state.Version, VersionUnknown: x.stateErr != nil, Latest: migrations.Latest, Server: x.server, At: start,
		Findings: []Finding{}, Checked: []string{}}
	for _, c := range registry() {
		if len(x.o.Only) > 0 && !slices.Contains(x.o.Only, c.ID) {
			continue
		}
		x.current = c.ID
		if c.needsTables && !x.installed {
			x.skip("pgqueue is not installed in this schema")
			continue
		}
		found, err := c.run(ctx, x)
		if err != nil {
			reason, goOn := reasonToSkip(err)
			if !goOn || ctx.Err() != nil {
				return nil, fmt.Errorf("check %s: %w", c.ID, err)
			}
			x.skip(reason)
			continue
		}
		for _, f := range found {
			f.Check = c.ID
			report.Findings = append(report.Findings, f)
		}
		report.Checked = append(report.Checked, c.ID)
	}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int { return int(b.Severity - a.Severity) })
	report.Skipped = append([]Skipped{}, x.skipped...)
	report.Took = time.Since(start)
	return report, nil
}

// skip notes that the current check could not be made, or not completely.
func (x *examination) skip(reason string) {
	x.skipped = append(x.skipped, Skipped{Check: x.current, Reason: reason})
}

// getBearings learns where we are.
func (x *examination) getBearings(ctx context.Context) error {
	var err error
	x.server, err = readOne[Server](ctx, x, `
		SELECT current_setting('server_version'), current_setting('server_version_num')::int, current_database()::text, current_user::text,
		       (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user), pg_is_in_recovery()`)
	if err != nil {
		return err
	}
	// Tables called jobs may be anybody's, in the schema "public" for example; the version table and this function are ours.
	ours, err := readOne[one[bool]](ctx, x, `
		SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		               WHERE n.nspname = $1::text AND c.relname = 'pgqueue_migrations' AND c.relkind IN ('r', 'p'))
		    OR EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		               WHERE n.nspname = $1::text AND p.proname = 'ensure_history')`, x.o.Schema)
	if err != nil {
		return err
	}
	x.installed = ours.Value
	x.state, x.stateErr = migrations.Status(ctx, x.db, x.o.Schema)
	if _, goOn := reasonToSkip(x.stateErr); x.stateErr != nil && (!goOn || ctx.Err() != nil) {
		return x.stateErr
	}
	return nil
}
