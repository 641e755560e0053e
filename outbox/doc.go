// Package outbox runs the engine of pgqueue over a table that the application has already: a table of deliveries, of
// notifications, of anything with a status. A [Table] names the columns, and the package writes the SQL.
//
// # The pieces
//
// A [Queue] is a [runner.Queue] over the table: it claims, reports, recovers and knows when the next row is due. [New]
// checks the description by itself, [Queue.Check] against the catalog of the database, and [Queue.SQL] prints every
// statement for review. A [Worker] runs handlers over it: [Worker.Run] for a resident service, [Worker.Drain] and
// [Worker.DrainHandler] for cron and serverless. All of them are the same code, and need no session state, so everything
// but the listener works through a pooler in transaction mode.
//
// # What it promises
//
// A row is handled at least once. Every write that ends a claim is fenced with the key, the attempts and the time (or
// token) of that claim, so a worker that comes too late changes nothing once the row has been claimed again, or was
// deleted and made again under the same key. A success that comes after the row was taken back, and before somebody
// claimed it again, counts: the work was done. Each delivery of a row carries the same [IdempotencyKey], for receivers
// that can tell doubles. Where the effect is a write in the same database, [HandleTx] makes it happen exactly once.
//
// # How it is built
//
// statements.sql has the statements as templates with a comment on each hard part; statements.go fills in the names
// (table.go). A claim is claim.go, scan.go and token.go, its end report.go, and the way back of what a dead process held
// reap.go. What a row refuses, such as a trigger of the application's that raises, is isolated in careful.go.
//
// Its neighbours: package runner runs the handlers, listener hears hints, reaper calls Recover. Package pgqueue is the
// same engine over a table of its own, and is not imported here.
package outbox
