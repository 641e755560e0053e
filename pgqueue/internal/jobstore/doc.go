// Package jobstore is the SQL of the jobs table and the Go around it. Every statement stands, commented, in one of the .sql
// files: enqueue.sql for producers; claim.sql, verdict.sql and reap.sql for consumers; control.sql,
// inspect.sql and inspect_bulk.sql for people.
//
// [Store] holds the statements of one schema. Producers use its methods on whatever they have, a transaction or a pool.
// [Queue] is the consumer's side of one queue over a pool: what package runner drains and package reaper looks after.
// Package pgqueue puts the public API in front of both.
//
// All times are the database's. The Go clock measures how long something took, and nothing else.
package jobstore
