package main

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connectTimeout is how long one host may take to answer, unless the connection string or PGCONNECT_TIMEOUT says.
const connectTimeout = 10 * time.Second

// target is the database that flags and environment name.
type target struct {
	config *pgxpool.Config
	from   string // where it was named, for messages
}

// target finds the connection string and parses it. What it refuses is told without the string and without the driver's words about
// it, which may quote a piece of the password.
func (a *app) target() (*target, error) {
	dsn, from, err := a.connectionString()
	if err != nil {
		return nil, err
	}
	a.secrets.add(secretsIn(dsn)...)
	a.secrets.add(a.env("PGPASSWORD"), a.env("PGSSLPASSWORD"))
	if problem := ambiguous(dsn); problem != "" {
		return nil, refused(from, problem)
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, refused(from, parseProblem(err))
	}
	a.secrets.add(config.ConnConfig.Password)
	if problem := misplaced(config); problem != "" {
		return nil, refused(from, problem)
	}
	a.secrets.forget(config.ConnConfig.User, config.ConnConfig.Database, config.ConnConfig.Host)
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "pgqueue"
	}
	return &target{config: config, from: from}, nil
}

// connectionString is what the driver is given, and where it comes from. An empty one lets it read the PG* variables.
func (a *app) connectionString() (dsn, from string, err error) {
	service := "service='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(a.flags.service) + "'"
	switch {
	case a.flags.databaseURL != "" && a.flags.service != "":
		return "", "", usage("--database-url and --service exclude each other")
	case a.flags.databaseURL != "":
		return a.flags.databaseURL, "--database-url", nil
	case a.flags.service != "":
		return service, "--service", nil
	}
	for _, name := range []string{"PGQUEUE_DATABASE_URL", "DATABASE_URL"} {
		if dsn := a.env(name); dsn != "" {
			return dsn, name, nil
		}
	}
	if a.env("PGSERVICE") != "" {
		return "", "PGSERVICE", nil
	}
	return "", "the PG* variables and libpq's defaults", nil
}

// refused is the error about a connection string that cannot be used. It does not show it.
func refused(from, problem string) error {
	if from != "--database-url" && !strings.HasSuffix(from, "DATABASE_URL") { // there is no string, and nothing to encode in it
		return usage("the connection of %s %s", from, problem)
	}
	return withHint(usage("the connection string of %s %s (it is not shown, since it may hold a password)", from, problem),
		"postgres://USER:PASSWORD@HOST:PORT/DATABASE with %%XX for @ : / ? # %% and blanks in user and password, or\n"+
			"host=HOST user=USER password='…' with \\\\ for \\ and \\' for ', or give the password in PGPASSWORD or ~/.pgpass")
}

// ambiguous tells of a URL in which a password that was not encoded may have ended up as host, database or parameter: the driver would
// then write it into its errors. In keyword form blanks end a value; misplaced finds that.
func ambiguous(dsn string) string {
	scheme, rest, isURL := strings.Cut(dsn, "://")
	if !isURL || strings.ContainsAny(scheme, "= ") {
		return ""
	}
	if scheme != "postgres" && scheme != "postgresql" {
		return "begins with neither postgres:// nor postgresql://"
	}
	before, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(before, "/")
	strange := strings.Count(authority, "@") > 1 || strings.Contains(path, "@") || strings.ContainsAny(before, "# \t\r\n'\"\\")
	for pair := range strings.SplitSeq(query, "&") {
		name, _, ok := strings.Cut(pair, "=")
		strange = strange || query != "" && (!ok || !parameterName().MatchString(name))
	}
	if strange {
		return "is ambiguous: user or password seem not to be percent-encoded"
	}
	return ""
}

