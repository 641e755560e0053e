package pgqueue

import (
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/internal/pulse"
)

// A loop looks once in an interval, so one that gets no answer for 1.8 of them has made no progress for at most 2.8.
func TestHowALoopIsJudged(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, test := range map[string]struct {
		state    pulse.State
		ok, dead bool
		detail   string
	}{
		"idle for an hour":        {pulse.State{Last: ago(time.Hour)}, true, false, ""},
		"a slow answer":           {pulse.State{Trying: ago(1700 * time.Millisecond)}, true, false, ""},
		"no answer":               {pulse.State{Trying: ago(1900 * time.Millisecond)}, false, false, "no progress for 2s: no answer yet"},
		"refused":                 {pulse.State{Trying: ago(9 * time.Second), Reason: "SQLSTATE 42501"}, false, false, "no progress for 9s: SQLSTATE 42501"},
		"no answer for a day":     {pulse.State{Trying: ago(24 * time.Hour)}, false, false, "no progress for 24h0m0s: no answer yet"},
		"hangs":                   {pulse.State{Hung: true, Trying: ago(time.Hour)}, false, true, "hangs"},
		"has ended":               {pulse.State{Ended: true}, false, true, "has ended although the worker runs"},
		"has ended while it hung": {pulse.State{Ended: true, Trying: ago(time.Hour)}, false, true, "has ended although the worker runs"},
	} {
		got := loopHealth("loop", time.Second, test.state, now)
		if got.OK != test.ok || got.Dead != test.dead || got.Detail != test.detail || got.Name != "loop" || !got.Since.Equal(test.state.Last) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
