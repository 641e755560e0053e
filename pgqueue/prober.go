package pgqueue

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/pgqueue/pgqueue/internal/pulse"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// prober asks, on behalf of all queues of a worker at once, what is due and what is paused: one statement that only reads,
// once a poll interval, whether there are five queues or fifty. Each runner claims only where it says so. It also is how a
// worker learns of a pause whose hint was lost, so it goes on while the queues are busy.
type prober struct {
	queues  []*probedQueue
	timeout time.Duration // of one statement
	logger  *slog.Logger
	pulse   pulse.Pulse
}

// probedQueue is one queue and what the prober knows about it.
type probedQueue struct {
	queue *jobstore.Queue
	tell  func(runner.Probe)
	poll  time.Duration
	next  time.Time // when it is to be asked about
}

const (
	// probeSlack is the part of its poll interval by which a queue may be asked early, so that one statement serves all
	// queues with about the same interval.
	probeSlack = 4
	// probeLogEvery is how often failures in a row are logged as a warning; those between are for debugging.
	probeLogEvery = time.Minute
)

// run probes until ctx ends.
func (p *prober) run(ctx context.Context) {
	defer p.pulse.End()
	now := time.Now()
	for _, q := range p.queues {
		q.next = now.Add(q.poll) // runners claim first thing
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var logged time.Time
	for {
		soonest := p.soonest()
		timer.Reset(time.Until(soonest))
		p.pulse.Rest(soonest)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		p.pulse.Beat()
		asked := p.due(time.Now())
		err := p.ask(ctx, asked)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && !logged.IsZero():
			logged = time.Time{}
			p.logger.Info("pgqueue: the database answers again")
		case err == nil:
		default:
			level := slog.LevelDebug
			if logged.IsZero() || time.Since(logged) >= probeLogEvery {
				level, logged = slog.LevelWarn, time.Now()
			}
			p.logger.Log(ctx, level, "pgqueue: looking for due jobs failed; workers look by themselves meanwhile", "error", err)
		}
		now := time.Now()
		for _, q := range asked {
			// Up to a tenth early at random, so that processes that started together drift apart. One draw for all would
			// do as well; those that drift out of the slack simply get a statement of their own.
			q.next = now.Add(q.poll - rand.N(q.poll/10+1))
		}
	}
}

func (p *prober) soonest() time.Time {
	soonest := p.queues[0].next
	for _, q := range p.queues[1:] {
		if q.next.Before(soonest) {
			soonest = q.next
		}
	}
	return soonest
}

// due are the queues to ask about now.
func (p *prober) due(now time.Time) []*probedQueue {
	var due []*probedQueue
	for _, q := range p.queues {
		if !now.Add(q.poll / probeSlack).Before(q.next) {
			due = append(due, q)
		}
	}
	return due
}

// ask probes and passes the answers on.
func (p *prober) ask(ctx context.Context, asked []*probedQueue) (err error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	p.pulse.Call()
	defer func() { p.pulse.Done(err) }()
	queues := make([]*jobstore.Queue, len(asked))
	for i, q := range asked {
		queues[i] = q.queue
	}
	answers, err := jobstore.Probe(ctx, queues)
	if err != nil {
		return err
	}
	for i, q := range asked {
		q.tell(answers[i])
	}
	return nil
}
