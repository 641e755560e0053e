package outbox

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// described are the values of a status column with the fields that name them; optional ones that are not there are left out.
func (s StatusColumn) described() (all []describedValue) {
	for _, v := range []describedValue{{"Pending", s.Pending}, {"Processing", s.Processing}, {"Succeeded", s.Succeeded},
		{"Failed", s.Failed}, {"Dead", s.Dead}, {"Cancelled", s.Cancelled}} {
		if v.value != "" {
			all = append(all, v)
		}
	}
	return all
}

type describedValue struct{ field, value string }

// compareStatus checks that the status column can hold the described values.
func (q *Queue[P, R]) compareStatus(columns map[string]column, report *CheckReport) (problems []string) {
	s := q.table.Status
	c, ok := columns[s.Name]
	if !ok {
		return nil
	}
	bits := map[string]int{"smallint": 16, "integer": 32, "bigint": 64}[c.kind]
	for _, v := range s.described() {
		_, notNumber := strconv.ParseInt(v.value, 10, max(bits, 16))
		switch longest := c.precision - 4; { // the length of a text that is bounded
		case c.enum && !slices.Contains(c.enumLabels, v.value):
			problems = append(problems, fmt.Sprintf("Table.Status.%s: the enum %s has no label %q, only %q", v.field, c.kind, v.value, c.enumLabels))
		case bits > 0 && notNumber != nil:
			problems = append(problems, fmt.Sprintf("Table.Status.%s: %q is no value of a %s", v.field, v.value, c.kind))
		case (c.kind == "character varying" || c.kind == "character") && longest > 0 && utf8.RuneCountInString(v.value) > int(longest):
			problems = append(problems, fmt.Sprintf("Table.Status.%s: %q is longer than the %d characters of column %q", v.field, v.value, longest, c.name))
		}
	}
	if value, ok := literalOf(c.deflt); ok && value != s.Pending && !c.generated && len(problems) == 0 {
		report.warn(fmt.Sprintf("column %q is %q by default: unless that is meant so, and something makes such rows %q later, they are never claimed",
			c.name, value, s.Pending), "ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s", q.table.Name, quote(c.name), literal(s.Pending))
	}
	return problems
}

// literalDefault is a default that is one literal, as Postgres prints it: 'pending'::text, 0, '-4'::integer.
var literalDefault = regexp.MustCompile(`^(?:'((?:[^']|'')*)'(?:::[^']*)?|\(?(-?[0-9]+)\)?(?:::[^']*)?)$`)

func literalOf(expression *string) (value string, ok bool) {
	if expression == nil {
		return "", false
	}
	found := literalDefault.FindStringSubmatch(*expression)
	if found == nil {
		return "", false
	}
	return strings.ReplaceAll(found[1], "''", "'") + found[2], true
}

// compareConstraints asks the CHECK constraints over the status alone whether they let the described values in. They are run as
// they are, over a row that has no other column.
func (q *Queue[P, R]) compareConstraints(ctx context.Context, tx pgx.Tx, status column) (problems []string, err error) {
	rows, err := tx.Query(ctx, `
		SELECT k.conname::text, pg_catalog.pg_get_expr(k.conbin, k.conrelid)
		FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attname = $2::text
		WHERE k.conrelid = pg_catalog.to_regclass($1::text) AND k.contype = 'c' AND k.conkey = ARRAY[a.attnum]
		ORDER BY k.conname`, unprepared, q.table.Name.String(), status.name)
	if err != nil {
		return nil, err
	}
	type constraint struct{ name, expression string }
	constraints, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c constraint, err error) { return c, row.Scan(&c.name, &c.expression) })
	if err != nil {
		return nil, err
	}
	values := q.table.Status.described()
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.value
	}
	for _, c := range constraints {
		var allowed []bool
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint: what the expression calls may fail
			return tx.QueryRow(ctx, fmt.Sprintf(`SELECT pg_catalog.array_agg(coalesce((%s), true) ORDER BY v.ord)
				FROM (SELECT t.value::%s AS %s, t.ord FROM unnest($1::text[]) WITH ORDINALITY AS t(value, ord)) AS v`,
				c.expression, status.kind, quote(status.name)), unprepared, texts).Scan(&allowed)
		})
		if sqlState(err) != "" {
			continue // it cannot be asked in this way
		}
		if err != nil {
			return nil, err
		}
		for i, ok := range allowed {
			if !ok {
				problems = append(problems, fmt.Sprintf("Table.Status.%s: the constraint %q does not allow %q", values[i].field, c.name, texts[i]))
			}
		}
	}
	return problems, nil
}

// compareRelation refuses what is no table, and warns of policies that may hide rows.
func (q *Queue[P, R]) compareRelation(ctx context.Context, tx pgx.Tx, report *CheckReport) (problems []string, err error) {
	var kind string
	var hidden, shown bool
	// Only policies for everybody or for us count, and only the condition "true" is taken to let every row through.
	err = tx.QueryRow(ctx, `
		SELECT c.relkind::text, pg_catalog.row_security_active(c.oid),
		       coalesce((SELECT bool_or(p.polpermissive AND p.polcmd = '*' AND p.everything) AND NOT bool_or(NOT p.polpermissive AND NOT p.everything)
		                 FROM (SELECT p.polpermissive, p.polcmd, coalesce(pg_catalog.pg_get_expr(p.polqual, p.polrelid), 'true') = 'true'
		                              AND coalesce(pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid), 'true') = 'true' AS everything
		                       FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid AND p.polcmd IN ('*', 'r', 'w')
		                         AND EXISTS (SELECT FROM unnest(p.polroles) AS g(id) WHERE g.id = 0 OR pg_catalog.pg_has_role(g.id, 'USAGE'))) p), false)
		FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass($1::text)`, unprepared, q.table.Name.String()).Scan(&kind, &hidden, &shown)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // dropped a moment ago
		return []string{"there is no such table"}, nil
	case err != nil:
		return nil, err
	case kind != "r" && kind != "p":
		what := map[string]string{"v": "a view", "m": "a materialized view", "f": "a foreign table"}[kind]
		return []string{"Table.Name: it is " + what + ", and only tables are supported"}, nil
	case hidden && !shown:
		report.warn("row-level security may hide rows from this role, which are then left as they are; unless it is meant so, add a policy",
			"CREATE POLICY outbox ON %s TO CURRENT_USER USING (true)", q.table.Name)
	}
	return nil, nil
}
