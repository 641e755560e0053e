package runner

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	base := time.Now()
	at := func(ms int) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }
	w := window{length: 250 * time.Millisecond}

	if _, due := w.take(at(0)); due {
		t.Error("due without a hint")
	}
	if fresh, _ := w.hint(at(0), 0); !fresh {
		t.Error("the first hint must wake at once")
	}
	if hints, due := w.take(at(1)); !due || hints != 1 {
		t.Errorf("after the first hint: %d, %v", hints, due)
	}
	for i, ms := range []int{2, 100, 249} {
		if fresh, arm := w.hint(at(ms), 0); fresh || arm != (i == 0) {
			t.Errorf("hint at %d ms inside the window: fresh %v, arm %v", ms, fresh, arm)
		}
		if _, due := w.take(at(ms)); due {
			t.Errorf("woken at %d ms, inside the window", ms)
		}
	}
	if w.next() != at(250) {
		t.Errorf("the window was moved by a hint to %v", w.next().Sub(base))
	}
	if hints, due := w.take(at(250)); !due || hints != 3 {
		t.Errorf("at the end of the window: %d, %v", hints, due)
	}
	if !w.next().IsZero() {
		t.Error("still held")
	}
	// The wake at the end opened the next window.
	if fresh, arm := w.hint(at(251), 0); fresh || !arm {
		t.Errorf("after the merged wake: fresh %v, arm %v", fresh, arm)
	}
	if _, due := w.take(at(499)); due {
		t.Error("woken inside the second window")
	}
	if _, due := w.take(at(500)); !due {
		t.Error("not woken at its end")
	}
	// A pause, and the next hint wakes at once again.
	if fresh, _ := w.hint(at(5000), 0); !fresh {
		t.Error("a late hint must wake at once")
	}
}

// A hint that comes when a wake is due but its claim has not begun needs no wake of its own.
func TestWindowHintBeforeClaim(t *testing.T) {
	now := time.Now()
	w := window{length: time.Second}
	w.hint(now, 0)
	if fresh, arm := w.hint(now, 0); fresh || arm {
		t.Error("a second wake was made")
	}
	if hints, due := w.take(now); !due || hints != 2 {
		t.Errorf("%d, %v", hints, due)
	}
	if _, due := w.take(now.Add(time.Hour)); due {
		t.Error("one wake too many")
	}
}

func TestWindowOff(t *testing.T) {
	now := time.Now()
	var w window
	for range 3 {
		if fresh, _ := w.hint(now, 0); !fresh {
			t.Error("merged without a window")
		}
		if _, due := w.take(now); !due {
			t.Error("not due")
		}
	}
}
