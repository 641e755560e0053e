package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// hostile is the password of C142: it has what URLs, keyword strings and shells all read as something else.
const hostile = `p@ss w#rd%2F'\\`

// guarded is a server that wants the password hostile from the role app, which owns the database app.
type guarded struct {
	host string
	port uint16
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	server := pgqueuetest.NewServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range []string{
		`SET password_encryption = 'scram-sha-256'`,
		`CREATE ROLE app LOGIN PASSWORD E'` + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(hostile) + `'`,
		`CREATE DATABASE app OWNER app`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	var file string
	if err := conn.QueryRow(ctx, `SHOW hba_file`).Scan(&file); err != nil {
		t.Fatal(err)
	}
	rules := `COPY (VALUES ('local all all trust'), ('host all postgres all trust'), ('host all all all scram-sha-256')) TO '` + file + `'`
	if _, err := conn.Exec(ctx, rules); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, `SELECT pg_reload_conf()`); err != nil {
		t.Fatal(err)
	}
	g := &guarded{conn.Config().Host, conn.Config().Port}
	eventually(t, "the server asks for passwords", func() bool {
		conn, err := pgx.Connect(ctx, g.url("wrong"))
		if err == nil {
			_ = conn.Close(ctx)
		}
		refused, ok := errors.AsType[*pgconn.PgError](err)
		return ok && refused.Code == "28P01"
	})
	return g
}

func (g *guarded) url(password string) string {
	address := url.URL{Scheme: "postgres", Host: fmt.Sprintf("%s:%d", g.host, g.port), Path: "/app", RawQuery: "sslmode=disable"}
	address.User = url.UserPassword("app", password)
	return address.String()
}

func (g *guarded) keywords(password string) string {
	return fmt.Sprintf("host=%s port=%d user=app dbname=app sslmode=disable password='%s'",
		g.host, g.port, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password))
}

// written writes a file that only its owner may read, as libpq wants of a password file.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// way is one way to give a password.
type way struct {
	name string
	env  map[string]string // of the program
	pg   map[string]string // of the process, from which the driver reads
	args []string
}

func (g *guarded) ways(t *testing.T, password string) []way {
	port := strconv.Itoa(int(g.port))
	every := strings.Builder{}
	for _, b := range []byte(password) {
		fmt.Fprintf(&every, "%%%02x", b)
	}
	whole := strings.Replace(g.url("PASSWORD"), "PASSWORD", every.String(), 1)
	bare := fmt.Sprintf("postgres://app@%s:%d/app?sslmode=disable", g.host, g.port)
	service := written(t, "services", fmt.Sprintf("[queue]\nhost=%s\nport=%d\nuser=app\ndbname=app\nsslmode=disable\npassword=%s\n", g.host, g.port, password))
	passfile := written(t, "passwords", fmt.Sprintf("%s:%d:app:app:%s\n", g.host, g.port, strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(password)))
	return []way{
		{name: "URL in PGQUEUE_DATABASE_URL", env: map[string]string{"PGQUEUE_DATABASE_URL": g.url(password)}},
		{name: "URL in DATABASE_URL", env: map[string]string{"DATABASE_URL": g.url(password)}},
		{name: "every byte encoded", env: map[string]string{"DATABASE_URL": whole}},
		{name: "parameter of the URL", env: map[string]string{"DATABASE_URL": bare + "&password=" + url.PathEscape(password)}},
		{name: "URL in the flag", args: []string{"--database-url", g.url(password)}},
		{name: "keywords in the flag", args: []string{"--database-url=" + g.keywords(password)}},
		{name: "keywords in the environment", env: map[string]string{"PGQUEUE_DATABASE_URL": g.keywords(password)}},
		{name: "PGPASSWORD beside a URL", env: map[string]string{"DATABASE_URL": bare, "PGPASSWORD": password}, pg: map[string]string{"PGPASSWORD": password}},
		{name: "PG variables alone", pg: map[string]string{
			"PGHOST": g.host, "PGPORT": port, "PGUSER": "app", "PGDATABASE": "app", "PGSSLMODE": "disable", "PGPASSWORD": password,
		}},
		{name: "service file, flag", args: []string{"--service", "queue"}, pg: map[string]string{"PGSERVICEFILE": service}},
		{name: "service file, variable", env: map[string]string{"PGSERVICE": "queue"}, pg: map[string]string{"PGSERVICEFILE": service, "PGSERVICE": "queue"}},
		{name: "password file", env: map[string]string{"DATABASE_URL": bare}, pg: map[string]string{"PGPASSFILE": passfile}},
	}
}

// cli is the program with a password given in this way. What the driver reads is set in the process: such tests are not parallel.
func (w way) cli(t *testing.T) *cli {
	c := newCLI(t, nil)
	for name, value := range w.env {
		c.env[name] = value
	}
	for _, name := range []string{"PGPASSWORD", "PGSERVICE", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGSSLMODE"} {
		t.Setenv(name, w.pg[name])
	}
	for name, value := range w.pg {
		t.Setenv(name, value)
	}
	return c
}

