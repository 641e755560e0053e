// Package integration holds the end-to-end tests of pgqueue: real processes, real signals and a real Postgres, seen from
// outside through the public API, SQL and what the processes say. It has no code of its own. The other tests of the
// project ask whether a part keeps its promise; these ask whether a job survives.
//
// # Processes
//
// The test binary is its own worker program: started again with the variable PGQUEUE_INTEGRATION_PROGRAM it serves a
// queue instead of running tests (program_test.go), with a small set of job kinds that sleep, wait to be told, kill their
// process, or write in the transaction of their completion (kinds_test.go). So SIGKILL, SIGTERM and SIGSTOP are real. A
// process tells what happens by JSON lines on its standard output (events_test.go), which a pipe keeps whatever
// becomes of the process, and is told to go on through its standard input (child_test.go). It dies with the test.
//
// # Databases
//
// Tests use pgqueuetest.New, so the variable PGQUEUE_TEST_DATABASE_URL names the server for all of them. Those that
// restart the server start one of their own by pgqueuetest.NewServer. The role must be allowed to create databases, and
// pgproxy, which stands between worker and server in some tests, needs a server that does not insist on TLS.
//
// # Time
//
// No test waits for a result by sleeping: it waits for an event of a process, or polls with SQL where that is the only
// evidence (wait_test.go), and no deadline is one of speed. PGQUEUE_TEST_FULL=1 runs the sizes of the failure cases.
package integration
