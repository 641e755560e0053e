package doctor

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A connection in another encoding is named, and everything else is examined all the same, whatever is in the catalog.
func TestAConnectionInAnotherEncoding(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithSchema("größe — 大"))
	execute(t, db.Pool, `GRANT SELECT ON `+ident(db.Schema, "queues")+` TO PUBLIC; COMMENT ON COLUMN `+ident(db.Schema, "jobs")+`.id IS '大'`)
	for _, encoding := range []string{"LATIN1", "WIN1252", "EUC_JP"} {
		config := db.Pool.Config()
		config.ConnConfig.RuntimeParams["client_encoding"] = encoding
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		report := examine(t, &pgqueuetest.DB{Pool: pool, Schema: db.Schema}, Options{Roles: []Role{{Purposes: purposes()}}})
		if len(report.Skipped) != 0 {
			t.Errorf("%s: %+v", encoding, report.Skipped)
		}
		if found := quiet(report.Findings); len(found) != 2 || len(report.Of("setting-encoding")) != 1 || len(report.Of("open-to-all")) != 1 {
			t.Errorf("%s:\n%s", encoding, report)
		}
		if got := value[string](t, pool, `SELECT current_setting('client_encoding')`); got != encoding {
			t.Errorf("the pool's connections are changed: %s", got)
		}
	}
}

// A database in another encoding lets its clients speak that, unless somebody says otherwise.
func TestADatabaseInAnotherEncoding(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.NewServer(t).DB(t)
	execute(t, db.Pool, `CREATE DATABASE old TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'`)
	config := db.Pool.Config()
	config.ConnConfig.Database = "old"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	old := &pgqueuetest.DB{Pool: pool, Schema: db.Schema, URL: db.URL}
	apply(t, old, await(t, old, Options{}, "setting-encoding", "database old"))
	pool.Reset()
	awaitNone(t, old, Options{}, "setting-encoding")
}

func TestGoodEncoding(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"UTF8": true, "utf-8": true, "Unicode": true, "'UTF8'": true, "SQL_ASCII": true, "LATIN1": false, "WIN1252": false, "": false, "UTF16": false,
	} {
		if goodEncoding(name) != good {
			t.Errorf("%q: %v", name, !good)
		}
	}
}
