package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/internal/pulse"
)

func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulse.Pulse
		if s := p.State(); s.Began || s.Hung || s.Ended {
			t.Errorf("before it began: %+v", s)
		}
		p.Begin(5 * time.Second)
		begun := time.Now()
		p.Rest(time.Time{})
		<-time.After(time.Hour)
		if s := p.State(); s.Hung || !s.Last.Equal(begun) {
			t.Errorf("asleep until it is woken: %+v", s)
		}
		p.Rest(time.Now().Add(time.Hour))
		<-time.After(time.Hour + 59*time.Second)
		if p.State().Hung {
			t.Error("hung within a minute of the end of its sleep")
		}
		<-time.After(2 * time.Second)
		if !p.State().Hung {
			t.Error("not hung a minute after the end of its sleep")
		}

		p.Beat()
		p.Call()
		called := time.Now()
		<-time.After(4 * time.Second)
		if s := p.State(); !s.Trying.Equal(called) || s.Hung || s.Reason != "" {
			t.Errorf("during a call: %+v", s)
		}
		p.Done(context.DeadlineExceeded)
		<-time.After(4 * time.Second)
		p.Beat()
		p.Call()
		if s := p.State(); !s.Trying.Equal(called) || !s.Last.Equal(called) || s.Reason != "no answer in time" {
			t.Errorf("trying again: %+v", s)
		}
		p.Call() // beside it, and no progress
		p.Answered()
		if s := p.State(); !s.Trying.Equal(called) || !s.Last.Equal(called) || s.Reason != "no answer in time" {
			t.Errorf("after an answer that is no progress: %+v", s)
		}
		p.Excuse()
		if p.State().Trying.IsZero() {
			t.Error("excused with a call under way")
		}
		p.Done(nil)
		if s := p.State(); !s.Trying.IsZero() || s.Reason != "" || !s.Last.Equal(time.Now()) {
			t.Errorf("answered: %+v", s)
		}
		p.Call()
		p.Done(errors.New("no"))
		p.Excuse()
		if !p.State().Trying.IsZero() {
			t.Error("not excused")
		}
		p.Rest(time.Time{})
		p.Call() // beside the loop
		<-time.After(66 * time.Second)
		if !p.State().Hung {
			t.Error("a call beside the loop that never returns is not seen")
		}
		p.End()
		if s := p.State(); !s.Ended || s.Hung {
			t.Errorf("ended: %+v", s)
		}
	})
}

// A reason tells what kind of error it was, and none of its words: these hold names, addresses and data.
func TestReason(t *testing.T) {
	secret := "secret@db.example.com"
	for want, err := range map[string]error{
		"":                                nil,
		"SQLSTATE 23505":                  fmt.Errorf("claim: %w", &pgconn.PgError{Code: "23505", Message: secret, Detail: secret}),
		"no answer in time":               fmt.Errorf("claim: %w", context.DeadlineExceeded),
		"cancelled":                       fmt.Errorf("%s: %w", secret, context.Canceled),
		"failed with *errors.errorString": fmt.Errorf("%s: %w", secret, fmt.Errorf("again: %w", errors.New(secret))),
		"failed with *net.OpError":        fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: errors.New(secret)}),
		"failed with *errors.joinError":   errors.Join(errors.New(secret), errors.New(secret)),
	} {
		if got := pulse.Reason(err); got != want || strings.Contains(got, "secret") {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
