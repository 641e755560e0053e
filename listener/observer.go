package listener

import "time"

// The observer interfaces are told of events as they happen; [Config].Observer may implement any of them. Methods are
// called on the goroutine that reads the connection, some of them once per notification: they must only count and
// return. A panic in one is contained. The name of a queue comes from the sender of the hint and may be anything:
// do not make it a metric label unless it is a queue that you know.

// HintObserver is told of each hint that named a queue.
type HintObserver interface{ ListenerHint(queue string) }

// CoalescedObserver is told of each hint that added nothing, because its queue was already waiting to be told.
type CoalescedObserver interface{ ListenerCoalesced(queue string) }

// ConnectedObserver is told when LISTEN is in force on a new connection.
type ConnectedObserver interface{ ListenerConnected() }

// DisconnectedObserver is told when a connection on which LISTEN was in force is lost; not at a normal stop.
type DisconnectedObserver interface{ ListenerDisconnected(reason error) }

// DeafObserver is told when an echo did not arrive; waited is how long it had.
type DeafObserver interface{ ListenerDeaf(waited time.Duration) }

// observers holds the interfaces that Config.Observer implements, looked up once.
type observers struct {
	hint         HintObserver
	coalesced    CoalescedObserver
	connected    ConnectedObserver
	disconnected DisconnectedObserver
	deaf         DeafObserver
}

func observersOf(observer any) (found observers) {
	found.hint, _ = observer.(HintObserver)
	found.coalesced, _ = observer.(CoalescedObserver)
	found.connected, _ = observer.(ConnectedObserver)
	found.disconnected, _ = observer.(DisconnectedObserver)
	found.deaf, _ = observer.(DeafObserver)
	return found
}

// tell calls an observer and contains its panic: counting must not end the hearing.
func (l *Listener) tell(call func()) {
	defer func() {
		if cause := recover(); cause != nil {
			l.config.Logger.Error("listener: an observer panicked", "panic", cause)
		}
	}()
	call()
}
