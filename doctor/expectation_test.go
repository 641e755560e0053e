package doctor

import (
	"context"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

var update = flag.Bool("update", false, "make expected.txt anew, on a server of each supported version")

// newExamination is an examination of a database that is ready to read.
func newExamination(t *testing.T, db *pgqueuetest.DB) *examination {
	t.Helper()
	options, err := Options{Schema: db.Schema}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	x := &examination{db: db.Pool, o: options}
	if err := x.getBearings(t.Context()); err != nil {
		t.Fatal(err)
	}
	return x
}

// expected.txt is what the migrations make, on the server of this run. With -update it is written anew, from all versions.
func TestTheExpectationIsWhatTheMigrationsMake(t *testing.T) {
	if *update {
		facts := map[int][]fact{}
		for _, major := range expectedMajors() {
			x := newExamination(t, pgqueuetest.NewServer(t, pgqueuetest.WithPostgresVersion(major)).DB(t))
			found, err := readFacts(t.Context(), x)
			if err != nil {
				t.Fatal(err)
			}
			facts[major] = found
		}
		text, err := writeExpectation(facts)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("expected.txt", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	// The text must be the same for a schema of any name: also for one that could be mistaken for something else in it.
	for _, schema := range []string{"pgqueue", `My "jobs"; --`, "jobs", `a'b\c.d`} {
		x := newExamination(t, pgqueuetest.New(t, pgqueuetest.WithSchema(schema)))
		want, unsure, err := expectation(x.server.Number / 10000)
		if err != nil {
			t.Fatal(err)
		}
		have, err := readFacts(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		compare := func(what string, a, b []fact) {
			known := map[fact]bool{}
			for _, f := range b {
				known[f] = true
			}
			for _, f := range a {
				if !known[f] && !unsure[f.key()] {
					t.Errorf("schema %s, %s: %q", schema, what, f)
				}
			}
		}
		compare("in expected.txt and not in the catalog", want, have)
		compare("in the catalog and not in expected.txt", have, want)
	}
	if t.Failed() {
		t.Log("the migrations have changed: go test ./doctor -run TestTheExpectationIsWhatTheMigrationsMake -update")
	}
}

// Every version of the expectation has the same objects, and knows every kind.
func TestTheExpectationKnowsEveryVersion(t *testing.T) {
	t.Parallel()
	objects := func(major int) (all []fact, kinds map[string]bool) {
		facts, _, err := expectation(major)
		if err != nil {
			t.Fatal(err)
		}
		kinds = map[string]bool{}
		for _, f := range facts {
			all = append(all, f.object())
			kinds[f.Kind] = true
		}
		return slices.Compact(all), kinds
	}
	oldest, kinds := objects(expectedMajors()[0])
	for _, major := range append(expectedMajors(), 99) {
		if now, _ := objects(major); !slices.Equal(now, oldest) {
			t.Errorf("the objects of version %d are others than those of %d", major, expectedMajors()[0])
		}
	}
	want := []string{"column", "comment", "constraint", "function", "index", "sequence", "storage", "table", "view"}
	if have := slices.Sorted(maps.Keys(kinds)); !slices.Equal(have, want) {
		t.Errorf("kinds %v, want %v", have, want)
	}
}

// The migrations' statements are found again for every object that may be missing: else its finding could not be mended.
func TestEveryObjectIsFoundInTheMigrations(t *testing.T) {
	t.Parallel()
	made, err := newStatements(`My "jobs"; --`)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range ownNames("table") {
		if table != "pgqueue_migrations" && len(made.table(table, nil)) < 2 {
			t.Errorf("the table %s is not made", table)
		}
	}
	for _, view := range ownNames("view") {
		if len(made.view(view, true)) != 1 || len(made.view(view, false)) < 2 {
			t.Errorf("the view %s is not made, or has no comment", view)
		}
	}
	facts, _, err := expectation(expectedMajors()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		if f.Kind == "function" && f.Property == "result" &&
			(len(made.function(f.Name, true)) != 1 || made.body(f.Name) == "" || len(made.function(f.Name, false)) < 2) {
			t.Errorf("the function %s is not made, or has no comment", f.Name)
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	const sql = `
-- a comment; with a semicolon
SELECT 'it''s; one', "a;b", E'\';', $1; /* ; */ DO $x$ BEGIN; -- $y$
END $x$;

  -- another
CREATE TABLE t (a int -- kept; inside
);;
last`
	want := []string{
		`SELECT 'it''s; one', "a;b", E'\';', $1`, "/* ; */ DO $x$ BEGIN; -- $y$\nEND $x$", "CREATE TABLE t (a int -- kept; inside\n)", "last",
	}
	if got := split(sql); !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), strings.Join(want, "|"))
	}
}

// What is read of another schema of the same database is its own.
func TestTwoSchemasOfOneDatabaseAreApart(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	x := newExamination(t, db)
	before, err := readFacts(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	migrate(t, db, "other")
	execute(t, db.Pool, `ALTER TABLE other.jobs ADD COLUMN mine int`)
	after, err := readFacts(context.WithoutCancel(t.Context()), x)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before, after) {
		t.Error("a column of another schema changes what is read of ours")
	}
}
