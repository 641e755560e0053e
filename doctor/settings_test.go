package doctor

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// bad are values that hurt, by setting.
func bad() map[string]string {
	return map[string]string{
		"autovacuum": "off", "fsync": "off", "full_page_writes": "off", "synchronous_commit": "off",
		"default_transaction_read_only": "on", "default_transaction_isolation": "repeatable read",
		"client_encoding": "LATIN1",
		"track_counts":    "off", "track_activities": "off",
		"statement_timeout": "200ms", "lock_timeout": "50ms", "idle_in_transaction_session_timeout": "500ms",
		"idle_session_timeout": "5s", "transaction_timeout": "1s",
	}
}

// ofServer are those that hold for the whole server only.
var ofServer = []string{"autovacuum", "fsync", "full_page_writes"}

// durable is a server as in production, with a database on it.
func durable(t *testing.T) *pgqueuetest.DB {
	t.Helper()
	return pgqueuetest.NewServer(t, pgqueuetest.WithDurability()).DB(t)
}

// onServer says whether this version knows the setting.
func onServer(t *testing.T, db *pgqueuetest.DB, name string) bool {
	return value[bool](t, db.Pool, `SELECT EXISTS (SELECT FROM pg_settings WHERE name = $1)`, name)
}

// checkOf is the check of a setting.
func checkOf(t *testing.T, name string) string {
	t.Helper()
	for _, r := range rules() {
		if r.setting == name {
			return r.check
		}
	}
	t.Fatalf("no rule for %s", name)
	return ""
}

func TestEverySettingIsProvoked(t *testing.T) {
	t.Parallel()
	values := bad()
	for _, r := range rules() {
		if values[r.setting] == "" {
			t.Errorf("no test makes %s hurt", r.setting)
		}
		if severity, _ := r.judge(r.good, &Thresholds{StatementTimeout: 5 * time.Second}); severity != 0 {
			t.Errorf("the remedy %s = %s hurts as well", r.setting, r.good)
		}
	}
}

// Each setting in each place where it may be set is found there, and taken back by the statement.
func TestSettings(t *testing.T) {
	t.Parallel()
	db := durable(t)
	database := ident(value[string](t, db.Pool, `SELECT current_database()`))
	execute(t, db.Pool, `CREATE ROLE app LOGIN`)
	app := as(t, db, "app")
	named := Options{Roles: []Role{{Name: "app"}}}
	// A session of the role that hurts may itself be no good for looking: a read-only one is.
	places := []struct {
		name, set, subject string
		from               *pgqueuetest.DB
		options            Options
	}{
		{"the server", "ALTER SYSTEM SET", "server", db, Options{}},
		{"the database", "ALTER DATABASE " + database + " SET", "database", db, Options{}},
		{"all roles", "ALTER ROLE ALL SET", "server", db, Options{}},
		{"the role, by itself", "ALTER ROLE app SET", "role app", app, Options{}},
		{"the role, by name", "ALTER ROLE app SET", "role app", db, named},
		{"the role in the database", "ALTER ROLE app IN DATABASE " + database + " SET", "role app", db, named},
	}
	for _, setting := range slices.Sorted(maps.Keys(bad())) {
		if !onServer(t, db, setting) {
			continue
		}
		for _, place := range places {
			if place.subject != "server" && slices.Contains(ofServer, setting) || place.name == "all roles" && slices.Contains(ofServer, setting) {
				continue
			}
			check := checkOf(t, setting)
			// In one go with a reload: with a short timeout in force the next statement may not come through.
			execute(t, db.Pool, place.set+" "+setting+" = "+literal(bad()[setting]))
			execute(t, db.Pool, `SELECT pg_reload_conf()`)
			place.from.Pool.Reset() // what is set for a role or a database holds for new sessions
			f := awaitSetting(t, place.from, place.options, check, place.subject, setting)
			mendWith(t, db, f)
			place.from.Pool.Reset()
			awaitNone(t, place.from, place.options, check)
		}
	}
}

// awaitSetting is await, which looks for the setting too, and does not mind what is skipped.
func awaitSetting(t *testing.T, db *pgqueuetest.DB, options Options, check, subject, setting string) Finding {
	t.Helper()
	f := await(t, db, options, check, subject)
	if !contains(f.Summary, setting) {
		t.Fatalf("not about %s: %+v", setting, f)
	}
	return f
}

// mendWith applies a finding through sessions that may write: with a read-only default in force others may not.
func mendWith(t *testing.T, db *pgqueuetest.DB, f Finding) {
	t.Helper()
	config := db.Pool.Config()
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "off"
	config.ConnConfig.RuntimeParams["statement_timeout"] = "0"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	apply(t, &pgqueuetest.DB{Pool: pool}, f)
}

// What the connection string says is found for the connection, and words say where to take it out.
func TestSettingsOfTheConnection(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithPoolConfig(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
		c.ConnConfig.RuntimeParams["statement_timeout"] = "900"
	}))
	for check, setting := range map[string]string{"setting-durability": "synchronous_commit", "setting-timeout": "statement_timeout"} {
		f := await(t, db, Options{}, check, "connection")
		requireComplete(t, f)
		if len(f.FixSQL) != 0 || !contains(f.Summary, setting) || !contains(f.Fix, "connection string") {
			t.Errorf("%+v", f)
		}
		// It is the doctor's own connection: nobody asked about it when another role is named.
		if all := examine(t, db, Options{Only: []string{check}, Roles: []Role{{Name: "pg_monitor"}}}).Findings; len(quiet(all)) != 0 {
			t.Errorf("%+v", all)
		}
	}
	if all := examine(t, db, Options{Only: []string{"setting-timeout"}, Thresholds: Thresholds{StatementTimeout: time.Millisecond}}).Findings; len(all) != 0 {
		t.Errorf("the threshold does not count: %+v", all)
	}
}

func TestTimeSetting(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "200": 200 * time.Millisecond, "5s": 5 * time.Second, "1.5 min": 90 * time.Second, "2h": 2 * time.Hour, "1d": 24 * time.Hour, "500us": 500 * time.Microsecond,
	} {
		if got, ok := timeSetting(text); !ok || got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"", "soon", "5 parsecs"} {
		if got, ok := timeSetting(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}
