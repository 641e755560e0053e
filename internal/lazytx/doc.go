// Package lazytx is the transaction that a transactional handler is given, in pgqueue and in outbox: it begins at its first
// use, its end belongs to the library, and only so many are open at a time that the pool keeps connections for the worker's
// own statements.
package lazytx
