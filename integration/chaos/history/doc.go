// Package history keeps what happened in a run under faults, and proves afterwards that it was allowed to happen.
//
// Enqueuers and handlers write events to append-only files that lie outside of the database under test: a server that loses something
// cannot lose the record of it as well. Every process writes a file of its own ([Open]), each event in one write, so that
// a process that is killed leaves whole events behind, and at most one torn line at the end, which is dropped ([Read]).
//
// When everything has come to rest the database is read once more ([Final]), and [Check] compares the two. It knows nothing of how
// pgqueue works, only what is promised: see [Rule]. Its tests plant a violation of each rule and expect to be told of it.
//
// Events are ordered by the clock of the machine on which all processes of a run are: [Now].
package history
