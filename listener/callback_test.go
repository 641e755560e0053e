package listener_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/listener"
)

type (
	pgxPgConn       = pgconn.PgConn
	pgxNotification = pgconn.Notification
)

// C69: a callback that panics, or ends its goroutine, costs only its own call.
func TestCallbacksAreContained(t *testing.T) {
	db := newDatabase(t)
	told := make(chan string, 10)
	s := newStation(t, db, func(c *listener.Config) {
		c.OnHint = func(queue string) {
			told <- queue
			switch queue {
			case "panic":
				panic("at the disco")
			case "goexit":
				runtime.Goexit()
			}
		}
		c.OnConnect = func() {
			told <- "connect"
			panic("in OnConnect")
		}
	})
	s.start()
	for _, want := range []string{"connect", "panic", "goexit", "mail"} {
		if want != "connect" {
			db.notify(channel, want)
		}
		if got := receive(t, told, want); got != want {
			t.Fatalf("callback for %q, want %q", got, want)
		}
	}
	s.stop()
	if got := s.Status(); got.Panics != 3 || got.Attempts != 1 {
		t.Errorf("status %+v", got)
	}
}

// counter sees every hint that the reader took.
type counter struct {
	wanted int64
	seen   atomic.Int64
	all    chan struct{}
}

func (c *counter) ListenerHint(string) {
	if c.seen.Add(1) == c.wanted {
		close(c.all)
	}
	if c.seen.Load()%1000 == 0 {
		panic("an observer must not end the reading")
	}
}

// C69: while OnHint hangs, the reader goes on reading, keeps a bounded number of names, and nothing is forgotten.
func TestBlockedCallback(t *testing.T) {
	const transactions, each = 100, 1000
	for name, test := range map[string]struct {
		payload string // of the notification with number n
		looks   bool   // more names than are kept: told as a look at every queue
	}{
		"few queues":  {"'q' || n % 10", false},
		"many queues": {"'q' || n", true},
	} {
		t.Run(name, func(t *testing.T) {
			db := newDatabase(t)
			seen := &counter{all: make(chan struct{})}
			entered, leave := make(chan string), make(chan struct{})
			hints, looks := make(chan string, 2000), make(chan struct{}, 10)
			sent := int64(transactions * each)
			if !test.looks {
				sent = transactions * 10 // Postgres folds what is equal within a transaction
			}
			seen.wanted = sent + 1
			s := newStation(t, db, func(c *listener.Config) {
				c.Observer = seen
				c.OnHint = func(queue string) {
					if queue == "block" {
						entered <- queue
						<-leave
						return
					}
					hints <- queue
				}
				c.OnConnect = func() { looks <- struct{}{} }
			})
			s.start()
			receive(t, looks, "the first look")
			db.notify(channel, "block")
			receive(t, entered, "the callback that blocks")

			before := heap()
			for i := range transactions {
				db.exec("SELECT pg_notify($1, "+test.payload+") FROM generate_series($2::int + 1, $2 + $3::int) n",
					channel, i*each, each)
			}
			receive(t, seen.all, "the reading of all notifications")
			if grown := int64(heap()) - int64(before); grown > 8<<20 {
				t.Errorf("the heap grew by %d bytes", grown)
			}
			db.until("the server's queue is empty", func() bool {
				var usage float64
				err := db.pool.QueryRow(context.Background(), "SELECT pg_notification_queue_usage()").Scan(&usage)
				return err == nil && usage == 0
			})
			close(leave)
			if test.looks {
				receive(t, looks, "a look at every queue in place of too many names")
			} else {
				for range 10 {
					receive(t, hints, "a hint that arrived meanwhile")
				}
			}
			db.notify(channel, "last")
			for receive(t, hints, "last") != "last" {
				// names that arrived meanwhile come first
			}
			s.stop()
			if got := s.Status(); got.Attempts != 1 || got.Hints != sent+2 || got.Coalesced < sent-10-1024 {
				t.Errorf("status %+v", got)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// Run ends although a callback does not, and says so.
func TestStopWithStuckCallback(t *testing.T) {
	db := newDatabase(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	s := newStation(t, db, func(c *listener.Config) {
		c.OnHint = func(string) {
			close(entered)
			<-leave
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { s.ended <- s.Run(ctx) }()
	receive(t, s.looks, "the first look")
	db.notify(channel, "mail")
	receive(t, entered, "the callback")
	cancel()
	if err := receive(t, s.ended, "the end of Run"); !errors.Is(err, listener.ErrStuck) {
		t.Errorf("Run: %v", err)
	}
	close(leave)
	db.until("no backend listens", func() bool { return len(db.listeners()) == 0 })
}
