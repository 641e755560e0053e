package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// effective is a setting as it holds for a role, and where it comes from.
type effective struct {
	Role, Setting, Value, Source string
}

// rule says when a setting hurts.
type rule struct {
	check, setting string
	// judge returns how bad a value is (0 = good) and says it in words.
	judge func(value string, t *Thresholds) (Severity, string)
	why   string
	good  string // a value for the whole server that is never bad
}

// isOff, for settings that are on or off.
func isOff(severity Severity) func(string, *Thresholds) (Severity, string) {
	return func(value string, _ *Thresholds) (Severity, string) {
		switch strings.ToLower(value) {
		case "off", "false", "no", "0":
			return severity, "is off"
		}
		return 0, ""
	}
}

// isShort, for timeouts: 0 turns them off.
func isShort(severity Severity, least func(*Thresholds) time.Duration) func(string, *Thresholds) (Severity, string) {
	return func(value string, t *Thresholds) (Severity, string) {
		d, ok := timeSetting(value)
		if !ok || d <= 0 || d >= least(t) {
			return 0, ""
		}
		return severity, fmt.Sprintf("is %s", d)
	}
}

func atLeast(d time.Duration) func(*Thresholds) time.Duration {
	return func(*Thresholds) time.Duration { return d }
}

// rules are all settings that are looked at, in the order in which they are told.
func rules() []rule {
	return []rule{
		{"autovacuum-off", "autovacuum", isOff(Error), "Dead rows stay for ever, and every claim walks past them.", "on"},
		{"setting-durability", "fsync", isOff(Error), "A crash of the machine may destroy the whole database, jobs included.", "on"},
		{"setting-durability", "full_page_writes", isOff(Error), "A crash of the machine may leave half-written pages, which nothing repairs.", "on"},
		{"setting-durability", "synchronous_commit", isOff(Warning), "An enqueue that was answered may be gone after a crash of the server, and a job that was done may run again.", "on"},
		{"setting-read-only", "default_transaction_read_only",
			func(value string, t *Thresholds) (Severity, string) {
				if s, _ := isOff(Error)(value, t); s != 0 {
					return 0, ""
				}
				return Error, "is on"
			}, "Enqueue, claim and completion fail with 25006.", "off"},
		{"setting-isolation", "default_transaction_isolation",
			func(value string, _ *Thresholds) (Severity, string) {
				if value = strings.ToLower(value); value == "repeatable read" || value == "serializable" {
					return Warning, "is " + value
				}
				return 0, ""
			}, "pgqueue's own transactions ask for READ COMMITTED, the application's that enqueue do not: with keys they fail with 40001 and must be tried again.", "read committed"},
		{"setting-encoding", "client_encoding",
			func(value string, _ *Thresholds) (Severity, string) {
				if goodEncoding(value) {
					return 0, ""
				}
				return Error, "is " + value
			}, "pgx sends UTF-8, and the server takes each byte for a character: an é is stored as two others, for everybody and for good. Workers do not start; who only enqueues is told nothing.", "UTF8"},
		{"setting-statistics", "track_counts", isOff(Error), "Autovacuum does not learn of dead rows, and neither does anybody else.", "on"},
		{"setting-statistics", "track_activities", isOff(Warning), "Nobody sees which session runs what: neither why_not_running nor this doctor can say who stands in the way.", "on"},
		{"setting-timeout", "statement_timeout", isShort(Warning, func(t *Thresholds) time.Duration { return t.StatementTimeout }),
			"Claims of a deep backlog, retention and enqueues that wait for a key are cut off; pgqueue bounds its statements itself.", "0"},
		{"setting-timeout", "lock_timeout", isShort(Warning, atLeast(time.Second)),
			"An enqueue with a key waits for the transaction that has the key: it fails with 55P03 instead.", "0"},
		{"setting-timeout", "idle_in_transaction_session_timeout", isShort(Warning, atLeast(10*time.Second)),
			"Transactional handlers, and the application's transactions that enqueue, lose their connection when they think between two statements.", "60s"},
		{"setting-timeout", "idle_session_timeout", isShort(Warning, atLeast(time.Minute)),
			"The listener's and the pool's idle connections are cut all the time, and hints are lost meanwhile.", "0"},
		{"setting-timeout", "transaction_timeout", isShort(Warning, atLeast(10*time.Second)),
			"Transactional handlers and migrations lose their connection in the middle of their work.", "0"},
	}
}

// timeSetting reads a time as Postgres writes it: a number, in milliseconds unless a unit follows.
func timeSetting(value string) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	digits := strings.TrimRight(value, "abcdefghijklmnopqrstuvwxyz ")
	number, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	unit, known := map[string]time.Duration{"": time.Millisecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
		"min": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[strings.TrimSpace(value[len(digits):])]
	if err != nil || !known {
		return 0, false
	}
	return time.Duration(number * float64(unit)), true
}

