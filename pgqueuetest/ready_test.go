package pgqueuetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// oneJob migrates a database of the server, by its template, and has a job run in it. Nothing is tried twice.
func oneJob(t *testing.T, db *DB) {
	t.Helper()
	client := db.Client(t)
	ran := 0
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[welcome]) error { ran++; return nil })
	enqueue(t, client, db.Pool, welcome{UserID: 1})
	if result := Drain(t, client, mux); ran != 1 || result.Outcomes.Succeeded != 1 {
		t.Errorf("%d jobs ran: %+v", ran, result)
	}
}

// burn keeps the processors busy until the test ends.
func burn(t *testing.T) {
	t.Helper()
	var group sync.WaitGroup
	done := make(chan struct{})
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	t.Cleanup(func() {
		close(done)
		group.Wait()
	})
}

// A server that NewServer returns is ready for good: the first migration and the first job succeed, whatever else the machine
// does.
func TestC152_FreshServersUnderLoad(t *testing.T) {
	t.Parallel()
	servers := 2
	if os.Getenv("PGQUEUE_TEST_FULL") != "" {
		servers = 30
	}
	burn(t)
	for range servers {
		t.Run("server", func(t *testing.T) { oneJob(t, NewServer(t).DB(t)) })
	}
}

// Between two tests the server crashes, or is ended and started again, as the one that sets a container up is. The next test
// waits until it is there, also for a template that it has to make first.
func TestC152_TheServerRestartsBetweenTwoTests(t *testing.T) {
	t.Parallel()
	server := NewServer(t, WithDurability())
	t.Run("before", func(t *testing.T) { oneJob(t, server.DB(t)) })
	if err := server.Restart(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	t.Run("after a crash", func(t *testing.T) { oneJob(t, server.DB(t)) })
	for _, schema := range []string{migrations.DefaultSchema, "another"} {
		if err := server.Halt(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		resumed := make(chan error, 1)
		go func() { resumed <- server.Resume(context.WithoutCancel(t.Context())) }()
		t.Run("while it is away, "+schema, func(t *testing.T) { oneJob(t, server.DB(t, WithSchema(schema))) })
		if err := <-resumed; err != nil {
			t.Fatal(err)
		}
	}
}

// Somebody is connected to the template, who is none of this package's: the error says so, and the next test is none the worse.
func TestC152_SomebodyIsConnectedToTheTemplate(t *testing.T) {
	t.Parallel()
	server := NewServer(t)
	name, err := server.source.template(migrations.DefaultSchema).get(t.Context(), server.source)
	if err != nil {
		t.Fatal(err)
	}
	err = server.source.do(t.Context(), func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "ALTER DATABASE "+quote(name)+" ALLOW_CONNECTIONS true")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), urlOf(server.source.direct, name))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	text := message(t, func(t testing.TB) { server.DB(t) })
	for _, part := range []string{"copying the template", name, "being accessed by other users", "1 other session"} {
		if !strings.Contains(text, part) {
			t.Errorf("it does not say %q: %s", part, text)
		}
	}
	conn.Close(t.Context())
	oneJob(t, server.DB(t))
}

// A server that says that it is starting up is waited for from the first contact on; one that is not there only later.
func TestC152_WhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	starting, refused := &pgconn.PgError{Code: "57P03"}, &pgconn.PgError{Code: "28P01"} // invalid_password
	gone := error(&net.OpError{Op: "dial", Err: errors.New("connection refused")})
	for _, c := range []struct {
		err   error
		later func(error) bool
		tries int
	}{
		{starting, startingUp, 3}, {gone, startingUp, 1}, {refused, startingUp, 1}, {starting, away, 3}, {gone, away, 3}, {refused, away, 1},
	} {
		tries := 0
		err := whenReady(t.Context(), c.later, func() error {
			if tries++; tries == 3 {
				return nil
			}
			return fmt.Errorf("connect: %w", c.err)
		})
		if tries != c.tries || (err == nil) != (c.tries == 3) {
			t.Errorf("%v: %d tries, want %d: %v", c.err, tries, c.tries, err)
		}
	}
}
