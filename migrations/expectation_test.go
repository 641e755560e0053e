package migrations_test

import (
	"flag"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgserver"
	"github.com/pgqueue/pgqueue/migrations"
)

var update = flag.Bool("update", false, "make expected.txt anew, on a server of each supported version")

// factsOf reads the facts of a schema.
func factsOf(t *testing.T, pool *pgxpool.Pool, schema string) (facts []migrations.Fact) {
	t.Helper()
	err := pgx.BeginTxFunc(testContext(t), pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		facts, err = migrations.ReadFacts(testContext(t), tx, schema)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

// expected.txt is what the migrations make, on the server of this run. With -update it is written anew, from all versions.
func TestTheExpectationIsWhatTheMigrationsMake(t *testing.T) {
	if *update {
		makeExpectation(t)
		return
	}
	// The facts must be the same for a schema of any name.
	pool := newPool(t, newDatabase(t), nil)
	want, unsure, err := migrations.Expectation(value[int](t, pool, `SELECT current_setting('server_version_num')::int / 10000`))
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range append(oddSchemas(), "pgqueue", `a'b\c.d`) {
		mustUp(t, pool, schema)
		have := factsOf(t, pool, schema)
		compare := func(what string, a, b []migrations.Fact) {
			known := map[migrations.Fact]bool{}
			for _, f := range b {
				known[f] = true
			}
			for _, f := range a {
				if !known[f] && !unsure[migrations.Fact{Kind: f.Kind, Name: f.Name, Property: f.Property}] {
					t.Errorf("schema %s, %s: %q", schema, what, f)
				}
			}
		}
		compare("in expected.txt and not in the catalog", want, have)
		compare("in the catalog and not in expected.txt", have, want)
	}
	if t.Failed() {
		t.Log("the migrations have changed: go test ./migrations -run TestTheExpectationIsWhatTheMigrationsMake -update")
	}
}

func makeExpectation(t *testing.T) {
	facts := map[int][]migrations.Fact{}
	for _, major := range migrations.ExpectedMajors() {
		server, err := pgserver.Start(testContext(t), pgserver.Options{Version: major})
		if err != nil {
			t.Fatal(err)
		}
		pool := newPool(t, newDatabaseOn(t, server.URL("postgres")), nil)
		mustUp(t, pool, "")
		facts[major] = factsOf(t, pool, "pgqueue")
		pool.Close()
		if err := server.Stop(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := migrations.WriteExpectation(facts)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("expected.txt", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every version of the expectation has the same objects, and knows every kind and every function's body.
func TestTheExpectationKnowsEveryVersion(t *testing.T) {
	t.Parallel()
	objects := func(major int) (all []migrations.Fact, kinds map[string]bool) {
		facts, _, err := migrations.Expectation(major)
		if err != nil {
			t.Fatal(err)
		}
		kinds = map[string]bool{}
		for _, f := range facts {
			all = append(all, migrations.Fact{Kind: f.Kind, Name: f.Name})
			kinds[f.Kind] = true
			if f.Property == "body" && f.Value == "another" || f.Property == "valid" && f.Value != "true" {
				t.Errorf("no fresh installation is like that: %q", f)
			}
		}
		return slices.Compact(all), kinds
	}
	oldest, kinds := objects(migrations.ExpectedMajors()[0])
	for _, major := range append(migrations.ExpectedMajors(), 99) {
		if now, _ := objects(major); !slices.Equal(now, oldest) {
			t.Errorf("the objects of version %d are others than those of %d", major, migrations.ExpectedMajors()[0])
		}
	}
	want := []string{"column", "comment", "constraint", "function", "index", "sequence", "storage", "table", "trigger", "view"}
	if have := slices.Sorted(maps.Keys(kinds)); !slices.Equal(have, want) {
		t.Errorf("kinds %v, want %v", have, want)
	}
	list := migrations.Objects()
	if len(list) != len(oldest) {
		t.Errorf("Objects lists %d of %d", len(list), len(oldest))
	}
	for i, o := range list {
		if o.Kind != oldest[i].Kind || o.Name != oldest[i].Name {
			t.Errorf("Objects has %v in the place of %v", o, oldest[i])
		}
	}
	if !slices.Contains(list, migrations.Object{Kind: "index", Name: "jobs_ready", Parent: "jobs"}) {
		t.Error("Objects does not know the table of jobs_ready")
	}
}
