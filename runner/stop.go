package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// StopError says that handlers ignored their contexts while the runner stopped. Their goroutines still run; their
// tasks are left to their leases, after which another runner takes them.
type StopError struct {
	Tasks []string // what their tokens say
}

// Error names up to ten of the tasks.
func (e *StopError) Error() string {
	names := e.Tasks
	more := ""
	if len(names) > 10 {
		more = fmt.Sprintf(" and %d more", len(names)-10)
		names = names[:10]
	}
	return fmt.Sprintf("runner: %d handlers ignored their context: %s%s", len(e.Tasks), strings.Join(names, ", "), more)
}

// errLoopEnded is Run's answer when an observer or a logger has called runtime.Goexit on the loop that claims. What holds no
// claims serves no queue, so the session stops and says so, instead of looking alive.
var errLoopEnded = errors.New("runner: the loop that claims ended although nobody stopped it (runtime.Goexit in an observer or a logger?)")

// work runs the session from start to end.
func (s *session[P, R]) work(ctx context.Context) error {
	quit := make(chan struct{})
	var loop, flush, background sync.WaitGroup
	s.alive = len(s.slots)
	s.pulses.begin(s.cfg, s.r.renewer != nil)
	for _, own := range s.slots {
		go s.worker(own)
	}
	background.Go(func() {
		defer s.pulses.watch.End()
		s.watch(quit)
	})
	background.Go(func() { s.helper(quit) })
	background.Go(func() { s.cutShort(quit) })
	if s.r.renewer != nil {
		background.Go(func() {
			defer s.pulses.renew.End()
			s.renew(quit)
		})
	}
	flush.Go(func() {
		defer s.pulses.flush.End()
		s.flusher()
	})
	loopDone, orderly := make(chan struct{}), false
	loop.Go(func() {
		defer close(loopDone)
		defer s.pulses.claim.End()
		if ctx.Err() == nil {
			s.loop()
		}
		orderly = true
	})

	select {
	case <-ctx.Done():
	case <-s.stop:
	case <-loopDone:
	}
	s.r.setState(Stopping)
	err := s.stopWorkers()
	loop.Wait() // a claim may be under way; what it brings is released

	s.mu.Lock()
	s.ended = true
	s.flushClose = true
	s.flushEnd = time.Now().Add(max(s.cfg.CleanUp, s.cfg.StorageTimeout))
	if !s.hurryEnd.IsZero() {
		s.flushEnd = s.hurryEnd
	}
	s.flushIdle = false
	s.mu.Unlock()
	poke(s.flushWake)
	flush.Wait()
	close(quit)
	if s.inHurry() {
		s.giveUp() // a renewal may be under way, which is of no use any more
	}
	background.Wait()
	s.giveUp()
	s.side.Wait()
	s.r.finish(s)
	if !orderly {
		err = errors.Join(errLoopEnded, err)
	}
	return err
}

// stopWorkers ends claims and waits for handlers, first patiently and then not.
func (s *session[P, R]) stopWorkers() error {
	s.mu.Lock()
	s.stopping = true
	s.release(s.buffer.remove(func(*entry[P, R]) bool { return true }))
	s.tasks.Broadcast()
	s.mu.Unlock()
	poke(s.loopWake)

	if s.waitWorkers(s.cfg.StopTimeout, s.hurry) {
		return nil
	}
	s.mu.Lock()
	var notes []func()
	for _, own := range s.slots {
		for e := range own.each {
			notes = s.cancelEntry(notes, e, ErrStopping)
		}
	}
	s.mu.Unlock()
	for _, note := range notes {
		note()
	}
	patience := time.Now().Add(s.cfg.CleanUp)
	if s.waitWorkers(s.cfg.CleanUp, s.hurry) ||
		s.inHurry() && s.waitWorkers(min(hurryHandlers, time.Until(patience)), nil) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	left := &StopError{}
	for _, own := range s.slots {
		for e := range own.each {
			left.Tasks = append(left.Tasks, e.task.Token.String())
		}
	}
	s.ended = true
	if len(left.Tasks) == 0 {
		return nil
	}
	s.cfg.Logger.Error("runner: handlers ignored their context and are left to their leases", "tasks", len(left.Tasks),
		"first", left.Tasks[:min(10, len(left.Tasks))])
	return left
}

// waitWorkers waits until the last worker has exited, for d, or until hurry is closed.
func (s *session[P, R]) waitWorkers(d time.Duration, hurry <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.allDone:
		return true
	case <-timer.C:
	case <-hurry:
	}
	select {
	case <-s.allDone:
		return true
	default:
		return false
	}
}
