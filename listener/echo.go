package listener

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	mathrand "math/rand/v2"
)

// watch looks after a connection until ctx ends or it has dropped it.
func (r *run) watch(ctx context.Context, s *session) {
	// pgxlisten sets no limit to its LISTEN, and a stalled network answers neither yes nor no.
	limit := time.NewTimer(r.config.ConnectTimeout)
	defer limit.Stop()
	select {
	case <-ctx.Done():
		return
	case <-s.listening:
	case <-limit.C:
		s.drop(fmt.Errorf("listener: LISTEN was not answered within %s", r.config.ConnectTimeout))
		return
	}
	if r.config.Send == nil {
		return
	}
	for {
		heard, sendErr := r.checkEcho(ctx, s)
		if ctx.Err() != nil {
			return
		}
		r.noteSend(sendErr)
		pause := r.config.EchoInterval
		switch {
		case sendErr != nil: // says nothing about this connection; ask again before long
			pause = min(pause, r.config.EchoTimeout)
		case !heard:
			r.update(func(status *Status) { status.Deaf = true })
			tellEach(r.Listener, r.observers.deaf, func(o DeafObserver) { o.ListenerDeaf(r.config.EchoTimeout) })
			s.drop(fmt.Errorf("%w within %s; a pooler in transaction mode takes LISTEN and forwards nothing: connect past it", ErrDeaf, r.config.EchoTimeout))
			return
		}
		// A little less than the interval, never more: it is a promise, and processes started together drift apart.
		timer := time.NewTimer(pause - time.Duration(mathrand.Float64()*0.2*float64(pause))) //nolint:gosec // spreads load
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// checkEcho sends one echo and waits for it. The time of the sending does not count as silence of the listener.
func (r *run) checkEcho(ctx context.Context, s *session) (heard bool, sendErr error) {
	nonce := rand.Text()
	s.expect(nonce)
	before := s.received.Load()
	if err := r.send(ctx, nonce); err != nil {
		return false, err
	}
	timer := time.NewTimer(r.config.EchoTimeout)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-s.echoed:
			return true, nil
		case <-timer.C:
		}
		// Behind a long backlog of notifications the echo is late, but what arrives proves the hearing as well.
		now := s.received.Load()
		if now == before {
			return false, nil
		}
		before = now
		timer.Reset(r.config.EchoTimeout)
	}
}

// send calls Send with a limit and contains its panic.
func (r *run) send(ctx context.Context, nonce string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.EchoTimeout)
	defer cancel()
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic in Send: %v", cause)
		}
	}()
	return r.config.Send(ctx, r.echoChannel, nonce)
}

// noteSend keeps the outcome of a Send, and logs the first of a row of failures.
func (r *run) noteSend(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	before := ""
	r.update(func(status *Status) { before, status.SendError = status.SendError, text })
	if err != nil && before == "" {
		r.config.Logger.Warn("listener: cannot send an echo; deafness would not be noticed",
			"channel", r.config.Channel, "error", err)
	}
}

// expect begins an echo. What is left of an earlier one no longer counts.
func (s *session) expect(nonce string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nonce = nonce
	select {
	case <-s.echoed:
	default:
	}
}

// answer takes a payload of the echo channel and says whether it is the awaited one.
func (s *session) answer(nonce string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nonce == "" || nonce != s.nonce {
		return false
	}
	s.nonce = ""
	s.echoed <- struct{}{} // there is room: expect has emptied it
	return true
}
