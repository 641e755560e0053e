package listener_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/listener"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	good := listener.Config{
		Connect: func(context.Context) (*pgx.Conn, error) { return nil, errors.New("unused") },
		Channel: channel,
		OnHint:  func(string) {},
	}
	for field, spoil := range map[string]func(c *listener.Config){
		"Connect":      func(c *listener.Config) { c.Connect = nil },
		"OnHint":       func(c *listener.Config) { c.OnHint = nil },
		"Channel":      func(c *listener.Config) { c.Channel = strings.Repeat("x", 64) },
		"ReconnectMax": func(c *listener.Config) { c.ReconnectMin, c.ReconnectMax = time.Minute, time.Second },
		"EchoTimeout":  func(c *listener.Config) { c.EchoTimeout = -1 },
	} {
		config := good
		spoil(&config)
		var refused *listener.ConfigError
		if _, err := listener.New(config); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("spoilt %s: got %v", field, err)
		}
	}
	for _, name := range []string{"", "a\x00b", "a\xff"} {
		config := good
		config.Channel = name
		if _, err := listener.New(config); err == nil {
			t.Errorf("channel %q was accepted", name)
		}
	}
	if _, err := listener.New(good); err != nil {
		t.Error(err)
	}
}

// Channels are quoted in LISTEN and passed as they are to pg_notify: both must mean the same one (C65).
func TestNamesAreTakenLiterally(t *testing.T) {
	db := newDatabase(t)
	queues := []string{"Mail", "mail", `a"b`, "a'b", "a;drop table x", "a.b", "naïve", "trailing ", strings.Repeat("ö", 64)}
	for _, name := range append(slices.Clone(queues[:8]), strings.Repeat("é", 31)+"x") {
		t.Run(name, func(t *testing.T) {
			s := newStation(t, db, func(c *listener.Config) { c.Channel = name })
			s.start()
			receive(t, s.looks, "a look at every queue")
			db.notify(strings.ToUpper(name), "of another channel")
			for _, queue := range queues {
				db.notify(name, queue)
				if got := receive(t, s.hints, queue); got != queue {
					t.Errorf("hint %q, want %q", got, queue)
				}
			}
			s.stop()
			if got := s.Status(); got.SendError != "" || got.Attempts != 1 {
				t.Errorf("the echo did not fit: %+v", got)
			}
		})
	}
}

// C58: each kill is noticed, told once, and made up for by a look at every queue.
func TestReconnectsAfterEachKill(t *testing.T) {
	db := newDatabase(t)
	s := newStation(t, db, nil)
	s.start()
	s.expect("connected")
	receive(t, s.looks, "the first look")
	runtime.GC()
	before := runtime.NumGoroutine()
	const kills = 20
	for range kills {
		pids := db.listeners()
		if len(pids) != 1 {
			t.Fatalf("%d backends listen, want 1", len(pids))
		}
		db.exec("SELECT pg_catalog.pg_terminate_backend($1)", pids[0])
		s.expect("disconnected", "connected")
		receive(t, s.looks, "a look at every queue after the reconnection")
		db.notify(channel, "mail")
		receive(t, s.hints, "a hint over the new connection")
	}
	db.until("exactly one backend listens", func() bool { return len(db.listeners()) == 1 })
	if after := runtime.NumGoroutine(); after > before+3 {
		t.Errorf("%d goroutines after %d reconnections, %d before", after, kills, before)
	}
	status := s.Status()
	if status.Reconnects != kills || status.Attempts > 3*kills || !status.Connected {
		t.Errorf("status %+v", status)
	}
	s.stop()
	if lines := s.logs.lines(slog.LevelInfo); len(lines) != kills {
		t.Errorf("%d log lines for %d losses: %q", len(lines), kills, lines)
	}
	if got := s.Status(); got.Connected || got.Running {
		t.Errorf("after the stop: %+v", got)
	}
	db.until("no backend listens", func() bool { return len(db.listeners()) == 0 })
}

// A session that listens in a transaction keeps the server's notification queue from being trimmed (C70).
func TestNeverInATransaction(t *testing.T) {
	db := newDatabase(t)
	var given atomic.Int32
	s := newStation(t, db, func(c *listener.Config) {
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			conn, err := db.connect(ctx)
			if err == nil && given.Add(1) == 1 {
				_, err = conn.Exec(ctx, "BEGIN")
			}
			return conn, err
		}
	})
	s.start()
	s.expect("connected")
	if got := s.Status().LastError; !strings.Contains(got, "in a transaction") {
		t.Errorf("last error %q", got)
	}
	db.until("the listening backend is idle", func() bool {
		var open, idle int
		err := db.pool.QueryRow(context.Background(), `SELECT count(*) FILTER (WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()),
			count(*) FILTER (WHERE query ILIKE 'listen %' AND state = 'idle')
			FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'`).Scan(&open, &idle)
		return err == nil && open == 0 && idle == 1
	})
}

