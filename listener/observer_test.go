package listener

import (
	"io"
	"log/slog"
	"testing"
)

// hearing notes what it is told.
type hearing struct {
	name string
	seen *[]string
}

func (h hearing) ListenerHint(queue string) { *h.seen = append(*h.seen, h.name+" "+queue) }

type panicking struct{}

func (panicking) ListenerHint(string) { panic("no") }

type several []any

func (s several) Observers() []any { return s }

// Several observers are told in their order, and one that panics keeps nothing from the others.
func TestSeveralObservers(t *testing.T) {
	var seen []string
	l := &Listener{
		config:    Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))},
		observers: observersOf(several{hearing{"a", &seen}, nil, panicking{}, several{hearing{"b", &seen}}, 7}),
	}
	tellEach(l, l.observers.hint, func(o HintObserver) { o.ListenerHint("q") })
	if len(seen) != 2 || seen[0] != "a q" || seen[1] != "b q" || l.observers.deaf != nil {
		t.Errorf("told: %v", seen)
	}
}
