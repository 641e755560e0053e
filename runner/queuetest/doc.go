// Package queuetest is the conformance suite of [runner.Queue]: what every queue must do, whatever its table looks like.
// The jobs table, the outbox adapter and the queue in memory pass it, and a queue of your own should too:
//
//	func TestConformance(t *testing.T) {
//		queuetest.Run(t, func(tb testing.TB) queuetest.Harness[Payload, Result] {
//			table := newTable(tb) // an empty one for each case
//			return queuetest.Harness[Payload, Result]{
//				Queue: table.Queue(),
//				Add:   func(item queuetest.NewItem) { table.insert(tb, item) },
//				…
//			}
//		})
//	}
//
// The suite knows no table, no state column and no clock. It sees the queue through its own methods and through the
// operations of a [Harness]: what an application, another session or the passing of time does to an item. Each is a few
// lines of SQL.
//
// What a queue cannot do must be declared in [Harness.Without]. Nothing is skipped silently: an operation that is missing and
// not declared fails the suite, and so does one that is there although it is declared missing. What the Go type of the
// queue declares by implementing [runner.Renewer] or [runner.Scheduler] is tested without being asked for.
//
// Each case is a subtest with a harness of its own; [Cases] lists them for a runner that is not testing.T. The suite is
// itself tested, with queues that break one rule each.
package queuetest
