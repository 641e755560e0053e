package migrations_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func TestCitusSQLIsForOneSchema(t *testing.T) {
	t.Parallel()
	text, err := migrations.CitusSQL("")
	if err != nil || !strings.Contains(text, `"pgqueue".jobs`) {
		t.Errorf("%v: %.200s", err, text)
	}
	for _, placeholder := range []string{"{schema}", "{schema_literal}", "{channel_literal}", "{control_literal}", "{tag}"} {
		if strings.Contains(text, placeholder) {
			t.Errorf("%s was left in it", placeholder)
		}
	}
	var refused *migrations.SchemaError
	if _, err := migrations.CitusSQL("pg_x"); !errors.As(err, &refused) {
		t.Error(err)
	}
}

// On a Postgres without Citus it says so and changes nothing.
func TestCitusSQLWithoutCitus(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	text, err := migrations.CitusSQL(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Pool.Exec(t.Context(), text)
	var fromServer *pgconn.PgError
	if !errors.As(err, &fromServer) || fromServer.Code != "42704" || !strings.Contains(fromServer.Message, "citus") || fromServer.Hint == "" {
		t.Error(err)
	}
	var key string
	if err := db.Pool.QueryRow(t.Context(), "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'jobs_pkey'").Scan(&key); err != nil || key != "PRIMARY KEY (id)" {
		t.Errorf("%q: %v", key, err)
	}
}

// The file replaces functions of the numbered migrations: were one of them renamed or given other arguments, a second function would
// stand beside it.
func TestCitusSQLReplacesWhatIsThere(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	text, err := migrations.CitusSQL(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	const functions = `SELECT coalesce(string_agg(p.oid::regprocedure::text || ' returns ' || pg_get_function_result(p.oid) || ' ' || p.prosecdef || ' ' || coalesce(p.proacl::text, '-'), E'\n' ORDER BY p.oid), '')
		FROM pg_proc p WHERE p.pronamespace = 'pgqueue'::regnamespace`
	var before, after string
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if err := tx.QueryRow(t.Context(), functions).Scan(&before); err != nil {
		t.Fatal(err)
	}
	_, only, found := strings.Cut(text, "CREATE OR REPLACE FUNCTION")
	if !found {
		t.Fatal("it replaces nothing")
	}
	if _, err := tx.Exec(t.Context(), "CREATE OR REPLACE FUNCTION"+only); err != nil {
		t.Fatal(err)
	}
	if err := tx.QueryRow(t.Context(), functions).Scan(&after); err != nil {
		t.Fatal(err)
	}
	if before != after {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}
