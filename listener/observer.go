package listener

import (
	"fmt"
	"time"
)

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

// observers holds what Config.Observer implements, looked up once.
type observers struct {
	hint         []HintObserver
	coalesced    []CoalescedObserver
	connected    []ConnectedObserver
	disconnected []DisconnectedObserver
	deaf         []DeafObserver
}

// observersOf takes several observers apart: whoever has a method Observers() []any stands for those, as what
// runner.Observers makes does.
func observersOf(observer any) (found observers) {
	if several, ok := observer.(interface{ Observers() []any }); ok {
		for _, one := range several.Observers() {
			found.add(observersOf(one))
		}
		return found
	}
	join(&found.hint, observer)
	join(&found.coalesced, observer)
	join(&found.connected, observer)
	join(&found.disconnected, observer)
	join(&found.deaf, observer)
	return found
}

func (o *observers) add(more observers) {
	o.hint = append(o.hint, more.hint...)
	o.coalesced = append(o.coalesced, more.coalesced...)
	o.connected = append(o.connected, more.connected...)
	o.disconnected = append(o.disconnected, more.disconnected...)
	o.deaf = append(o.deaf, more.deaf...)
}

// join adds observer to those of an interface if it implements it.
func join[T any](those *[]T, observer any) {
	if one, ok := observer.(T); ok {
		*those = append(*those, one)
	}
}

// tellEach tells every observer of one interface and contains their panics: counting must not end the hearing.
func tellEach[T any](l *Listener, those []T, tell func(T)) {
	for _, one := range those {
		func() {
			defer func() {
				if cause := recover(); cause != nil {
					l.config.Logger.Error("listener: an observer panicked", "type", fmt.Sprintf("%T", cause))
				}
			}()
			tell(one)
		}()
	}
}
