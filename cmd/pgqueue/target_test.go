package main

import (
	"net"
	"strings"
	"testing"
)

// silent is a server that takes connections and says nothing.
type silent struct {
	address   string
	connected chan struct{} // closed at the first connection
}

func newSilent(t *testing.T) *silent {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &silent{listener.Addr().String(), make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var open []net.Conn
		defer func() {
			for _, conn := range open {
				conn.Close()
			}
		}()
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if open = append(open, conn); len(open) == 1 {
				close(s.connected)
			}
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return s
}

// What is unusual but right must not be refused as a misplaced password.
func TestConnectionStringsThatAreRight(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://localhost", "postgresql://localhost:5432/app", "postgres:///app?host=/var/run/postgresql", "postgres://[::1]:5432/app",
		"postgres://app@a.example.com,b.example.com:5433/app?target_session_attrs=primary", "postgres://%2Fvar%2Frun%2Fpostgresql/app",
		"postgres://db.example.com/app?user=me@server&application_name=a@b", "postgres://app:p%40ss@localhost/my%20app?options=-c%20search_path%3Da",
		"postgres://localhost/app?pool_max_conns=3&default_query_exec_mode=exec&statement_timeout=5s&pgqueue.note=x",
		"host=localhost user=me@server dbname='my app'", "host=/tmp", "", "   ", "postgres://dätenbank.example/app", "host=a_b.internal",
	} {
		a := &app{lookupEnv: func(string) (string, bool) { return "", false }, secrets: &secrets{}}
		a.flags.databaseURL = dsn
		if _, err := a.target(); err != nil {
			t.Errorf("%q: %v", dsn, err)
		}
	}
}

// The flag wins over the variables of the environment, those over the driver's, and the message says which it was.
func TestWhereTheConnectionStringComesFrom(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env  map[string]string
		args []string
		from string
	}{
		{map[string]string{"PGQUEUE_DATABASE_URL": "postgres://localhost:3", "DATABASE_URL": "postgres://localhost:4"}, []string{"--database-url=host=127.0.0.1 port=1 sslmode=disable"}, "--database-url"},
		{map[string]string{"PGQUEUE_DATABASE_URL": "postgres://127.0.0.1:1?sslmode=disable", "DATABASE_URL": "postgres://localhost:4"}, nil, "PGQUEUE_DATABASE_URL"},
		{map[string]string{"PGQUEUE_DATABASE_URL": "", "DATABASE_URL": "postgres://127.0.0.1:1?sslmode=prefer"}, nil, "DATABASE_URL"},
	} {
		c := newCLI(t, nil)
		for name, value := range test.env {
			c.env[name] = value
		}
		r := c.run(append([]string{"migrate", "status"}, test.args...)...).want(exitConnect).says("127.0.0.1:1", "(from "+test.from+")", "hint: nothing listens there")
		if strings.Count(r.err, "refused") != 1 {
			t.Errorf("the same reason more than once: %s", r.err)
		}
	}
	newCLI(t, nil).run("migrate", "status", "--service", "nowhere").want(exitUsage).says("--service", "service")
}

// A password that has ended up where the driver would show it, as host or as the name of a parameter, is refused before it is tried.
func TestC142_NoPasswordAsAHost(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"host=app:sup3r$ecret@127.0.0.1 dbname=app", "host=127.0.0.1 port=1 sup3r$ecret!=1", "host='sup3r$ecret word'",
	} {
		r := newCLI(t, nil).with("DATABASE_URL", dsn).run("migrate", "status").want(exitUsage).says("DATABASE_URL")
		if strings.Contains(r.out+r.err, "sup3r") {
			t.Errorf("it is shown: %s", r.err)
		}
	}
}
