package pgqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// MaxPausedKinds is how many kinds [Client.PausedKinds] lists at most.
const MaxPausedKinds = 10_000

// PauseQueueUntil pauses a queue for every worker until a time, by the database's clock, at which it goes on by itself: nobody has to be
// there to resume it, and workers that wait look again at that moment. In everything else it is [Client.PauseQueue].
//
// It never shortens a pause: a queue that is paused for longer, or until [Client.ResumeQueue], stays so and keeps its reason.
// A time that has passed changes nothing. To end a pause earlier, resume the queue.
//
// A handler that an API tells to come back later pauses the whole queue with it, and gives its own job back with [RetryAfter] or [Snooze];
// [Pause] pauses this process alone. See the example. The same from SQL:
// SELECT pgqueue.pause_until('mail', now() + interval '10 min', 'rate limit').
func (c *Client) PauseQueueUntil(ctx context.Context, q Querier, queue string, until time.Time, reason string) error {
	if err := checkControl(q, queue); err != nil {
		return fmt.Errorf("pause queue: %w", err)
	}
	at, invalid := checkUntil(until)
	if invalid == nil && at == nil {
		invalid = &ValidationError{Field: "until", Message: "must not be zero; PauseQueue pauses until the queue is resumed"}
	}
	if invalid == nil {
		invalid = checkReason(reason)
	}
	if invalid != nil {
		return fmt.Errorf("pause queue: %w", invalid)
	}
	return c.schemaError(c.store.PauseUntil(ctx, q, queue, *at, reason))
}

// KindPause is the pause of a kind.
type KindPause struct {
	Kind string
	// Queue is where it is paused; empty means in all queues.
	Queue string
	// Until is when the pause ends by itself, by the database's clock; zero means at [Client.ResumeKind].
	Until time.Time
	// Reason is for people; at most 1,024 bytes, or empty.
	Reason string
	// Since is when it was paused. [Client.PauseKind] does not read it.
	Since time.Time
}

// PauseKind pauses a kind of jobs for every worker, in one queue or in all: no job of it is claimed, and what workers have claimed and
// not started they give back at no cost. What is running goes on, and so do the other kinds. It is in the database, so
// restarts change nothing, and it takes effect when q commits: for claims at once, and for what is claimed already with the
// hint or, without it, within the poll interval of a worker.
//
// It never shortens a pause of the same kind and queue, see [Client.PauseQueueUntil]. The name is that under which jobs are stored: an
// alias is a kind of its own here. One that nobody has used yet may be paused. The same from SQL:
// SELECT pgqueue.pause_kind('send', queue => 'mail', until => now() + interval '1 h', reason => 'the relay is down').
func (c *Client) PauseKind(ctx context.Context, q Querier, pause KindPause) error {
	at, err := checkKindPause(q, pause)
	if err != nil {
		return fmt.Errorf("pause kind: %w", err)
	}
	return c.schemaError(c.store.PauseKind(ctx, q, pause.Kind, pause.Queue, at, pause.Reason))
}

// ResumeKind ends the pause of a kind that [Client.PauseKind] began with the same queue, and wakes workers. An empty queue ends the pause
// in all queues; what is paused in single ones is resumed there. A kind that is not paused stays as it is. The same from SQL:
// SELECT pgqueue.resume_kind('send', 'mail').
func (c *Client) ResumeKind(ctx context.Context, q Querier, kind, queue string) error {
	if _, err := checkKindPause(q, KindPause{Kind: kind, Queue: queue}); err != nil {
		return fmt.Errorf("resume kind: %w", err)
	}
	return c.schemaError(c.store.ResumeKind(ctx, q, kind, queue))
}

// PausedKinds lists the kinds that are paused now, by kind and queue, at most [MaxPausedKinds].
func (c *Client) PausedKinds(ctx context.Context) ([]KindPause, error) {
	return c.pausedKinds(ctx, c.pool)
}

// pausedKinds are those of PausedKinds, on whatever can query.
func (c *Client) pausedKinds(ctx context.Context, q Querier) ([]KindPause, error) {
	found, err := c.store.PausedKinds(ctx, q, MaxPausedKinds)
	if err != nil {
		return nil, err
	}
	pauses := make([]KindPause, len(found))
	for n, pause := range found {
		pauses[n] = kindPauseOf(pause)
	}
	return pauses, nil
}

func kindPauseOf(p jobstore.PausedKind) KindPause {
	return KindPause{Kind: p.Kind, Queue: p.Queue, Until: p.Until, Reason: p.Reason, Since: p.PausedAt}
}

// checkKindPause validates all of a pause, and gives the time at which it ends; nil for none.
func checkKindPause(q Querier, pause KindPause) (*time.Time, error) {
	if err := runsOn(q); err != nil {
		return nil, err
	}
	if err := checkName("kind", pause.Kind); err != nil {
		return nil, err
	}
	if pause.Queue != "" {
		if err := checkName("queue", pause.Queue); err != nil {
			return nil, err
		}
	}
	if err := checkReason(pause.Reason); err != nil {
		return nil, err
	}
	at, err := checkUntil(pause.Until)
	if err != nil {
		return nil, err
	}
	return at, nil
}

func checkReason(reason string) *ValidationError {
	if reason == "" {
		return nil
	}
	return checkText("reason", reason, maxReasonBytes)
}

func checkUntil(until time.Time) (*time.Time, *ValidationError) { return storedTime("until", until) }

// storedTime is a time as Postgres can store it; nil for the zero time.
func storedTime(field string, at time.Time) (*time.Time, *ValidationError) {
	if at.IsZero() {
		return nil, nil
	}
	at = at.UTC()
	if year := at.Year(); year < 1 || year > 9999 {
		return nil, invalid(field, fmt.Sprintf("must lie in the years 1 to 9999, is in %d", year))
	}
	// Postgres stores microseconds and would round up, into the year 10000.
	at = at.Truncate(time.Microsecond)
	return &at, nil
}
