package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

const (
	// DefaultEventBuffer is how many events wait for a subscriber unless it asks for another number.
	DefaultEventBuffer = 100
	// MaxEventBuffer is the largest [SubscribeConfig].Buffer.
	MaxEventBuffer = 1_000_000
)

// ErrSubscriptionEnded is what [Subscription.Next] returns when there are no more events: the worker has stopped, or the
// subscription was closed.
var ErrSubscriptionEnded = errors.New("pgqueue: the subscription has ended")

// SubscribeConfig says which events a subscriber wants, and how many may wait for it. The zero value means all of them.
type SubscribeConfig struct {
	// Queues, Kinds and Outcomes bound the events to those of any of these; an empty one does not bound them. The kind is the
	// one that is stored, which for an alias is the alias.
	Queues   []string
	Kinds    []string
	Outcomes []runner.Outcome
	// Buffer is how many events may wait for the subscriber. What comes while that many wait is dropped and counted. Default
	// [DefaultEventBuffer], at most [MaxEventBuffer].
	Buffer int
}

func (c *SubscribeConfig) validate() error {
	if c.Buffer == 0 {
		c.Buffer = DefaultEventBuffer
	}
	if c.Buffer < 0 || c.Buffer > MaxEventBuffer {
		return invalid("Buffer", fmt.Sprintf("must be from 1 to %d, is %d", MaxEventBuffer, c.Buffer))
	}
	for _, list := range []struct {
		field string
		names []string
	}{{"Queues", c.Queues}, {"Kinds", c.Kinds}} {
		for i, name := range list.names {
			if err := checkName(fmt.Sprintf("%s[%d]", list.field, i), name); err != nil {
				return err
			}
		}
	}
	for i, outcome := range c.Outcomes {
		if outcome < runner.Lost || outcome > runner.Released || outcome == runner.Busy {
			return invalid(fmt.Sprintf("Outcomes[%d]", i), fmt.Sprintf("%d is no outcome that a job can have", outcome))
		}
	}
	c.Queues, c.Kinds, c.Outcomes = slices.Clone(c.Queues), slices.Clone(c.Kinds), slices.Clone(c.Outcomes)
	return nil
}

// Event says what became of one attempt, after that was stored.
type Event struct {
	// Job is the job as it was claimed: Attempt is the number of the attempt that has ended, Failures those that had failed
	// before it.
	Job JobInfo
	// Outcome is what became of it: [runner.Succeeded], [runner.Retrying] (it failed and is tried again), [runner.Failed],
	// [runner.Dead], [runner.Cancelled], [runner.Snoozed], [runner.Released] (a stop gave it back), [runner.Superseded] (its
	// input was replaced during the run), or [runner.Lost] (its lease had run out: what has become of the job, another
	// attempt decides).
	Outcome runner.Outcome
	// Code and Message say why the attempt failed, in the words that are stored: safe to show. Empty if it did not.
	Code, Message string
	// Waited is how long the job waited in this process between its claim and its start, and Duration how long its handler
	// ran; a job in a batch ran as long as the batch. Both are zero if it was given back, or lost, before it started.
	Waited, Duration time.Duration
	// Delay is how long until a job that is retried or snoozed is due again.
	Delay time.Duration
	// Missed is how many events were dropped between the one before this one and this one, because the subscriber was slow.
	Missed int
}

// Subscription is a subscriber's end of a stream of events. It is an observer like any other (it implements
// [runner.VerdictObserver]), made by [Worker.Subscribe], or by [NewSubscription] to be given to [WorkerConfig].Observer. Its
// methods are safe for concurrent use; several readers share the events.
//
// A subscription sees what its own process works and nothing else. It is for metrics, caches, tests and the like, and no place
// for what must not be missed: events of a killed process are gone, those that come too fast for their reader are dropped. What
// must happen once a job has succeeded belongs into its handler, or into a job that the handler enqueues.
type Subscription struct {
	want   SubscribeConfig
	events chan Event
	forget []func() // takes it from the runners

	mutex   sync.Mutex
	ended   bool
	dropped int    // since the last event that was not
	missed  uint64 // in all
}