// misplaced tells of a parsed connection string whose parts are not what they should be, so that a piece of a password may be one of them.
func misplaced(config *pgxpool.Config) string {
	hosts := []string{config.ConnConfig.Host}
	for _, other := range config.ConnConfig.Fallbacks {
		hosts = append(hosts, other.Host)
	}
	for _, host := range hosts {
		socket := strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || strings.Contains(host, `:\`)
		if !socket && !hostName().MatchString(host) {
			return "names a host with characters that no host name has"
		}
	}
	for name := range config.ConnConfig.RuntimeParams {
		if !parameterName().MatchString(name) {
			return "has a parameter with characters that no parameter's name has"
		}
	}
	return ""
}

func parameterName() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.$]*$`) }
func hostName() *regexp.Regexp      { return regexp.MustCompile(`^[\p{L}\p{N}._:%-]+$`) }

// parseProblem says why a connection string was refused, in words that quote nothing of it. Where the driver names a file or a
// setting, its reason is needed to go on, and comes from a place where no password stands.
func parseProblem(err error) string {
	text := err.Error()
	reason := ""
	if inner := errors.Unwrap(err); inner != nil {
		reason = ": " + inner.Error()
	}
	for _, known := range []struct{ words, say string }{
		{"failed to parse as URL", "cannot be parsed as a URL"},
		{"failed to parse as keyword/value", "cannot be parsed: it is neither a postgres:// URL nor keyword=value pairs"},
		{"failed to read service", "names a service that cannot be used" + reason},
		{"failed to configure TLS", "has unusable TLS settings (sslmode, sslrootcert, sslcert, sslkey)" + reason},
		{"invalid port", "has a port that is no number from 1 to 65535"},
		{"could not match", "has another number of ports than of hosts"},
		{"connect_timeout", "has a connect_timeout that is no number of seconds"},
		{"target_session_attrs", "has an unknown target_session_attrs"},
		{"sslcertmode", "has an unknown sslcertmode"},
		{"channel_binding", "has an unknown channel_binding"},
		{"require_auth", "has an unknown require_auth"},
		{"protocol_version", "has an unknown protocol version"},
		{"default_query_exec_mode", "has an unknown default_query_exec_mode"},
		{"pool_", "has a setting of the pool (pool_max_conns and the like) that cannot be parsed"},
	} {
		if strings.Contains(text, known.words) {
			return known.say
		}
	}
	return "cannot be used"
}

// explain says why there is no connection, and what to look at.
func (t *target) explain(err error) error {
	config := t.config.ConnConfig
	where := net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
	if strings.HasPrefix(config.Host, "/") {
		where = fmt.Sprintf("%s (port %d)", config.Host, config.Port)
	}
	database := config.Database
	if database == "" { // then the server takes the user's name
		database = config.User
	}
	var reasons []string // each host, with and without TLS, is an attempt; most fail alike
	details := err
	if failed, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		details = failed.Unwrap()
	}
	for line := range strings.SplitSeq(details.Error(), "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), "hostname resolving error: ")
		if line != "" && !slices.Contains(reasons, line) {
			reasons = append(reasons, line)
		}
	}
	failed := &exitError{code: exitConnect, err: fmt.Errorf("cannot connect to Postgres at %s, database %q, as %q (from %s): %s",
		where, database, config.User, t.from, strings.Join(reasons, "; "))}
	if hint := connectHint(err); hint != "" {
		return withHint(failed, "%s", hint)
	}
	return failed
}

// connectHint says what to look at first.
func connectHint(err error) string {
	if fromServer, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch fromServer.Code {
		case "28P01", "28000":
			return "the server refuses this user: check user and password (connection string, PGPASSWORD, ~/.pgpass) and the server's pg_hba.conf"
		case "3D000":
			return "name the database in the connection string or in PGDATABASE"
		case "53300":
			return "all connections of the server are taken: go through a pooler, or end idle sessions"
		case "57P03":
			return "the server is starting up or shutting down: try again in a moment"
		}
		return ""
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "refused TLS") || strings.Contains(text, "not support SSL"):
		return "the server speaks no TLS: check that it is the right one, or set sslmode=disable"
	case strings.Contains(text, "x509:") || strings.Contains(text, "certificate"):
		return "the server's certificate is not trusted: name its authority with sslrootcert=FILE"
	case strings.Contains(text, "refused") || strings.Contains(text, "no such file"):
		return "nothing listens there: is the server up, and are host and port right?"
	case strings.Contains(text, "lookup") || strings.Contains(text, "no such host"):
		return "the host's name is not known here: check it, or the DNS of this machine"
	case strings.Contains(text, "timeout") || strings.Contains(text, "deadline"):
		return "no answer: check the address, and the firewalls in between; connect_timeout=SECONDS waits longer"
	}
	return ""
}