// C67: what cannot be the name of a queue is counted and dropped; anything else is passed on, known or not.
func TestForeignPayloads(t *testing.T) {
	db := newDatabase(t)
	s := newStation(t, db, nil)
	s.start()
	receive(t, s.looks, "the first look")
	for _, payload := range []string{"", strings.Repeat("x", 129), strings.Repeat("y", 7999), "{", strings.Repeat("z", 128)} {
		db.notify(channel, payload)
	}
	for _, want := range []string{"{", strings.Repeat("z", 128)} {
		if got := receive(t, s.hints, want); got != want {
			t.Errorf("hint %q, want %q", got, want)
		}
	}
	s.stop()
	if got := s.Status(); got.Discarded != 3 || got.Hints != 2 || got.LastHint.IsZero() {
		t.Errorf("status %+v", got)
	}
	if lines := s.logs.lines(slog.LevelInfo); len(lines) != 0 {
		t.Errorf("logged %q", lines)
	}
}

// A connection that also listens to something of its maker's own is not lost by hearing it.
func TestNotificationsOfAnotherChannel(t *testing.T) {
	db := newDatabase(t)
	s := newStation(t, db, func(c *listener.Config) {
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			conn, err := db.connect(ctx)
			if err == nil {
				_, err = conn.Exec(ctx, "LISTEN other")
			}
			return conn, err
		}
	})
	s.start()
	receive(t, s.looks, "the first look")
	db.notify("other", "x")
	db.notify(channel, "mail")
	receive(t, s.hints, "mail")
	s.stop()
	if got := s.Status(); got.Attempts != 1 || got.Discarded != 1 {
		t.Errorf("status %+v", got)
	}
}

func TestUnreachableAtFirst(t *testing.T) {
	db := newDatabase(t)
	proxy := db.proxy()
	proxy.Refuse(true)
	s := newStation(t, db, func(c *listener.Config) { c.Connect = db.via(proxy) })
	s.start()
	s.logs.await(t, "listener: still not listening", 3)
	if got := s.Status(); got.Connected || got.LastError == "" || got.Attempts < 3 {
		t.Errorf("status %+v", got)
	}
	proxy.Refuse(false)
	s.expect("connected")
	receive(t, s.looks, "a look at every queue")
	s.logs.await(t, "listener: hears again", 1)
	s.stop()
	if lines := s.logs.lines(slog.LevelWarn); len(lines) != 1 {
		t.Errorf("%d warnings for one outage: %q", len(lines), lines)
	}
}

func TestWrongCredentialsAtFirst(t *testing.T) {
	db := newDatabase(t)
	role := "listener_" + db.pool.Config().ConnConfig.Database
	s := newStation(t, db, func(c *listener.Config) {
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			config, err := pgx.ParseConfig(db.url)
			if err != nil {
				return nil, err
			}
			config.User = role
			return pgx.ConnectConfig(ctx, config)
		}
	})
	s.start()
	s.logs.await(t, "listener: still not listening", 1)
	db.exec("CREATE ROLE " + pgx.Identifier{role}.Sanitize() + " LOGIN")
	t.Cleanup(func() { db.exec("DROP ROLE " + pgx.Identifier{role}.Sanitize()) })
	s.expect("connected")
	s.stop()
}

// What the Connect function does wrong is an error to tell, not the end of the process.
func TestConnectMisbehaves(t *testing.T) {
	db := newDatabase(t)
	for name, connect := range map[string]func(ctx context.Context) (*pgx.Conn, error){
		"panic": func(context.Context) (*pgx.Conn, error) { panic("no configuration") },
		"nil":   func(context.Context) (*pgx.Conn, error) { return nil, nil },
		"OnNotification": func(ctx context.Context) (*pgx.Conn, error) {
			config, err := pgx.ParseConfig(db.url)
			if err != nil {
				return nil, err
			}
			config.OnNotification = func(*pgxPgConn, *pgxNotification) {}
			return pgx.ConnectConfig(ctx, config)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			s := newStation(t, db, func(c *listener.Config) {
				c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
					if calls.Add(1) <= 2 {
						return connect(ctx)
					}
					return db.connect(ctx)
				}
			})
			s.start()
			for receive(t, s.looks, "a look at every queue"); s.Status().Attempts < 3; {
				receive(t, s.looks, "a look at every queue")
			}
			db.notify(channel, "mail")
			receive(t, s.hints, "mail")
			if s.Status().LastError == "" {
				t.Error("no error was kept")
			}
		})
	}
}

func TestRunOnlyOnceAtATime(t *testing.T) {
	db := newDatabase(t)
	s := newStation(t, db, nil)
	s.start()
	s.expect("connected")
	if err := s.Run(context.Background()); !errors.Is(err, listener.ErrRunning) {
		t.Errorf("second Run: %v", err)
	}
	s.stop()

	ctx, cancel := context.WithCancel(context.Background())
	go func() { s.ended <- s.Run(ctx) }()
	s.expect("connected")
	db.notify(channel, "mail")
	receive(t, s.hints, "a hint in the second Run")
	cancel()
	if err := receive(t, s.ended, "the end of the second Run"); err != nil {
		t.Error(err)
	}
	if lines := s.logs.lines(slog.LevelInfo); len(lines) != 0 {
		t.Errorf("normal stops were logged: %q", lines)
	}
}
