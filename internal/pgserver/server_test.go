package pgserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"weak"
)

func TestStartGivesAServerThatAnswers(t *testing.T) {
	t.Parallel()
	server := startServer(t, Options{Settings: map[string]string{"log_min_duration_statement": "0", "cluster_name": `it's \ here`}})
	row := query(t, server.Port(), `SELECT current_user, current_setting('server_encoding'), current_setting('fsync'),
		current_setting('max_connections'), current_setting('log_min_duration_statement'), current_setting('cluster_name'),
		current_setting('dynamic_shared_memory_type'), current_setting('unix_socket_directories'),
		(SELECT datcollate FROM pg_database WHERE datname = current_database())`)
	want := []string{"postgres", "UTF8", "off", "200", "0", `it's \ here`, "mmap", server.SocketDir(), "C"}
	if strings.Join(row, "|") != strings.Join(want, "|") {
		t.Errorf("got  %q\nwant %q", row, want)
	}
	if got := server.URL("a b/c"); got != "postgres://postgres@127.0.0.1:"+strconv.Itoa(server.Port())+"/a%20b/c?sslmode=disable" {
		t.Errorf("URL: %s", got)
	}
	if !strings.Contains(server.Log(), "ready to accept connections") {
		t.Errorf("log: %s", server.Log())
	}
	if _, err := os.Stat(filepath.Join(server.SocketDir(), ".s.PGSQL."+strconv.Itoa(server.Port()))); err != nil {
		t.Error(err)
	}
}

func TestStopEndsTheServerAndDeletesItsDirectory(t *testing.T) {
	t.Parallel()
	for _, stop := range []func(*Server, context.Context) error{(*Server).Stop, (*Server).StopImmediate} {
		server := startServer(t, Options{})
		done := server.Done()
		if err := stop(server, testContext(t)); err != nil {
			t.Fatal(err)
		}
		<-done
		if listening(server.Port()) {
			t.Error("the port is still open")
		}
		if !missing(server.Dir()) {
			t.Error("the directory is still there")
		}
		if err := server.Stop(testContext(t)); err != nil {
			t.Errorf("second Stop: %v", err)
		}
		if err := server.Restart(testContext(t), false); !errors.Is(err, ErrStopped) {
			t.Errorf("Restart after Stop: %v", err)
		}
	}
}

func TestStopWithinAnEndedContextStillStops(t *testing.T) {
	t.Parallel()
	server := startServer(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// Whether the server is quicker than the context is not said; that it is gone afterwards is.
	if err := server.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Stop: %v", err)
	}
	if listening(server.Port()) || !missing(server.Dir()) {
		t.Error("the server or its directory is still there")
	}
}

func TestRestartKeepsPortAndData(t *testing.T) {
	t.Parallel()
	server := startServer(t, Options{})
	query(t, server.Port(), "CREATE TABLE kept (n int)")
	port, pid := server.Port(), server.PID()
	for i, immediate := range []bool{false, true} {
		query(t, port, "INSERT INTO kept VALUES (1)")
		if err := server.Restart(testContext(t), immediate); err != nil {
			t.Fatal(err)
		}
		if server.Port() != port || server.PID() == pid {
			t.Errorf("port %d → %d, process %d → %d", port, server.Port(), pid, server.PID())
		}
		if row := query(t, port, "SELECT count(*) FROM kept"); row[0] != strconv.Itoa(i+1) {
			t.Errorf("immediate=%v: %s rows of %d", immediate, row[0], i+1)
		}
		recovered := strings.Contains(server.Log(), "automatic recovery in progress")
		if recovered != immediate {
			t.Errorf("immediate=%v, but recovery=%v", immediate, recovered)
		}
	}
}

func TestHaltAndResume(t *testing.T) {
	t.Parallel()
	server := startServer(t, Options{})
	for range 2 {
		if err := server.Halt(testContext(t), true); err != nil {
			t.Fatal(err)
		}
		if listening(server.Port()) {
			t.Error("halted, but the port is open")
		}
	}
	for range 2 {
		if err := server.Resume(testContext(t)); err != nil {
			t.Fatal(err)
		}
		query(t, server.Port(), "SELECT 1")
	}
}

