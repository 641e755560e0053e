package outbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/pgqueuetest"
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
		`column "id" allows NULL`: {nil, `ALTER TABLE app.deliveries DROP CONSTRAINT deliveries_pkey, ALTER id DROP NOT NULL;
			CREATE UNIQUE INDEX ON app.deliveries (id)`},
		`"processing" is longer than the 9 characters`: {nil, `ALTER TABLE app.deliveries ALTER status TYPE varchar(9)`},
		`Processing: the constraint "known" does not allow "processing"`: {nil, `ALTER TABLE app.deliveries ADD CONSTRAINT known
			CHECK (status IN ('pending', 'delivered', 'failed', 'dead'))`},
		`Dead: the constraint "small" does not allow "-4"`: {func(s *shape) { s.status = "smallint" }, `ALTER TABLE app.deliveries ADD CONSTRAINT small CHECK (status >= 0)`},
		`it is a view, and only tables are supported`:      {nil, `ALTER TABLE app.deliveries RENAME TO others; CREATE VIEW app.deliveries AS SELECT * FROM app.others`},
		`cannot be planned`:                                {nil, `ALTER TABLE app.deliveries DROP body`},
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

// A label that the type cannot hold is told as a part of the description.
func TestCheckFindsLabelsThatAreOutOfRange(t *testing.T) {
	t.Parallel()
	db := database(t)
	s := plain()
	s.status = "smallint"
	s.create(t, db.Pool)
	table := s.table()
	table.Status.Dead = "99999"
	q, err := outbox.New(db.Pool, table, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Check(t.Context()); !errors.Is(err, outbox.ErrDescription) || !strings.Contains(err.Error(), `Table.Status.Dead: "99999" is no value of a smallint`) {
		t.Errorf("got %v", err)
	}
}

// Scan is tried before a row has to fail for it.
func TestCheckTriesScan(t *testing.T) {
	t.Parallel()
	db := database(t)
	s := plain()
	s.create(t, db.Pool)
	for name, test := range map[string]struct {
		change func(*outbox.Table[row, result])
		want   string
	}{
		"a column less, by name": {func(t *outbox.Table[row, result]) { t.Columns = []string{"t.name"} }, "Table.Scan"},
		"a column more, by name": {func(t *outbox.Table[row, result]) { t.Columns = append(t.Columns, "t.id") }, "Table.Scan"},
		"a column less, by position": {func(t *outbox.Table[row, result]) {
			t.Columns, t.Scan = []string{"t.name"}, pgx.RowToStructByPos[row]
		}, "Table.Scan"},
		"a destination too many": {func(t *outbox.Table[row, result]) {
			t.Scan = func(from pgx.CollectableRow) (r row, err error) { return r, from.Scan(&r.Name, &r.Body, &r.Body) }
		}, "scan of 2 columns into 3 destinations"},
		"as it should be": {func(*outbox.Table[row, result]) {}, ""},
		"by hand, and the values matter": {func(t *outbox.Table[row, result]) {
			t.Scan = func(from pgx.CollectableRow) (r row, err error) {
				if err := from.Scan(&r.Name, &r.Body); err != nil {
					return r, err
				}
				if r.Name == "" {
					return r, errors.New("a row without a name")
				}
				return r, nil
			}
		}, ""},
		"by hand, and it panics": {func(t *outbox.Table[row, result]) {
			t.Scan = func(from pgx.CollectableRow) (r row, err error) {
				values, err := from.Values()
				return row{Name: values[0].(string)}, err
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := s.table()
			test.change(&table)
			q, err := outbox.New(db.Pool, table, outbox.Config{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = q.Check(t.Context())
			if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, outbox.ErrDescription) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// What works, and should be known.
func TestCheckWarns(t *testing.T) {
	t.Parallel()
	for want, test := range map[string]struct {
		sql   string
		cures bool // the statement of the warning makes it go away
	}{
		`column "status" is "new" by default`: {`ALTER TABLE app.deliveries ALTER status SET DEFAULT 'new'`, true},
		`row-level security may hide rows`:    {`ALTER TABLE app.deliveries ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY`, true},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			db := database(t)
			s := plain()
			s.create(t, db.Pool)
			exec(t, db.Pool, test.sql)
			name := "outbox owner " + db.Pool.Config().ConnConfig.Database
			role := quoted(name)
			exec(t, db.Pool, `CREATE ROLE `+role)
			t.Cleanup(func() { exec(t, db.Pool, `DROP OWNED BY `+role+`; DROP ROLE `+role) })
			exec(t, db.Pool, `GRANT ALL ON SCHEMA app TO `+role+`; ALTER TABLE app.deliveries OWNER TO `+role)
			config := db.Pool.Config()
			config.ConnConfig.RuntimeParams["role"] = name
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			q := s.queue(t, pool, outbox.Config{})
			report, err := q.Check(t.Context())
			if err != nil || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0].Message, want) {
				t.Fatalf("%+v, %v", report, err)
			}
			exec(t, pool, report.Warnings[0].Statement)
			if report, err = q.Check(t.Context()); err != nil || len(report.Warnings) != 0 {
				t.Errorf("afterwards: %+v, %v", report, err)
			}
		})
	}
}

// A pool that is too small for the transactions of its handlers is told of.
func TestCheckWarnsOfAPoolThatIsTooSmallForHandleTx(t *testing.T) {
	t.Parallel()
	db := database(t, pgqueuetest.WithPoolConfig(func(c *pgxpool.Config) { c.MaxConns = 7 }))
	s := plain()
	s.create(t, db.Pool)
	for workers, want := range map[int]string{4: "", 5: "the pool has 7 connections, so of 5 workers only 4 can have a transaction open at a time"} {
		q := s.queue(t, db.Pool, outbox.Config{Workers: workers})
		if report, err := q.Check(t.Context()); err != nil || len(report.Warnings) != 0 {
			t.Errorf("%d workers without transactions: %+v, %v", workers, report, err)
		}
		transactional(t, q, func(context.Context, pgx.Tx, *task) (result, error) { return result{}, nil })
		report, err := q.Check(t.Context())
		if err != nil || (len(report.Warnings) == 1) != (want != "") || want != "" && (!strings.Contains(report.Warnings[0].Message, want) ||
			!strings.HasSuffix(report.Warnings[0].Message, "give it 8")) {
			t.Errorf("%d workers: %+v, %v", workers, report, err)
		}
	}
}
