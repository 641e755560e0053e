// Package memqueue is a [runner.Queue] in memory, for tests and examples. It keeps nothing when the process ends and
// lets no second process take part, so it is of no use in production.
//
// Its semantics are those of the jobs table of package pgqueue: an attempt number fences every verdict, a replaced
// input supersedes the run that is under way, a success that comes after its lease was recovered still counts as long as
// nobody has claimed the task again, and no verdict waits for a task that somebody else has locked. Package queuetest
// holds it, like every other queue, to the conformance suite; the suite in turn is tested with queues that wrap this
// one and break a single rule.
//
// Beside the three interfaces of package runner ([Queue.Claim] and [Queue.Report], [Queue.Renew], [Queue.NextDue]) it has
// what a producer does ([Queue.Put], [Queue.Delete], [Queue.RequestCancel]), what a reaper does ([Queue.Recover]), and what
// only a test does: [Queue.Lock], [Queue.ExpireLeases], [Queue.SetDue], [Queue.SetEligible]. The clock is injectable, and the
// default clock works inside a testing/synctest bubble.
//
// A claim costs O(batch · log n), whatever the number of tasks that wait.
package memqueue