// settings reads what holds for the connection, and what is written down for the roles of the options. The connection's own values count
// where they are the server's or the database's, and all of them where the options name no other role.
func (x *examination) settings(ctx context.Context) ([]effective, error) {
	if x.setKnown {
		return x.setUp, nil
	}
	var names []string
	for _, r := range rules() {
		names = append(names, r.setting)
	}
	rows, err := readAsSet[effective](ctx, x, `
		WITH stored AS (
			SELECT r.rolname::text AS role, split_part(o.option, '=', 1) AS name, substr(o.option, strpos(o.option, '=') + 1) AS value,
			       CASE WHEN d.setrole <> 0 AND d.setdatabase <> 0 THEN 'database user' WHEN d.setrole <> 0 THEN 'user'
			            WHEN d.setdatabase <> 0 THEN 'database' ELSE 'global' END AS source,
			       row_number() OVER (PARTITION BY r.oid, split_part(o.option, '=', 1) ORDER BY d.setrole <> 0 DESC, d.setdatabase <> 0 DESC) AS nth
			FROM pg_roles r
			     JOIN pg_db_role_setting d ON d.setrole IN (0, r.oid)
			          AND d.setdatabase IN (0, (SELECT b.oid FROM pg_database b WHERE b.datname = current_database()))
			     CROSS JOIN LATERAL unnest(d.setconfig) o (option)
			WHERE r.rolname = ANY ($1::text[])
		)
		SELECT session_user::text, s.name, s.reset_val, s.source
		FROM pg_settings s
		WHERE s.name = ANY ($2::text[])
		  AND (session_user = ANY ($1::text[]) OR s.source NOT IN ('user', 'database user', 'client', 'session'))
		UNION ALL
		SELECT t.role, t.name, t.value, t.source
		FROM stored t
		WHERE t.nth = 1 AND t.name = ANY ($2::text[]) AND t.role <> session_user`, x.roleNames(), names)
	if err != nil {
		return nil, err
	}
	x.setUp, x.setKnown = rows, true
	return rows, nil
}

// badSettings returns the findings of one check.
func (x *examination) badSettings(ctx context.Context, check string) ([]Finding, error) {
	all, err := x.settings(ctx)
	if err != nil {
		return nil, err
	}
	var found []Finding
	told := map[string]bool{}
	for _, r := range rules() {
		if r.check != check {
			continue
		}
		for _, e := range all {
			if e.Setting != r.setting {
				continue
			}
			severity, words := r.judge(e.Value, &x.o.Thresholds)
			if severity == 0 {
				continue
			}
			subject, fix, sql := x.undo(e, r.good)
			if told[subject+r.setting] {
				continue
			}
			told[subject+r.setting] = true
			found = append(found, Finding{
				Severity: severity, Subject: subject, Summary: fmt.Sprintf("The setting %s %s for the %s.", r.setting, words, subject),
				Why: r.why, Fix: fix, FixSQL: sql,
			})
		}
	}
	return found, nil
}

// undo says whose setting it is and what takes it back.
func (x *examination) undo(e effective, good string) (subject, fix string, sql []string) {
	role, database := ident(e.Role), ident(x.server.Database)
	const reconnect = " Sessions that are open keep the old value: let the pool reconnect."
	switch e.Source {
	case "database user":
		return "role " + e.Role, "Take it back." + reconnect, []string{fmt.Sprintf("ALTER ROLE %s IN DATABASE %s RESET %s", role, database, e.Setting)}
	case "user":
		return "role " + e.Role, "Take it back." + reconnect, []string{fmt.Sprintf("ALTER ROLE %s RESET %s", role, e.Setting)}
	case "database":
		return "database " + x.server.Database, "Take it back." + reconnect, []string{fmt.Sprintf("ALTER DATABASE %s RESET %s", database, e.Setting)}
	case "global":
		return "server", "Take it back." + reconnect, []string{"ALTER ROLE ALL RESET " + e.Setting}
	case "client", "session":
		return "connection", "Take it out of the connection string, PGOPTIONS, or what the pool does after it has connected.", nil
	case "default", "override":
		if e.Setting == "client_encoding" { // it is that of the database
			return "database " + x.server.Database, "Say what clients speak; the database keeps its own encoding, and refuses what that cannot hold." + reconnect,
				[]string{fmt.Sprintf("ALTER DATABASE %s SET client_encoding = %s", database, literal(good))}
		}
	case "command line":
		return "server", fmt.Sprintf("Start the server without it on its command line, or with %s = %s.", e.Setting, good), nil
	}
	return "server", "Change it for the whole server; this takes effect at once and wins over postgresql.conf.",
		[]string{fmt.Sprintf("ALTER SYSTEM SET %s = %s", e.Setting, literal(good)), "SELECT pg_reload_conf()"}
}
