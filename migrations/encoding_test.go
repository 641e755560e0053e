package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/migrations"
)

// Functions hold characters that not every encoding has. A session that speaks another one than UTF-8 installs the same bodies, and a
// database of another one is refused before anything is made.
func TestUp_Encodings(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t), nil)
	conn, err := pgx.Connect(testContext(t), pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(testContext(t))
	if _, err := conn.Exec(testContext(t), `SET client_encoding = 'LATIN1'`); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Up(testContext(t), conn, "", quiet()); err != nil {
		t.Fatal(err)
	}
	requireNoDrift(t, pool, "")
	if encoding := conn.PgConn().ParameterStatus("client_encoding"); encoding != "LATIN1" {
		t.Errorf("the session speaks %s afterwards", encoding)
	}

	name := pool.Config().ConnConfig.Database + "_latin1"
	run(t, pool, `CREATE DATABASE `+name+` TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'`)
	config := pool.Config().ConnConfig.Copy()
	config.Database = name
	old, err := pgx.ConnectConfig(testContext(t), config)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close(testContext(t))
	err = migrations.Up(testContext(t), old, "", quiet())
	if err == nil || !strings.Contains(err.Error(), "encoding of the database is LATIN1 and must be UTF8") {
		t.Errorf("up of a LATIN1 database: %v", err)
	}
	var schemas int
	if err := old.QueryRow(testContext(t), `SELECT count(*) FROM pg_namespace WHERE nspname = 'pgqueue'`).Scan(&schemas); err != nil || schemas != 0 {
		t.Errorf("%d schemas are left, %v", schemas, err)
	}
}
