package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrDescription is in every error of [Queue.Check] that says that the description of a table does not fit the database.
var ErrDescription = errors.New("outbox: the description does not fit the table")

// Warning is something that works, and should not be left as it is.
type Warning struct {
	Message string
	// Statement is what to run against it; empty where that depends.
	Statement string
}

// CheckReport is what [Queue.Check] found beside errors.
type CheckReport struct {
	Warnings []Warning
	// Poll is how long it took to look for due rows, which an idle worker does at each tick.
	Poll time.Duration
}

// column is one of the catalog's.
type column struct {
	name       string
	kind       string // format_type
	oid        uint32
	precision  int32 // atttypmod: of a timestamp, its digits; -1 where nothing is said
	notNull    bool
	generated  bool
	enum       bool
	mayRead    bool
	mayWrite   bool
	enumLabels []string
	deflt      *string // the expression, or nil
}

// Check compares the description with the catalog and returns what should be changed, such as a missing index, with the
// statement to run. It changes nothing. Errors that contain [ErrDescription] say all that cannot work: a table or column that is
// missing, a wrong type, a status that the enum does not know, a right that the role has not. [Worker] calls it when it starts.
func (q *Queue[P, R]) Check(ctx context.Context) (report CheckReport, err error) {
	tx, err := q.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return report, q.wrap("check", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()

	columns, err := q.readColumns(ctx, tx)
	if err != nil {
		return report, q.wrap("check", err)
	}
	if len(columns) == 0 {
		return report, fmt.Errorf("%w: there is no table %s, or the role may not use its schema", ErrDescription, q.full)
	}
	problems, err := q.compareRelation(ctx, tx, &report)
	if err != nil {
		return report, q.wrap("check", err)
	}
	if len(problems) == 0 {
		problems = q.compare(columns, &report)
	}
	keyTypes, err := q.compareKeys(ctx, tx, columns)
	if err != nil {
		return report, q.wrap("check", err)
	}
	problems = append(problems, keyTypes...)
	if len(problems) == 0 {
		missing, err := q.compareIndexes(ctx, tx, &report)
		if err != nil {
			return report, q.wrap("check", err)
		}
		problems = append(problems, missing...)
		forbidden, err := q.compareConstraints(ctx, tx, columns[q.table.Status.Name])
		if err != nil {
			return report, q.wrap("check", err)
		}
		problems = append(problems, forbidden...)
	}
	if len(problems) > 0 {
		return report, fmt.Errorf("%w %s:\n  %s", ErrDescription, q.full, strings.Join(problems, "\n  "))
	}
	if err := q.explain(ctx, tx, &report); err != nil {
		return report, err
	}
	if err := q.tryScan(ctx, tx); err != nil {
		return report, err
	}
	if slots := cap(q.open); q.inTxs.Load() && q.config.Workers > slots {
		report.warn(fmt.Sprintf("the pool has %d connections, so of %d workers only %d can have a transaction open at a time, and the others wait, "+
			"until they fail with their deadline; give it %d", q.pool.Config().MaxConns, q.config.Workers, slots,
			q.config.Workers+int(q.pool.Config().MaxConns)-slots), "")
	}
	_ = tx.Rollback(ctx)
	began := time.Now()
	if _, _, err := q.NextDue(ctx); err != nil {
		return report, err
	}
	report.Poll = time.Since(began)
	return report, nil
}

// unprepared is the mode for statements that are sent once.
const unprepared = pgx.QueryExecModeExec

func (q *Queue[P, R]) readColumns(ctx context.Context, tx pgx.Tx) (map[string]column, error) {
	rows, err := tx.Query(ctx, `
		SELECT a.attname::text, pg_catalog.format_type(a.atttypid, NULL)::text, a.atttypid::bigint, a.atttypmod, a.attnotnull, a.attgenerated <> '', t.typtype = 'e',
		       pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT'), pg_catalog.has_column_privilege(c.oid, a.attnum, 'UPDATE'),
		       ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = a.atttypid ORDER BY e.enumsortorder),
		       (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum)
		FROM pg_catalog.pg_class c
		     JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		     JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
		WHERE c.oid = pg_catalog.to_regclass($1::text)`, unprepared, q.table.Name.String())
	if err != nil {
		return nil, err
	}
	found := map[string]column{}
	var c column
	var oid int64
	_, err = pgx.ForEachRow(rows, []any{&c.name, &c.kind, &oid, &c.precision, &c.notNull, &c.generated, &c.enum, &c.mayRead, &c.mayWrite,
		&c.enumLabels, &c.deflt}, func() error {
		c.oid = uint32(oid) //nolint:gosec // an oid
		found[c.name] = c
		c.enumLabels = nil
		return nil
	})
	return found, err
}

// compare returns what cannot work with these columns.
func (q *Queue[P, R]) compare(columns map[string]column, report *CheckReport) (problems []string) {
	complain := func(field, format string, args ...any) {
		problems = append(problems, field+": "+fmt.Sprintf(format, args...))
	}
	for _, use := range q.table.uses() {
		if use.name == "" {
			continue
		}
		c, ok := columns[use.name]
		if !ok {
			complain(use.field, "there is no column %q", use.name)
			continue
		}
		written := use.kind != kindKey && use.kind != kindAny && use.field != "Table.CreatedAt" && use.field != "Table.MaxAttempts" &&
			use.field != "Table.Priority"
		switch {
		case !c.mayRead:
			complain(use.field, "the role may not SELECT column %q", use.name)
		case written && !c.mayWrite:
			complain(use.field, "the role may not UPDATE column %q", use.name)
		case written && c.generated:
			complain(use.field, "column %q is generated", use.name)
		}
		if use.kind == kindKey && !c.notNull {
			complain(use.field, "column %q allows NULL, and a row without a key cannot be found again; run ALTER TABLE %s ALTER COLUMN %s SET NOT NULL",
				use.name, q.table.Name, quote(use.name))
		}
		if !use.kind.fits(c) {
			complain(use.field, "column %q is %s, which is not %s", use.name, c.kind, use.kind)
		}
	}
	for field, name := range map[string]string{"Table.AttemptedAt": q.table.AttemptedAt, "Table.Token": q.table.Token,
		"Table.LeaseUntil": q.table.LeaseUntil, "Table.FinishedAt": q.table.FinishedAt} {
		if columns[name].notNull {
			complain(field, "column %q must allow NULL", name)
		}
	}
	if c := columns[q.table.AttemptedAt]; q.table.Token == "" && c.precision >= 0 && c.precision < 6 {
		complain("Table.AttemptedAt", "column %q keeps %d digits of a second; it is a part of the fence and must keep 6, or name a Token column",
			c.name, c.precision)
	}
	if c, ok := columns[q.table.NextAttempt]; ok && !c.notNull {
		report.warn(fmt.Sprintf("column %q allows NULL, and a pending row without a time is never due", c.name),
			"ALTER TABLE %s ALTER COLUMN %s SET DEFAULT now(), ALTER COLUMN %[2]s SET NOT NULL", q.table.Name, quote(c.name))
	}
	slices.Sort(problems)
	return append(problems, q.compareStatus(columns, report)...)
}

func (r *CheckReport) warn(message, statement string, args ...any) {
	r.Warnings = append(r.Warnings, Warning{message, fmt.Sprintf(statement, args...)})
}

// String says what a column must be.
func (k columnKind) String() string {
	return [...]string{"as described", "a text, an enum, or an integer", "an integer", "timestamp with time zone", "text", "a uuid or a text",
		"as described", "readable"}[k]
}

func (k columnKind) fits(c column) bool {
	number := c.kind == "smallint" || c.kind == "integer" || c.kind == "bigint"
	text := c.kind == "text" || c.kind == "character varying"
	switch k {
	case kindStatus:
		return number || text || c.enum || c.kind == "character" || c.kind == "name"
	case kindNumber:
		return number
	case kindTime:
		return c.kind == "timestamp with time zone"
	case kindText:
		return text
	case kindToken:
		return text || c.kind == "uuid"
	}
	return true // types that the description names are compared as types
}

// compareKeys checks the types that the description names.
func (q *Queue[P, R]) compareKeys(ctx context.Context, tx pgx.Tx, columns map[string]column) (problems []string, err error) {
	described := make([]Column, 0, len(q.table.Key)+1)
	for _, k := range q.table.Key {
		described = append(described, Column(k))
	}
	if q.table.Result.Name != "" {
		described = append(described, q.table.Result)
	}
	for _, d := range described {
		c, ok := columns[d.Name]
		if !ok {
			continue
		}
		var oid *int64
		if err := tx.QueryRow(ctx, `SELECT pg_catalog.to_regtype($1::text)::oid::bigint`, unprepared, d.Type).Scan(&oid); err != nil {
			return nil, err
		}
		if oid == nil || *oid != int64(c.oid) {
			problems = append(problems, fmt.Sprintf("column %q is %s, and the description says %s", d.Name, c.kind, d.Type))
		}
	}
	return problems, nil
}
