package outbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/outbox"
)

func TestCheckFindsWhatCannotWork(t *testing.T) {
	t.Parallel()
	for want, test := range map[string]struct {
		change func(*shape)
		sql    string
	}{
		`there is no column "failures"`:                           {func(s *shape) { s.failures = true }, `ALTER TABLE app.deliveries DROP failures`},
		`column "attempts" is text, which is not an`:              {nil, `ALTER TABLE app.deliveries ALTER attempts DROP DEFAULT, ALTER attempts TYPE text`},
		`which is not timestamp with time zone`:                   {nil, `ALTER TABLE app.deliveries ALTER created_at TYPE timestamp`},
		`keeps 3 digits of a second`:                              {nil, `ALTER TABLE app.deliveries ALTER attempted_at TYPE timestamptz(3)`},
		`"attempted_at" must allow NULL`:                          {nil, `ALTER TABLE app.deliveries ALTER attempted_at SET NOT NULL`},
		`has no label "dead"`:                                     {func(s *shape) { s.status = "enum" }, `ALTER TYPE app."Delivery Status" RENAME VALUE 'dead' TO 'deceased'`},
		`column "id" is integer, and the description says bigint`: {nil, `ALTER TABLE app.deliveries ALTER id TYPE int`},
		`there is no unique index over "id"`:                      {nil, `ALTER TABLE app.deliveries DROP CONSTRAINT deliveries_pkey`},
		`there is no table`:                                       {nil, `ALTER TABLE app.deliveries RENAME TO others`},
		`cannot be planned`:                                       {nil, `ALTER TABLE app.deliveries DROP body`},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			db := database(t)
			s := plain()
			s.index = false
			if test.change != nil {
				test.change(&s)
			}
			q := s.open(t, db.Pool, outbox.Config{})
			if _, err := q.Check(t.Context()); err != nil {
				t.Fatalf("before: %v", err)
			}
			exec(t, db.Pool, test.sql)
			if _, err := q.Check(t.Context()); !errors.Is(err, outbox.ErrDescription) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCheckNamesMissingRights(t *testing.T) {
	t.Parallel()
	db := database(t)
	s := plain()
	s.create(t, db.Pool)
	name := "outbox " + db.Pool.Config().ConnConfig.Database
	role := quoted(name)
	exec(t, db.Pool, `CREATE ROLE `+role)
	t.Cleanup(func() { exec(t, db.Pool, `DROP OWNED BY `+role+`; DROP ROLE `+role) })
	exec(t, db.Pool, `GRANT USAGE ON SCHEMA app TO `+role+`; GRANT SELECT ON app.deliveries TO `+role)
	config := db.Pool.Config()
	config.ConnConfig.RuntimeParams["role"] = name
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := s.queue(t, pool, outbox.Config{}).Check(t.Context()); !errors.Is(err, outbox.ErrDescription) ||
		!strings.Contains(err.Error(), `may not UPDATE column "attempts"`) {
		t.Errorf("got %v", err)
	}
	exec(t, db.Pool, `GRANT UPDATE (status, attempts, next_attempt_at, attempted_at, error_code, last_error, finished_at) ON app.deliveries TO `+role)
	if _, err := s.queue(t, pool, outbox.Config{}).Check(t.Context()); err != nil {
		t.Errorf("with the rights of the docs: %v", err)
	}
	insert(t, db.Pool, 1, 1)
	w := newWorker(t, s.queue(t, pool, outbox.Config{}), nothing)
	if got := drain(t, w); got.Outcomes.Succeeded != 1 {
		t.Errorf("%+v", got)
	}
}

// Each warning comes with a statement that, once run, makes it go away.
func TestWarningsAreCuredByTheirStatements(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*shape){
		"text": func(*shape) {}, "enum": func(s *shape) { s.status = "enum" }, "smallint": func(s *shape) { s.status = "smallint" },
		"priority": func(s *shape) { s.priority = true }, "composite": func(s *shape) { s.key = keys()["composite"].columns },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := database(t)
			s := plain()
			s.index = false
			change(&s)
			s.create(t, db.Pool)
			exec(t, db.Pool, `ALTER TABLE app.deliveries ALTER next_attempt_at DROP NOT NULL`)
			table := s.table()
			table.Unique = [][]string{{"name", "body"}}
			q, err := outbox.New(db.Pool, table, outbox.Config{})
			if err != nil {
				t.Fatal(err)
			}
			report, err := q.Check(t.Context())
			if err != nil || len(report.Warnings) != 4 || report.Poll <= 0 {
				t.Fatalf("%+v, %v", report, err)
			}
			for _, warning := range report.Warnings {
				if strings.HasPrefix(warning.Statement, "CREATE") && !strings.Contains(warning.Statement, "CONCURRENTLY") {
					t.Errorf("%q would lock the table", warning.Statement)
				}
				if _, err := db.Pool.Exec(t.Context(), warning.Statement, pgx.QueryExecModeSimpleProtocol); err != nil {
					t.Errorf("%q: %v", warning.Statement, err)
				}
			}
			if report, err = q.Check(t.Context()); err != nil || len(report.Warnings) != 0 {
				t.Errorf("afterwards: %+v, %v", report, err)
			}
		})
	}
}

func TestSQLIsPrintedForReview(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().queue(t, db.Pool, outbox.Config{})
	names := ""
	for _, s := range q.SQL() {
		names += s.Name + " "
		if s.Doc == "" && !strings.HasSuffix(s.Name, "clock") || s.SQL == "" || strings.Contains(s.SQL, "--") || strings.Contains(s.SQL, "<no value>") {
			t.Errorf("statement %+v", s)
		}
		if !strings.Contains(s.SQL, `"app"."deliveries"`) && s.Name != "clock" {
			t.Errorf("%s does not name the table with its schema", s.Name)
		}
	}
	for _, want := range []string{"claim ", "claim_one ", "report ", "success ", "reap ", "resume_where "} {
		if !strings.Contains(names, want) {
			t.Errorf("there is no statement %sin %s", want, names)
		}
	}
	if strings.Contains(names, "renew") {
		t.Error("a table without a lease is renewed")
	}
}
