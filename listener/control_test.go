package listener_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/listener"
)

const control = "pgqueue!control"

// withControl adds the second channel to a station.
func withControl(told chan string) func(*listener.Config) {
	return func(c *listener.Config) {
		c.Control = control
		c.OnControl = func(message string) { told <- message }
	}
}

// Both channels come over one connection, each to its own callback, and are there again after it was lost.
func TestControlMessages(t *testing.T) {
	db := newDatabase(t)
	told := make(chan string, 100)
	s := newStation(t, db, withControl(told))
	s.start()
	s.expect("connected")
	receive(t, s.looks, "OnConnect")
	db.notify(control, "cancel 17")
	if got := receive(t, told, "the message"); got != "cancel 17" {
		t.Errorf("message %q", got)
	}
	db.notify(channel, "mail")
	if got := receive(t, s.hints, "the hint"); got != "mail" {
		t.Errorf("hint %q", got)
	}
	for _, text := range []string{"", strings.Repeat("x", listener.MaxHint+1)} {
		db.notify(control, text)
	}
	pids := db.listeners()
	if len(pids) != 1 {
		t.Fatalf("%d connections listen, want 1", len(pids))
	}
	db.exec("SELECT pg_terminate_backend($1)", pids[0])
	s.expect("disconnected", "connected")
	receive(t, s.looks, "OnConnect again: messages may have been lost")
	db.notify(control, "done 17")
	if got := receive(t, told, "the message"); got != "done 17" {
		t.Errorf("message %q", got)
	}
	if got := s.Status(); got.Control != 2 || got.Hints != 1 || got.Discarded != 2 {
		t.Errorf("status %+v", got)
	}
	s.stop()
	if len(told)+len(s.hints) != 0 {
		t.Errorf("%d more messages and %d more hints", len(told), len(s.hints))
	}
}

// A callback that panics or ends its goroutine costs its own call. One that hangs delays no hint, and what does not fit any
// more while it does is told by OnConnect.
func TestControlCallbackMisbehaves(t *testing.T) {
	db := newDatabase(t)
	told, gate := make(chan string, 10000), make(chan struct{})
	s := newStation(t, db, func(c *listener.Config) {
		c.Control = control
		c.OnControl = func(message string) {
			told <- message
			switch message {
			case "panic":
				panic("at the disco")
			case "goexit":
				runtime.Goexit()
			case "hang":
				<-gate
			}
		}
	})
	s.start()
	receive(t, s.looks, "OnConnect")
	for _, message := range []string{"panic", "goexit", "hang"} {
		db.notify(control, message)
		if got := receive(t, told, message); got != message {
			t.Fatalf("message %q, want %q", got, message)
		}
	}
	db.notify(channel, "mail")
	receive(t, s.hints, "the hint beside the callback that hangs")
	db.exec("SELECT pg_notify($1, 'cancel ' || n % 500) FROM generate_series(1, 2000) n", control)
	db.notify(channel, "behind")
	receive(t, s.hints, "the hint behind many messages")
	if len(s.looks) != 0 {
		t.Error("500 different messages fit and are told as lost")
	}
	db.exec("SELECT pg_notify($1, 'done ' || n) FROM generate_series(1, 2000) n", control)
	receive(t, s.looks, "OnConnect for what did not fit")
	db.until("all messages were read", func() bool { return s.Status().Control == 2503 })
	if got := s.Status(); got.Panics != 2 || got.Discarded != 0 {
		t.Errorf("status %+v", got)
	}
	close(gate)
	seen := map[string]int{}
	for range 1024 {
		seen[receive(t, told, "what was kept")]++
	}
	if seen["cancel 7"] != 1 || seen["done 7"] != 1 {
		t.Errorf("%d and %d calls for equal messages", seen["cancel 7"], seen["done 7"])
	}
}

// What cannot work is refused, with the name of the field.
func TestControlConfig(t *testing.T) {
	for field, change := range map[string]func(*listener.Config){
		"Control":   func(c *listener.Config) { c.Control, c.OnControl = c.Channel, func(string) {} },
		"OnControl": func(c *listener.Config) { c.Control = control },
		"Control ":  func(c *listener.Config) { c.OnControl = func(string) {} },
		"Control  ": func(c *listener.Config) { c.Control, c.OnControl = strings.Repeat("c", 64), func(string) {} },
		"Control\t": func(c *listener.Config) { c.Control, c.OnControl = "a\xffb", func(string) {} },
	} {
		config := listener.Config{Channel: channel, OnHint: func(string) {}, Connect: (&database{}).connect}
		change(&config)
		_, err := listener.New(config)
		var refused *listener.ConfigError
		if !errors.As(err, &refused) || refused.Field != strings.TrimSpace(field) {
			t.Errorf("%q: %v", field, err)
		}
	}
}
