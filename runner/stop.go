package runner

import (
	"context"
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

// work runs the session from start to end.
func (s *session[P, R]) work(ctx context.Context) error {
	quit := make(chan struct{})
	var loop, flush, background sync.WaitGroup
	s.alive = len(s.slots)
	for _, own := range s.slots {
		go s.worker(own)
	}
	background.Go(func() { s.watch(quit) })
	background.Go(func() { s.helper(quit) })
	background.Go(func() { s.cutShort(quit) })
	if s.r.renewer != nil {
		background.Go(func() { s.renew(quit) })
	}
	flush.Go(s.flusher)
	loopDone := make(chan struct{})
	loop.Go(func() {
		defer close(loopDone)
		if ctx.Err() == nil {
			s.loop()
		}
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
	s.cfg.Logger.Error("runner: handlers ignored their context", "tasks", left.Tasks)
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
