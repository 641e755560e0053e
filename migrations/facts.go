package migrations

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // facts.sql
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// fact is one property of one object of the schema, as text. Objects of all kinds are compared by their facts.
type fact struct {
	Kind, Name, Property, Value string
}

// key is the fact without its value.
func (f fact) key() fact { return fact{Kind: f.Kind, Name: f.Name, Property: f.Property} }

func compareFacts(a, b fact) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name), strings.Compare(a.Property, b.Property),
		strings.Compare(a.Value, b.Value))
}

//go:embed facts.sql
var factsSQL string

// The settings on which the texts of the catalog depend; they end with the transaction.
const textsSQL = `
	SELECT set_config('search_path', $1::text, true), set_config('datestyle', 'ISO, YMD', true), set_config('intervalstyle', 'postgres', true),
	       set_config('quote_all_identifiers', 'off', true), set_config('standard_conforming_strings', 'on', true),
	       set_config('extra_float_digits', '1', true), set_config('jit', 'off', true)`

// The text of a view depends on the search_path: names in it are written without their schema. With ours behind the catalog
// the text is the same for a schema of any name. Everything in this query is qualified, because under that path a function or operator
// of somebody else could take the place of one that is meant.
const viewsSQL = `
	SELECT 'view', c.relname::pg_catalog.text, 'definition', pg_catalog.pg_get_viewdef(c.oid)
	FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	WHERE n.nspname OPERATOR(pg_catalog.=) $1::pg_catalog.name AND c.relkind OPERATOR(pg_catalog.=) 'v'::pg_catalog."char"`

// The texts of function bodies, in which the schema's name stands.
const bodiesSQL = `
	SELECT 'function', p.proname || '(' || replace(pg_get_function_identity_arguments(p.oid), quote_ident(n.nspname) || '.', '') || ')', 'body', p.prosrc
	FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
	WHERE n.nspname = $1::text`

// readFacts reads the facts of a schema. Texts of views and functions are only ever compared, and told by a hash.
func readFacts(ctx context.Context, tx pgx.Tx, schema string) ([]fact, error) {
	const safePath = "pg_catalog, pg_temp"
	facts, err := queryFacts(ctx, tx, safePath, factsSQL, schema, Channel(schema))
	if err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	functions, err := queryFacts(ctx, tx, safePath, bodiesSQL, schema)
	if err != nil {
		return nil, fmt.Errorf("read the functions: %w", err)
	}
	ours, err := bodies(schema)
	if err != nil {
		return nil, err
	}
	for _, f := range functions {
		if f.Value = ours[f.Value]; f.Value == "" {
			f.Value = "another"
		}
		facts = append(facts, f)
	}
	views, err := queryFacts(ctx, tx, "pg_catalog, "+pgx.Identifier{schema}.Sanitize()+", pg_temp", viewsSQL, schema)
	if err != nil {
		return nil, fmt.Errorf("read the views: %w", err)
	}
	for _, f := range views {
		f.Value = shortHash(f.Value)
		facts = append(facts, f)
	}
	slices.SortFunc(facts, compareFacts)
	return facts, nil
}

// queryFacts runs one of the queries under a search_path.
func queryFacts(ctx context.Context, tx pgx.Tx, path, sql string, args ...any) ([]fact, error) {
	if _, err := tx.Exec(ctx, textsSQL, pgx.QueryExecModeExec, path); err != nil {
		return nil, fmt.Errorf("set up the transaction: %w", err)
	}
	rows, err := tx.Query(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[fact])
}

// bodies are the hashes of all function bodies in the migrations, by their text in this schema. The hash is that of the template: it is
// the same for a schema of any name, while no text in which names were put could be turned back with certainty.
func bodies(schema string) (map[string]string, error) {
	names, err := fs.Glob(templates, "sql/*.up.sql")
	if err != nil {
		return nil, fmt.Errorf("list the migrations: %w", err)
	}
	replacer := newReplacer(schema)
	found := map[string]string{}
	for _, name := range names {
		text, err := fs.ReadFile(templates, name)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		// Every second part lies between two dollar quotes.
		for i, part := range strings.Split(string(text), "{tag}") {
			if i%2 == 1 {
				found[replacer.Replace(part)] = shortHash(part)
			}
		}
	}
	return found, nil
}

// shortHash stands for a text that is only ever compared.
func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
