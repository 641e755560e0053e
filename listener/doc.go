// Package listener hears the hints of Postgres: it keeps one connection in LISTEN and says which queue has new work.
//
// A hint is the name of a queue, sent with pg_notify by whoever enqueued, and delivered by Postgres after the commit. It
// carries no work and may be lost, doubled or late; the queue's own poll makes up for that. The listener makes the loss
// rare and known: after each (re)connection it asks for a look at every queue ([Config].OnConnect), and it proves with
// an echo, sent over another connection, that it does hear ([Config].Send). A half-open connection, or a pooler that
// accepts LISTEN and never delivers, answers no echo: the listener says so in [Status].Deaf and connects anew.
//
// The connection is given by [Config].Connect and must be one of its own, never one borrowed from a pool: it is closed by
// the listener, and a pool would count it as taken for ever. It is never in a transaction, because a session that
// listens inside one keeps the server from trimming its notification queue. A role or database that sets
// idle_session_timeout ends the connection each time it runs out; set it to 0 in the connection's RuntimeParams.
//
// A second channel, [Config].Control, may bring messages about single tasks over the same connection: what they mean is between
// those who send and [Config].OnControl, and they may be lost as hints may.
//
// The reading is done by github.com/jackc/pgxlisten. This package adds what a worker process needs around it: backoff
// from 100 ms instead of a fixed minute, callbacks that can neither block nor crash the reader, one hint per queue
// however many arrive, and the echo.
//
// Its neighbours: package pgqueue wires hints to the Wake method of a runner; package runner polls whether or not a
// listener works; package metrics implements the observer interfaces. None of them is imported here.
package listener
