package migrations_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Who may ask why a job does not run may not see payloads: not even in the query of the session that writes one.
func TestWhyNotRunning_ShowsNoData(t *testing.T) {
	pool := installed(t, "")
	id := waiting(t, pool)
	app := named(t, pool, "shop")
	for _, sql := range []string{
		`UPDATE pgqueue.jobs SET payload='{"pw":"hunter2"}'`,
		"UPDATE pgqueue.jobs -- don't\n SET payload='{\"pw\":\"hunter2\"}'",
		`DO $body$ BEGIN UPDATE pgqueue.jobs SET payload='{"pw":"hunter2"}'; END $body$`,
		`UPDATE pgqueue.jobs SET metadata='{"a": "it\'s hunter2"}'::text::jsonb`,
	} {
		// In the simple protocol: the whole text is what pg_stat_activity shows.
		conn, err := app.Acquire(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range []string{"BEGIN; SET LOCAL standard_conforming_strings = off", "/**/ " + sql} {
			if _, err := conn.Exec(testContext(t), one, pgx.QueryExecModeSimpleProtocol); err != nil {
				conn.Release()
				t.Fatal(err)
			}
		}
		answer := why(t, pool, id)
		requireWords(t, answer, `its row is locked by .*application "shop"`, `last query: (UPDATE pgqueue\.jobs SET|DO \?)`)
		if strings.Contains(answer, "hunter2") {
			t.Errorf("%s\n\tis shown as\n\t%s", sql, answer)
		}
		if _, err := conn.Exec(context.Background(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		conn.Release()
	}
}

func TestQueryInWords(t *testing.T) {
	pool := installed(t, "")
	strange := newPool(t, pool.Config().ConnString(), func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off"
	})
	for query, want := range map[string]string{
		``:                                    ``,
		`SELECT 1`:                            `SELECT ?`,
		"  SELECT\n\t a,  b1 FROM t_2":        `SELECT a, b1 FROM t_2`,
		`a = -1.5e-3 AND b > .5 OR c = 0x1F`:  `a = -?-? AND b > ? OR c = ?`,
		`a = $1 AND b = $12`:                  `a = $1 AND b = $12`,
		`x = 'it''s secret' AND y = ''`:       `x = ? AND y = ?`,
		`x = E'it\'s secret' AND y`:           `x = ? AND y`,
		`x = e'\\' AND y = 'secret'`:          `x = ? AND y = ?`,
		`x = 'it\'s secret' AND y`:            `x = ?…`,
		`x = U&'secret' AND N'secret'`:        `x = U&? AND N?`,
		`x = $$secret 'secret$$ AND y`:        `x = ? AND y`,
		`x = $a$se$$cret $b$ 'x $a$ AND y`:    `x = ? AND y`,
		`x = $ä$secret$ä$ AND ä$b$ = 'c'`:     `x = ? AND ä$b$ = ?`,
		`x = $a$secret`:                       `x = ?…`,
		`x = $secret`:                         `x = ?…`,
		`x = 'secret`:                         `x = ?…`,
		`x = E'secret\'`:                      `x = ?…`,
		`"it's ""1""" = 'secret'`:             `"it's ""1""" = ?`,
		`"secret`:                             `…`,
		"a -- don't 'secret\nb = 'secret' --": `a b = ?`,
		"a -- don't\rb = 'secret'":            `a b = ?`,
		`a /* don't /* secret */ ' */ b = 'secret' /* secret`: `a b = ?`,
		`a - b / c * d`:                   `a - b / c * d`,
		`payload->>'k' @? '$.a' ~ '\d'`:   `payload->>? @? ? ~ ?`,
		strings.Repeat("ab ", 100):        strings.Repeat("ab ", 99) + "ab",
		strings.Repeat("ab ", 101):        strings.Repeat("ab ", 100) + "…",
		strings.Repeat("'secret', ", 500): strings.Repeat("?, ", 100) + "…",
		strings.Repeat("a", 200) + " '" + strings.Repeat("secret", 1000) + "' b": strings.Repeat("a", 200) + " ?…",
	} {
		for _, asking := range []*pgxpool.Pool{pool, strange} {
			if got := value[string](t, asking, `SELECT pgqueue.query_in_words($1)`, query); got != want {
				t.Errorf("%s\n\tis shown as\n\t%s\nwant\n\t%s", query, got, want)
			}
		}
	}
}
