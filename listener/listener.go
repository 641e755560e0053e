package listener

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgxlisten"
)

var (
	// ErrRunning is returned by Run while another Run of the same listener is under way.
	ErrRunning = errors.New("listener: already running")
	// ErrStuck is returned by Run when it has ended but a callback that was running has not returned.
	ErrStuck = errors.New("listener: a callback has not returned")
	// ErrDeaf is why a connection is dropped that did not bring an echo in time.
	ErrDeaf = errors.New("listener: no echo")
)

// stopTimeout bounds how long a Run that has ended waits for callbacks and for connections being closed.
const stopTimeout = 2 * time.Second

// Listener hears hints on one connection; see the package comment. Its methods may be called from any goroutine.
type Listener struct {
	config      Config
	echoChannel string // of this listener alone
	observers   observers

	mu     sync.Mutex
	status Status
}

// New makes a listener. It does not connect yet. The error is a *[ConfigError].
func New(config Config) (*Listener, error) {
	config, err := config.check()
	if err != nil {
		return nil, err
	}
	return &Listener{
		config:      config,
		echoChannel: echoChannel(config.Channel),
		observers:   observersOf(config.Observer),
	}, nil
}

// echoChannel names a channel that no other listener uses and that fits whatever the length of channel.
func echoChannel(channel string) string {
	suffix := "#" + strings.ToLower(rand.Text()[:20])
	if keep := MaxChannel - len(suffix); len(channel) > keep {
		for !utf8.RuneStart(channel[keep]) { // never cut inside a character
			keep--
		}
		channel = channel[:keep]
	}
	return channel + suffix
}

// Run listens until ctx ends; then it closes the connection and returns nil, within about two seconds. It reconnects for
// as long as it takes: no failure of the database ends it. It returns ErrRunning if it is running already, and ErrStuck
// if a callback did not return in that time. It may be run again afterwards.
//
// After an abrupt loss pgx asks the server, in the background, to cancel what the lost connection was doing. Where the
// server cannot be reached at all this may outlive Run by at most 15 seconds.
func (l *Listener) Run(ctx context.Context) error {
	running := false
	l.update(func(status *Status) { running, status.Running = status.Running, true })
	if running {
		return ErrRunning
	}

	stop, dispatched := make(chan struct{}), make(chan struct{})
	r := &run{Listener: l, hints: newHints(), control: newHints()}
	var dispatchers sync.WaitGroup
	dispatchers.Go(func() { l.dispatch(r.hints, stop, "OnHint", l.config.OnHint) })
	if l.config.Control != "" {
		dispatchers.Go(func() { l.dispatch(r.control, stop, "OnControl", l.config.OnControl) })
	}
	go func() {
		defer close(dispatched)
		dispatchers.Wait()
	}()

	for ctx.Err() == nil {
		if err := r.listen(ctx); err != nil {
			r.ended(ctx, err)
		}
	}
	r.ended(ctx, ctx.Err())
	close(stop)

	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	err := r.await(dispatched, limit.C)
	l.update(func(status *Status) {
		status.Running, status.NextAttempt = false, time.Time{}
	})
	return err
}

// run is one Run: what belongs to the goroutine that reads, and to no other.
type run struct {
	*Listener
	hints   *hints
	control *hints   // control messages
	session *session // the connection in use, or nil

	delay     time.Duration   // wait before the next attempt
	failures  int             // attempts in a row that brought no connection which proved good
	outage    bool            // the loss was logged, and nothing since has shown that it is over
	tries     int             // attempts in this outage
	connected int             // connections on which LISTEN came into force
	cleanups  []chan struct{} // of connections that pgx is still closing
}