var _ runner.VerdictObserver = (*Subscription)(nil)

// NewSubscription makes a subscription that belongs to no worker: give it to [WorkerConfig].Observer, beside others by
// [Observers], for [Client.Drain], [Client.DrainTx] or several workers. It ends when it is closed. A mistake in config is a
// [*ValidationError].
func NewSubscription(config SubscribeConfig) (*Subscription, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return &Subscription{want: config, events: make(chan Event, config.Buffer)}, nil
}

// Subscribe has the worker tell of the ends of attempts from now on. It may be called before [Worker.Run] and while that runs.
// The subscription ends when Run returns, after the last event was told, or when it is closed; another Run needs another one. A
// mistake in config is a [*ValidationError].
//
// Events of one job come in their order, those of different jobs in no particular one. Telling never waits: see [Event].Missed.
// Nothing is computed for events while nobody has subscribed.
func (w *Worker) Subscribe(config SubscribeConfig) (*Subscription, error) {
	s, err := NewSubscription(config)
	if err != nil {
		return nil, err
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for name, run := range w.runners {
		if len(s.want.Queues) == 0 || slices.Contains(s.want.Queues, name) {
			s.forget = append(s.forget, run.Observe(s))
		}
	}
	w.subscriptions = append(w.subscriptions, s)
	return s, nil
}

// endSubscriptions ends all of them when Run returns. The lock is held.
func (w *Worker) endSubscriptions() {
	for _, s := range w.subscriptions {
		s.Close()
	}
	w.subscriptions = nil
}

// Events is where the events come from. It is closed when the subscription has ended and what waited was read.
func (s *Subscription) Events() <-chan Event { return s.events }

// Next waits for the next event. It returns [ErrSubscriptionEnded] when there are no more, and ctx's error when that ended
// first.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	select {
	case event, ok := <-s.events:
		if !ok {
			return Event{}, ErrSubscriptionEnded
		}
		return event, nil
	case <-ctx.Done():
		return Event{}, fmt.Errorf("wait for an event: %w", context.Cause(ctx))
	}
}

// Missed is how many events were dropped so far because the subscriber was slow. Those that [Event].Missed has not told of were
// dropped after the last event.
func (s *Subscription) Missed() uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.missed
}

// Close ends the subscription. Events that wait can still be read. Closing it again does nothing.
func (s *Subscription) Close() {
	s.mutex.Lock()
	if s.ended {
		s.mutex.Unlock()
		return
	}
	s.ended = true
	close(s.events)
	s.mutex.Unlock()
	for _, forget := range s.forget {
		forget()
	}
}

// VerdictDone is called by the runner.
func (s *Subscription) VerdictDone(e runner.VerdictEvent) {
	if !wants(s.want.Outcomes, e.Outcome) || !wants(s.want.Kinds, e.Kind) || !wants(s.want.Queues, e.Queue) {
		return
	}
	event, ok := eventOf(e)
	if !ok {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.ended {
		return
	}
	event.Missed = s.dropped
	select {
	case s.events <- event:
		s.dropped = 0
	default:
		s.dropped++
		s.missed++
	}
}

func wants[T comparable](those []T, one T) bool {
	return len(those) == 0 || slices.Contains(those, one)
}

// eventOf makes an event of what the runner tells. ok is false for another kind of queue.
func eventOf(e runner.VerdictEvent) (event Event, ok bool) {
	job, ok := InfoOfToken(e.Token)
	if !ok {
		return Event{}, false
	}
	event = Event{Job: job, Outcome: e.Outcome, Waited: e.Waited, Duration: e.Duration, Delay: e.Delay}
	// A handler that settled its job in a transaction has failed only if the answer says so.
	settled := e.Decision == runner.Confirm && e.Outcome != runner.Retrying && e.Outcome != runner.Dead
	if e.Failure != nil && !settled {
		event.Code, event.Message = e.Failure.Code, e.Failure.Message
	}
	return event, true
}
