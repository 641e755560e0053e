package listener

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// session is one connection, from Connect to its end. The goroutine that reads owns it; a second one, watch, looks
// after it: it drops a connection whose LISTEN hangs, and sends the echoes.
type session struct {
	conn      *pgx.Conn
	missing   int           // LISTENs not yet in force; of the reading goroutine
	since     time.Time     // when LISTEN came into force
	listening chan struct{} // closed when LISTEN is in force
	received  atomic.Int64  // notifications

	mu     sync.Mutex
	nonce  string        // of the echo under way
	echoed chan struct{} // gets one token when it arrives
	reason error         // why watch dropped the connection

	cancel  context.CancelFunc
	watched chan struct{} // closed when watch has ended
}

// connect waits out the backoff and opens the next connection. pgxlisten calls it whenever it has none.
func (r *run) connect(ctx context.Context) (*pgx.Conn, error) {
	if r.delay > 0 {
		r.update(func(status *Status) { status.NextAttempt = time.Now().Add(r.delay) })
		timer := time.NewTimer(r.delay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
	if ctx.Err() != nil { // pgxlisten asks once more when the context has just ended
		return nil, ctx.Err()
	}
	r.update(func(status *Status) {
		status.Attempts++
		status.NextAttempt = time.Time{}
	})
	r.tries++
	conn, err := r.open(ctx)
	if err != nil {
		return nil, err
	}

	s := &session{
		conn:      conn,
		missing:   1,
		listening: make(chan struct{}),
		echoed:    make(chan struct{}, 1),
		watched:   make(chan struct{}),
	}
	if r.config.Control != "" {
		s.missing++
	}
	if r.config.Send != nil {
		s.missing++
	}
	watchCtx, cancel := context.WithCancel(ctx)
	s.cancel = cancel
	r.session = s
	go func() {
		defer close(s.watched)
		r.watch(watchCtx, s)
	}()
	return conn, nil
}

// open calls Connect with a limit and checks what it gave.
func (r *run) open(ctx context.Context) (conn *pgx.Conn, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			conn, err = nil, fmt.Errorf("panic in Connect: %v\n%s", cause, debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, r.config.ConnectTimeout)
	defer cancel()
	conn, err = r.config.Connect(ctx)
	switch {
	case err != nil:
		return nil, err
	case conn == nil:
		return nil, errors.New("the Connect function returned neither a connection nor an error")
	case conn.IsClosed():
		return nil, errors.New("the Connect function returned a closed connection")
	case conn.PgConn().TxStatus() != 'I':
		// A session that listens inside a transaction hears nothing, and keeps the server's queue from being trimmed.
		return nil, errors.Join(errors.New("the Connect function returned a connection in a transaction"), conn.Close(ctx))
	}
	return conn, nil
}

// inForce notes that one more LISTEN has succeeded; with the last of them the connection listens.
func (r *run) inForce() {
	s := r.session
	if s.missing--; s.missing > 0 {
		return
	}
	s.since = time.Now()
	r.connected++
	deaf := false
	r.update(func(status *Status) {
		status.Connected, status.Since = true, s.since
		if r.connected > 1 {
			status.Reconnects++
		}
		deaf = status.Deaf
	})
	if !deaf { // after deafness only something heard proves that it is over
		r.restored()
	}
	// First LISTEN, then the look at every queue: in the other order, work committed between the two would be missed.
	if r.config.OnConnect != nil {
		r.hints.addAll()
	}
	close(s.listening)
	tellEach(r.Listener, r.observers.connected, func(o ConnectedObserver) { o.ListenerConnected() })
}

// ended is told by pgxlisten why a connection is over, or why none could be made. The connection is closed by then.
func (r *run) ended(ctx context.Context, err error) {
	s := r.session
	if s != nil && !s.conn.IsClosed() && ctx.Err() == nil {
		// Not an end: a notification of a channel that the connection's maker listens to.
		r.update(func(status *Status) { status.Discarded++ })
		return
	}
	r.session = nil
	listened, deaf, lived := false, false, time.Duration(0)
	if s != nil {
		s.cancel()
		<-s.watched
		if reason := s.dropped(); reason != nil {
			err = reason
		}
		deaf = errors.Is(err, ErrDeaf)
		if !s.since.IsZero() {
			listened, lived = true, time.Since(s.since)
		}
		r.cleanups = append(slices.DeleteFunc(r.cleanups, isClosed), s.conn.PgConn().CleanupDone())
	}
	normal := ctx.Err() != nil
	r.update(func(status *Status) {
		if status.Connected {
			status.Connected, status.Since = false, time.Now()
		}
		if !normal {
			status.LastError = err.Error()
		}
	})
	if normal {
		return
	}
	// A connection proves good by what it hears (see heard) or, if it is not known to hear nothing, by lasting
	// longer than its predecessors' delay.
	if listened && !deaf && lived > r.delay {
		r.failures = 0
	}
	r.failures++
	r.delay = reconnectDelay(r.failures, r.config.ReconnectMin, r.config.ReconnectMax)

	switch {
	case r.outage:
		r.config.Logger.Debug("listener: still not listening", "channel", r.config.Channel, "error", err)
	case listened:
		r.config.Logger.Warn("listener: connection lost; queues live by their poll until it is back",
			"channel", r.config.Channel, "error", err)
	default:
		r.config.Logger.Warn("listener: cannot listen; queues live by their poll until it can",
			"channel", r.config.Channel, "error", err)
	}
	if !r.outage {
		r.outage, r.tries = true, 0
	}
	if listened {
		tellEach(r.Listener, r.observers.disconnected, func(o DisconnectedObserver) { o.ListenerDisconnected(err) })
	}
}

func isClosed(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// drop ends the connection from another goroutine than the one that reads. A deadline in the past makes the read fail
// at once, and lets pgx close the connection without calling the server, which may not be there any more.
func (s *session) drop(reason error) {
	s.mu.Lock()
	s.reason = reason
	s.mu.Unlock()
	if err := s.conn.PgConn().Conn().SetDeadline(time.Unix(1, 0)); err != nil {
		_ = s.conn.PgConn().Conn().Close() // the read fails either way
	}
}

// dropped is the reason given to drop, or nil.
func (s *session) dropped() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}
