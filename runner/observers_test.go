package runner

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type key struct{}

// noted puts its name into the context of attempts and notes what it finds there.
type noted struct {
	name string
	seen *[]string
}

func (n noted) AttemptStarted(ctx context.Context, _ AttemptEvent) context.Context {
	before, _ := ctx.Value(key{}).(string)
	*n.seen = append(*n.seen, n.name+" starts")
	return context.WithValue(ctx, key{}, before+n.name)
}

func (n noted) AttemptEnded(ctx context.Context, _ AttemptEvent) {
	value, _ := ctx.Value(key{}).(string)
	*n.seen = append(*n.seen, n.name+" ends with "+value)
}

// panics panics at every claim and attempt.
type panics struct{}

func (panics) ClaimDone(ClaimEvent) { panic("claim") }
func (panics) AttemptStarted(context.Context, AttemptEvent) context.Context {
	panic("start")
}

// Of several observers each is told in its turn, contexts pass from one to the next, and one that panics keeps nothing from
// the others.
func TestSeveralObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		var log bytes.Buffer
		d := &diary{}
		all := Observers(noted{"a", &seen}, nil, panics{}, Observers(noted{"b", &seen}, d, Observers()))
		r := start(t, renewing{newFake(1)}, handle(noop), Config{Observer: all, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		pass(time.Second)
		want := "a starts, b starts, a ends with ab, b ends with ab"
		if got := strings.Join(seen, ", "); got != want {
			t.Errorf("seen: %s\nwant: %s", got, want)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.claims) == 0 || len(d.verdicts) != 1 {
			t.Errorf("the observer behind the one that panics saw %d claims and %d verdicts", len(d.claims), len(d.verdicts))
		}
		if r.observe.Load().lease != nil || r.observe.Load().stuck != nil {
			t.Error("what nobody implements is called")
		}
		if n := strings.Count(log.String(), "observer panicked"); n < 2 {
			t.Errorf("%d panics logged", n)
		}
	})
}