func TestResumeAfterSomebodyKilledTheServer(t *testing.T) {
	t.Parallel()
	server := startServer(t, Options{})
	done := server.Done()
	process, err := os.FindProcess(server.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-done
	if err := server.Resume(testContext(t)); err != nil {
		t.Fatal(err)
	}
	query(t, server.Port(), "SELECT 1")
}

func TestManyServersAtOnce(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	var mu sync.Mutex
	ports := map[int]bool{}
	for range 4 {
		group.Go(func() {
			server, err := Start(testContext(t), Options{})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			ports[server.Port()] = true
			mu.Unlock()
			if err := server.Stop(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if len(ports) == 0 {
		t.Error("no server started")
	}
	// Two that live at the same time have different ports and data.
	one, two := startServer(t, Options{}), startServer(t, Options{})
	if one.Port() == two.Port() || one.Dir() == two.Dir() {
		t.Errorf("%s:%d and %s:%d", one.Dir(), one.Port(), two.Dir(), two.Port())
	}
	query(t, one.Port(), "CREATE TABLE only_here ()")
	if row := query(t, two.Port(), "SELECT to_regclass('only_here') IS NULL"); row[0] != "t" {
		t.Error("the second server sees the first one's table")
	}
}

func TestFixedDirectoryStaysAndIsOwnedByOne(t *testing.T) {
	t.Parallel()
	opts := Options{DataDir: filepath.Join(openDir(t), strings.Repeat("long", 30)), Fsync: true}
	first, err := Start(testContext(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	if row := query(t, first.Port(), "SELECT current_setting('fsync')"); row[0] != "on" {
		t.Errorf("fsync is %s", row[0])
	}
	query(t, first.Port(), "CREATE TABLE kept ()")
	if _, err := Start(testContext(t), opts); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("second owner: %v", err)
	}
	if err := first.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if !missing(first.SocketDir()) {
		t.Error("the socket's directory is still there")
	}
	again := startServer(t, opts)
	if row := query(t, again.Port(), "SELECT to_regclass('kept') IS NOT NULL"); row[0] != "t" {
		t.Error("the table is gone")
	}

	other := opts
	other.Version = again.Binaries().Major + 1
	if _, err := Start(testContext(t), other); err == nil || !strings.Contains(err.Error(), "is of PostgreSQL") {
		t.Errorf("another version: %v", err)
	}
}

func TestFixedDirectoryBehindOneThatIsClosed(t *testing.T) {
	t.Parallel()
	if !canEnterClosed {
		t.Log("only Linux can give root's server the right to pass")
		return
	}
	closed := filepath.Join(openDir(t), "home")
	if err := os.Mkdir(closed, 0o700); err != nil { // like /root
		t.Fatal(err)
	}
	server := startServer(t, Options{DataDir: filepath.Join(closed, "cluster")})
	query(t, server.Port(), "CREATE TABLE kept ()")
	if err := server.Restart(testContext(t), true); err != nil {
		t.Fatal(err)
	}
	query(t, server.Port(), "SELECT * FROM kept")
}

func TestStartSaysWhyItFailed(t *testing.T) {
	t.Parallel()
	parent := openDir(t)
	for _, test := range []struct {
		name string
		opts Options
		want string
	}{
		{"setting", Options{ParentDir: parent, Settings: map[string]string{"max_connections": "few"}}, "max_connections"},
		{"line break", Options{ParentDir: parent, Settings: map[string]string{"a": "b\nc"}}, "line break"},
		{"version", Options{ParentDir: parent, Version: 9}, "14 is the oldest"},
		{"directory", Options{ParentDir: filepath.Join(parent, "none")}, "none"},
		{"segment", Options{ParentDir: parent, WALSegmentMB: 3}, "initdb"},
	} {
		if _, err := Start(testContext(t), test.opts); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if dirs := throwaways(t, parent); len(dirs) != 0 {
		t.Errorf("failed starts left %v", dirs)
	}
}

func TestStartNeverTakesAnotherServerForItsOwn(t *testing.T) {
	t.Parallel()
	first := startServer(t, Options{})
	if _, err := Start(testContext(t), Options{Port: first.Port()}); err == nil || !strings.Contains(err.Error(), "TCP/IP") {
		t.Errorf("a fixed port that is taken: %v", err)
	}
	query(t, first.Port(), "SELECT 1")
}

func TestAServerThatNobodyRefersToStaysUp(t *testing.T) {
	t.Parallel()
	// A function of its own, so that nothing on this one's stack refers to the server.
	start := func() weak.Pointer[Server] {
		server, err := Start(testContext(t), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return weak.Make(server)
	}
	forgotten := start()
	for range 5 {
		runtime.GC()
	}
	server := forgotten.Value()
	if server == nil {
		t.Fatal("the server was collected while it runs")
	}
	query(t, server.Port(), "SELECT 1")
	if err := server.Stop(testContext(t)); err != nil {
		t.Error(err)
	}
}
