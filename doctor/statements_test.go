package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/migrations"
)

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
	for _, trigger := range ownNames("trigger") {
		if len(made.trigger(trigger)) != 1 {
			t.Errorf("the trigger %s is not made", trigger)
		}
	}
	for _, f := range migrations.Objects() {
		if f.Kind == "function" && (len(made.function(f.Name, true)) != 1 || len(made.function(f.Name, false)) < 2) {
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
