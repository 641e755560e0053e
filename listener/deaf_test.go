package listener_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/listener"
)

// C74: a pooler that accepts LISTEN and never delivers is found out, told once, and left as soon as it can be.
func TestDeafness(t *testing.T) {
	db := newDatabase(t)
	proxy := db.proxy()
	proxy.SwallowNotifications(true)
	s := newStation(t, db, func(c *listener.Config) {
		c.Connect = db.via(proxy)
		c.EchoInterval, c.EchoTimeout = 50*time.Millisecond, 250*time.Millisecond
	})
	s.start()
	for range 3 {
		s.expect("connected", "deaf", "disconnected")
	}
	if got := s.Status(); !got.Deaf || !strings.Contains(got.LastError, listener.ErrDeaf.Error()) || got.SendError != "" {
		t.Errorf("status %+v", got)
	}
	if proxy.Swallowed() < 3 {
		t.Errorf("%d notifications swallowed", proxy.Swallowed())
	}
	if lines := s.logs.lines(slog.LevelWarn); len(lines) != 1 {
		t.Errorf("%d warnings for one outage: %q", len(lines), lines)
	}
	proxy.SwallowNotifications(false)
	s.logs.await(t, "listener: hears again", 1)
	s.stop()
	if got := s.Status(); got.Deaf || got.LastEcho.IsZero() {
		t.Errorf("status %+v", got)
	}
}

// A connection that died without a word gives no error to the reader; only the missing echo tells.
func TestHalfOpenConnection(t *testing.T) {
	db := newDatabase(t)
	proxy := db.proxy()
	s := newStation(t, db, func(c *listener.Config) {
		c.Connect = db.via(proxy)
		c.EchoInterval, c.EchoTimeout = 100*time.Millisecond, time.Second
	})
	s.start()
	s.expect("connected")
	receive(t, s.looks, "the first look")
	db.notify(channel, "before")
	receive(t, s.hints, "before")
	proxy.HalfOpen()
	s.expect("deaf", "disconnected", "connected")
	receive(t, s.looks, "a look at every queue")
	db.notify(channel, "after")
	if got := receive(t, s.hints, "after"); got != "after" {
		t.Errorf("hint %q", got)
	}
	s.stop()
	if proxy.Open() > 0 {
		db.until("the dead connection is closed", func() bool { return proxy.Open() == 0 })
	}
}

// A stalled network is like a half-open connection, and a cut one like a crash of the server.
func TestStallAndCut(t *testing.T) {
	db := newDatabase(t)
	proxy := db.proxy()
	s := newStation(t, db, func(c *listener.Config) {
		c.Connect = db.via(proxy)
		c.EchoInterval, c.EchoTimeout = 100*time.Millisecond, time.Second
	})
	s.start()
	s.expect("connected")
	proxy.Cut()
	s.expect("disconnected", "connected")
	proxy.Stall()
	s.expect("deaf", "disconnected")
	proxy.Resume()
	s.expect("connected")
	// Its echo has a second: on a machine that stands still longer it takes itself for deaf again and connects anew, and a hint that comes
	// between two connections is lost. So hints are sent until one is heard.
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; {
		db.notify(channel, "mail")
		select {
		case got := <-s.hints:
			if got != "mail" {
				t.Errorf("heard %q", got)
			}
			return
		case <-tick.C:
			if time.Now().After(deadline) {
				t.Fatal("no hint is heard after the connection came back")
			}
		}
	}
}

// pgxlisten waits for the answer to its LISTEN without a limit.
func TestListenIsNeverAnswered(t *testing.T) {
	db := newDatabase(t)
	proxy := db.proxy()
	var calls atomic.Int32
	s := newStation(t, db, func(c *listener.Config) {
		c.ConnectTimeout = 2 * time.Second
		connect := db.via(proxy)
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			proxy.Resume()
			conn, err := connect(ctx)
			if err == nil && calls.Add(1) == 1 {
				proxy.Stall()
			}
			return conn, err
		}
	})
	s.start()
	s.expect("connected")
	if got := s.Status(); got.Attempts < 2 || !strings.Contains(got.LastError, "LISTEN was not answered") {
		t.Errorf("status %+v", got)
	}
}

// An echo that cannot be sent says nothing about the listener, whatever the reason.
func TestSendFailureIsNotDeafness(t *testing.T) {
	db := newDatabase(t)
	var works atomic.Bool
	sends := make(chan struct{})
	s := newStation(t, db, func(c *listener.Config) {
		c.EchoInterval, c.EchoTimeout = 50*time.Millisecond, 2*time.Second
		c.Send = func(ctx context.Context, channel, payload string) error {
			select {
			case sends <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			if works.Load() {
				return db.send(ctx, channel, payload)
			}
			if len(payload)%2 == 0 {
				panic("pool closed")
			}
			return errors.New("no connection free")
		}
	})
	s.start()
	s.expect("connected")
	for range 5 {
		receive(t, sends, "an attempt to send")
	}
	if got := s.Status(); got.SendError == "" || got.Deaf || !got.Connected || got.Attempts != 1 || got.LastError != "" {
		t.Errorf("status %+v", got)
	}
	works.Store(true)
	for range 3 {
		receive(t, sends, "an echo")
	}
	s.stop()
	if got := s.Status(); got.SendError != "" || got.LastEcho.IsZero() || got.Attempts != 1 {
		t.Errorf("status %+v", got)
	}
	if lines := s.logs.lines(slog.LevelWarn); len(lines) != 1 {
		t.Errorf("logged %q", lines)
	}
}

// Without Send there is no echo, and no statement beyond the one LISTEN.
func TestWithoutEcho(t *testing.T) {
	db := newDatabase(t)
	s := newStation(t, db, func(c *listener.Config) { c.Send = nil })
	s.start()
	s.expect("connected")
	db.notify(channel, "mail")
	receive(t, s.hints, "mail")
	if pids := db.listeners(); len(pids) != 1 {
		t.Fatalf("%d backends listen", len(pids))
	} else {
		db.exec("SELECT pg_terminate_backend($1)", pids[0])
	}
	s.expect("disconnected", "connected")
	db.notify(channel, "mail")
	receive(t, s.hints, "mail again")
}
