package doctor

import (
	"context"
	"crypto/sha256"
	_ "embed" // facts.sql and the expectation
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pgqueue/pgqueue/migrations"
)

// fact is one property of one object of the schema, as text. Objects of all kinds are compared by their facts.
type fact struct {
	Kind, Name, Property, Value string
}

//go:embed facts.sql
var factsSQL string

// The text of a view depends on the search_path: names in it are written without their schema. With ours behind the catalog
// the text is the same for a schema of any name. Everything in this query is qualified, because under that path a function or operator
// of somebody else could take the place of one that is meant.
const viewsSQL = `
	SELECT 'view', c.relname::pg_catalog.text, 'definition', pg_catalog.pg_get_viewdef(c.oid)
	FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	WHERE n.nspname OPERATOR(pg_catalog.=) $1::pg_catalog.name AND c.relkind OPERATOR(pg_catalog.=) 'v'::pg_catalog."char"`

// The texts of function bodies, which hold the schema's name and are compared with the migrations themselves.
const bodiesSQL = `
	SELECT 'function', p.proname || '(' || replace(pg_get_function_identity_arguments(p.oid), quote_ident(n.nspname) || '.', '') || ')', 'body', p.prosrc
	FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
	WHERE n.nspname = $1::text`

// readFacts reads the facts of the schema. Those of views are hashed, for they are long and are only ever compared.
func readFacts(ctx context.Context, x *examination) ([]fact, error) {
	facts, err := read[fact](ctx, x, factsSQL, x.o.Schema, migrations.Channel(x.o.Schema))
	if err != nil {
		return nil, err
	}
	views, err := readWith[fact](ctx, x, textsSQL+timeoutsSQL, "pg_catalog, "+ident(x.o.Schema), viewsSQL, x.o.Schema)
	if err != nil {
		return nil, err
	}
	for _, view := range views {
		sum := sha256.Sum256([]byte(view.Value))
		view.Value = hex.EncodeToString(sum[:8])
		facts = append(facts, view)
	}
	slices.SortFunc(facts, compareFacts)
	return facts, nil
}

func compareFacts(a, b fact) int {
	return firstDifference(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name), strings.Compare(a.Property, b.Property),
		strings.Compare(a.Value, b.Value))
}

func firstDifference(order ...int) int {
	for _, o := range order {
		if o != 0 {
			return o
		}
	}
	return 0
}

// expectedText is what readFacts finds where the migrations have just been applied. It is made from the migrations, on a server of each
// major version: go test ./doctor -run TestTheExpectationIsWhatTheMigrationsMake -update
//
//go:embed expected.txt
var expectedText string

// expectedMajors are the versions that expected.txt knows.
func expectedMajors() []int { return []int{14, 15, 16, 17, 18} }

// key is a fact without its value.
func (f fact) key() fact { return fact{Kind: f.Kind, Name: f.Name, Property: f.Property} }

// object is what the fact is about.
func (f fact) object() fact { return fact{Kind: f.Kind, Name: f.Name} }

// expectation parses expected.txt for a server's major version. For a version that it does not know, the properties that servers write
// differently from version to version are returned as uncertain instead.
func expectation(major int) (facts []fact, uncertain map[fact]bool, err error) {
	known := slices.Contains(expectedMajors(), major)
	uncertain = map[fact]bool{}
	for n, line := range strings.Split(strings.TrimRight(expectedText, "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "\t")
		if len(cells) < 4 || len(cells) > 5 {
			return nil, nil, fmt.Errorf("expected.txt, line %d: %d cells", n+1, len(cells))
		}
		f := fact{Kind: cells[0], Name: cells[1], Property: cells[2], Value: cells[3]}
		switch {
		case len(cells) == 4 || slices.Contains(strings.Split(cells[4], ","), strconv.Itoa(major)):
			facts = append(facts, f)
		case !known:
			uncertain[f.key()] = true
		}
	}
	return facts, uncertain, nil
}

// writeExpectation is the inverse: the facts of several major versions as text, with the versions where not all agree.
func writeExpectation(facts map[int][]fact) (string, error) {
	versions := map[fact][]string{}
	for _, major := range expectedMajors() {
		for _, f := range facts[major] {
			if text := f.Kind + f.Name + f.Property + f.Value; strings.ContainsAny(text, "\t\n") {
				return "", fmt.Errorf("%q cannot be written on one line", text)
			}
			versions[f] = append(versions[f], strconv.Itoa(major))
		}
	}
	var all []fact
	for f := range versions {
		all = append(all, f)
	}
	slices.SortFunc(all, compareFacts)
	var b strings.Builder
	fmt.Fprintf(&b, "# The catalog after migration %d: kind, name, property, value, and the major versions of Postgres if not all agree.\n", migrations.Latest)
	b.WriteString("# Made by: go test ./doctor -run TestTheExpectationIsWhatTheMigrationsMake -update\n")
	for _, f := range all {
		b.WriteString(strings.Join([]string{f.Kind, f.Name, f.Property, f.Value}, "\t"))
		if on := versions[f]; len(on) < len(facts) {
			b.WriteString("\t" + strings.Join(on, ","))
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}

// ownNames returns the names of what the migrations make of a kind: "table", "view", "function" (without arguments). Without the
// daily partitions of history.
func ownNames(kind string) []string {
	var names []string
	for _, line := range strings.Split(expectedText, "\n") {
		cells := strings.Split(line, "\t")
		if len(cells) < 4 || cells[0] != kind {
			continue
		}
		if name, _, _ := strings.Cut(cells[1], "("); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
