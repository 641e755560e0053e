package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What this runner has put back itself it knows to be due, long before the next poll.
func TestPutBackTasksStartWhenDue(t *testing.T) {
	for name, back := range map[string]func() error{
		"retry":  func() error { return RetryAfter(300*time.Millisecond, errors.New("not yet")) },
		"snooze": func() error { return SnoozeFor(300 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(1)
				var starts []time.Time
				done := make(chan struct{})
				h := HandlerFunc[int, int](func(context.Context, *Task[int]) (int, error) {
					starts = append(starts, time.Now())
					if len(starts) == 2 {
						close(done)
						return 0, nil
					}
					return 0, back()
				})
				ctx, stop := context.WithCancel(t.Context())
				_, ended := run(t, ctx, f, h, Config{Poll: time.Hour})
				<-done
				if waited := starts[1].Sub(starts[0]); waited > time.Second {
					t.Errorf("it ran again after %v, want 300 ms", waited)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