// requireHidden checks that nothing of a password was written, in any form, nor the pieces into which parsers cut it.
func requireHidden(t *testing.T, password string, results ...result) {
	t.Helper()
	looked := append(formsOf(password), "w#rd", "ss w", "rd%2F", "rd%252F", "%20w", "w%23", `F'\`)
	for _, r := range results {
		for _, form := range looked {
			if strings.Contains(r.out+r.err, form) {
				t.Errorf("pgqueue %q shows %q\nstdout: %s\nstderr: %s", r.args, form, r.out, r.err)
				break
			}
		}
	}
}

// C142: whichever way the password comes, everything works, and it is never written.
func TestC142_AnyPasswordWorksInAnyForm(t *testing.T) {
	g := newGuarded(t)
	for _, way := range g.ways(t, hostile) {
		t.Run(way.name, func(t *testing.T) {
			c := way.cli(t)
			with := func(args ...string) []string { return append(append([]string{"-v"}, way.args...), args...) }
			up := c.run(with("migrate", "up")...).want(exitOK)
			status := c.run(with("migrate", "status", "--json")...).want(exitOK)
			list := c.run(with("jobs", "list")...).want(exitOK)
			enqueued := c.run(with("enqueue", "greet")...).want(exitOK)
			report := c.run(with("doctor", "--fail-on", "never")...).want(exitOK)
			requireHidden(t, hostile, up, status, list, enqueued, report)
		})
	}
}

// C142: with each part of the connection wrong there is an error that says which, and no password in it.
func TestC142_NoErrorShowsThePassword(t *testing.T) {
	g := newGuarded(t)
	good, keywords := g.url(hostile), g.keywords(hostile)
	host := fmt.Sprintf("%s:%d", g.host, g.port)
	raw := "postgres://app:" + hostile + "@" + host + "/app"
	for _, test := range []struct {
		name, dsn string
		code      int
		says      string
	}{
		{"wrong port", strings.Replace(good, host, g.host+":1", 1), exitConnect, "refused"},
		{"wrong port, keywords", strings.Replace(keywords, strconv.Itoa(int(g.port)), "1", 1), exitConnect, "refused"},
		{"wrong host", strings.Replace(good, host, "nowhere.invalid", 1) + "&connect_timeout=2", exitConnect, "nowhere.invalid"},
		{"another password", strings.Replace(good, "@"+host, "x@"+host, 1), exitConnect, "password authentication failed"},
		{"another database", strings.Replace(good, "/app?", "/nothing?", 1), exitConnect, "nothing"},
		{"unknown sslmode", strings.Replace(good, "disable", "bogus", 1), exitUsage, "sslmode"},
		{"unknown sslmode, keywords", strings.Replace(keywords, "disable", "bogus", 1), exitUsage, "sslmode"},
		{"a server without TLS", strings.Replace(good, "disable", "require", 1), exitConnect, "TLS"},
		{"no such certificate", strings.Replace(good, "disable", "verify-full&sslrootcert=nowhere.pem", 1), exitUsage, "nowhere.pem"},
		{"unknown target", good + "&target_session_attrs=bogus", exitUsage, "target_session_attrs"},
		{"unknown parameter", good + "&bogus=1", exitConnect, "bogus"},
		{"bad timeout", good + "&connect_timeout=soon", exitUsage, "connect_timeout"},
		{"bad port", strings.Replace(good, host, g.host+":port", 1), exitUsage, "port"},
		{"not encoded", raw, exitUsage, "percent-encoded"},
		{"not encoded, without the at", strings.Replace(raw, "p@ss", "pass", 1), exitUsage, ""},
		{"a slash", strings.Replace(raw, hostile, "7/p@ss w#rd", 1), exitUsage, "percent-encoded"},
		{"a question mark", strings.Replace(raw, hostile, "7?p@ss w#rd", 1), exitUsage, "percent-encoded"},
		{"bad encoding", strings.Replace(raw, hostile, "p%zzss w#rd", 1), exitUsage, ""},
		{"another scheme", strings.Replace(good, "postgres:", "postgresql+asyncpg:", 1), exitUsage, "postgres://"},
		{"keywords, not quoted", "host=" + g.host + " user=app password=" + hostile + " dbname=app", exitUsage, ""},
		{"keywords, quote not closed", strings.TrimSuffix(keywords, "'"), exitUsage, "keyword"},
		{"keywords, quote not escaped", "host=" + g.host + " password='" + hostile + "' dbname=app", exitUsage, ""},
		{"the password alone", hostile, exitUsage, "keyword"},
		{"NUL", good + "\x00", exitUsage, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCLI(t, nil).with("PGQUEUE_DATABASE_URL", test.dsn)
			var all []result
			for _, args := range [][]string{{"migrate", "status"}, {"jobs", "list", "-v"}, {"doctor", "--json"}} {
				all = append(all, c.run(args...).want(test.code).says(test.says))
			}
			all = append(all, newCLI(t, nil).run("migrate", "up", "--database-url", test.dsn).want(test.code).says(test.says, "--database-url"))
			requireHidden(t, hostile, all...)
			if test.code == exitUsage && strings.Contains(all[0].err, "app") && strings.Contains(all[0].err, host) {
				t.Errorf("the connection string is shown: %s", all[0].err)
			}
		})
	}
}

// C142: a connection string in the wrong place of the command line is an error that does not repeat it, and what prints about the
// program prints nothing of its environment.
func TestC142_NoMessageRepeatsAConnectionString(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://app:" + url.PathEscape(hostile) + "@db.example.com/app", "postgres://app:" + hostile + "@db.example.com/app",
		"host=db.example.com password='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(hostile) + "'",
	} {
		c := newCLI(t, nil).with("PGQUEUE_DATABASE_URL", dsn).with("PGPASSWORD", hostile)
		for _, args := range [][]string{
			{dsn}, {"migrate", dsn}, {"migrate", "status", dsn}, {"migrate", "status", "--database-ulr=" + dsn}, {"migrate", "up", "--timeout", dsn},
			{"enqueue", "kind", "--priority=" + dsn}, {"doctor", "--fail-on", dsn}, {"doctor", "--only=" + dsn}, {"completion", dsn},
			{"migrate", "sql", "--schema", strings.Repeat(dsn, 2)}, {"--database-url", dsn, "--service", dsn, "migrate", "status"},
		} {
			if r := c.run(args...); r.code != exitUsage {
				t.Errorf("%q: exit code %d: %s", args, r.code, r.err)
			} else {
				requireHidden(t, hostile, r)
			}
			requireHidden(t, hostile, c.run(append([]string{"--json"}, args...)...))
		}
		for _, args := range [][]string{{"version"}, {"version", "-v", "--json"}, {"help"}, {"migrate", "--help"}, {"completion", "bash"}, {"doctor", "checks"}} {
			requireHidden(t, hostile, c.run(args...).want(exitOK))
		}
	}
}

// C142: what somebody enqueues is in no log and in no error.
func TestC142_NoLogShowsAPayload(t *testing.T) {
	t.Parallel()
	c := newCLI(t, pgqueuetest.New(t))
	for _, args := range [][]string{
		{"--payload", `{"ssn": "MARK"}`}, {"--payload", `{"ssn": "MARK"}`, "--metadata", `{"who": "MARK"}`, "--key", "k", "--json"},
		{"--payload", `{"ssn": "MARK"`}, {"--payload", `{"ssn": "MARK\u0000"}`}, {"--payload", `MARK`}, {"--metadata", `["MARK"]`},
		{"--payload", `{"ssn": "MARK"}`, "--queue", ""}, {"--payload", `{"ssn": "MARK"}`, "--unique", "--unique-args", "/nothing"},
	} {
		r := c.run(append([]string{"enqueue", "pay", "-v"}, args...)...)
		if strings.Contains(r.out+r.err, "MARK") {
			t.Errorf("enqueue %q shows the payload: %s%s", args, r.out, r.err)
		}
	}
	c.reading(`{"ssn": "MARK"`).run("enqueue", "pay", "--payload-file", "-").want(exitUsage)
}

// The second line of defence by itself: what others write passes the secrets' writer.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	var s secrets
	var written bytes.Buffer
	w := s.writer(&written)
	s.add(hostile, "abc")
	s.add("postgres")
	s.forget("postgres")
	for _, form := range formsOf(hostile) {
		written.Reset()
		if n, err := io.WriteString(w, "before "+form+" after\n"); err != nil || n != len(form)+14 {
			t.Errorf("write: %d, %v", n, err)
		}
		if written.String() != "before *** after\n" {
			t.Errorf("%q is written as %q", form, written.String())
		}
	}
	written.Reset()
	fmt.Fprint(w, "abcd postgres")
	if written.String() != "abcd postgres" {
		t.Errorf("too much is hidden: %q", written.String())
	}
}

// A command that is stopped while it connects says so and ends at once.
func TestAConnectionThatIsStopped(t *testing.T) {
	t.Parallel()
	silent := newSilent(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-silent.connected
		cancel()
	}()
	began := time.Now()
	newCLI(t, nil).with("DATABASE_URL", "postgres://app@"+silent.address+"/app?sslmode=disable").runUntil(ctx, "migrate", "status").want(exitStopped)
	if took := time.Since(began); took > patience {
		t.Errorf("it took %s", took)
	}
}