// listen hands the reading over to pgxlisten, which calls connect for each connection and LogError when it ended.
// It comes back when ctx ends, or when something panicked below it.
func (r *run) listen(ctx context.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic while listening (does Connect set OnNotification?): %v", cause)
		}
	}()
	reader := &pgxlisten.Listener{
		Connect:        r.connect,
		LogError:       r.ended,
		ReconnectDelay: -1, // a fixed one, a minute by default, whatever happened: connect waits instead
	}
	reader.Handle(r.config.Channel, channelHandler{r, r.hint})
	if r.config.Control != "" {
		reader.Handle(r.config.Control, channelHandler{r, r.message})
	}
	if r.config.Send != nil {
		reader.Handle(r.echoChannel, channelHandler{r, r.echo})
	}
	return reader.Listen(ctx)
}

// channelHandler gives pgxlisten a function of run for what arrives on a channel, and tells run when LISTEN is in force.
type channelHandler struct {
	run    *run
	handle func(payload string)
}

// HandleBacklog implements pgxlisten.BacklogHandler: it is called when the channel's LISTEN has succeeded.
func (h channelHandler) HandleBacklog(context.Context, string, *pgx.Conn) error {
	h.run.inForce()
	return nil
}

// HandleNotification implements pgxlisten.Handler.
func (h channelHandler) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	h.handle(n.Payload)
	return nil
}

// hint takes what arrived on the channel of hints.
func (r *run) hint(queue string) {
	if queue == "" || len(queue) > MaxHint || !utf8.ValidString(queue) {
		r.heard(func(status *Status) { status.Discarded++ })
		return
	}
	result := r.hints.add(queue)
	if result == overflow && r.config.OnConnect != nil {
		r.hints.addAll()
		result = added
	}
	r.heard(func(status *Status) {
		status.LastHint = time.Now()
		status.Hints++
		switch result {
		case merged:
			status.Coalesced++
		case overflow:
			status.Discarded++
		}
	})
	tellEach(r.Listener, r.observers.hint, func(o HintObserver) { o.ListenerHint(queue) })
	if result == merged {
		tellEach(r.Listener, r.observers.coalesced, func(o CoalescedObserver) { o.ListenerCoalesced(queue) })
	}
}

// message takes what arrived on the control channel.
func (r *run) message(text string) {
	if text == "" || len(text) > MaxHint || !utf8.ValidString(text) {
		r.heard(func(status *Status) { status.Discarded++ })
		return
	}
	r.heard(func(status *Status) { status.Control++ }) // before anybody can be told of it
	if r.control.add(text) != overflow {
		return
	}
	if r.config.OnConnect != nil {
		r.hints.addAll()
		return
	}
	r.heard(func(status *Status) { status.Discarded++ })
}

// echo takes what arrived on the listener's own channel.
func (r *run) echo(nonce string) {
	if !r.session.answer(nonce) {
		r.heard(func(status *Status) { status.Discarded++ })
		return
	}
	r.heard(func(status *Status) { status.LastEcho = time.Now() })
}

// heard notes that something arrived: whatever it was, this connection is not deaf, and proved good.
func (r *run) heard(change func(status *Status)) {
	r.session.received.Add(1)
	r.failures = 0
	r.update(func(status *Status) {
		status.Deaf = false
		change(status)
	})
	r.restored()
}

// restored ends an outage. A short one is told by the line of its loss alone; one that took several attempts gets a
// second line, so that who reads the log knows when it ended.
func (r *run) restored() {
	if !r.outage {
		return
	}
	if r.tries > 1 {
		r.config.Logger.Info("listener: hears again", "channel", r.config.Channel, "attempts", r.tries)
	}
	r.outage, r.tries = false, 0
}

// await waits for what a Run has started, no longer than limit.
func (r *run) await(dispatched <-chan struct{}, limit <-chan time.Time) error {
	select {
	case <-dispatched:
	case <-limit:
		return fmt.Errorf("%w within %s of the stop", ErrStuck, stopTimeout)
	}
	for _, cleaned := range r.cleanups {
		select {
		case <-cleaned:
		case <-limit:
			return nil
		}
	}
	return nil
}
