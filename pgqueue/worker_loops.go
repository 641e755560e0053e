package pgqueue

import (
	"maps"
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/internal/pulse"
	"github.com/pgqueue/pgqueue/runner"
)

// phase is what Run of a worker is at. That it stops is told by its context.
type phase uint8

const (
	idle     phase = iota
	starting       // it waits for the database
	serves
)

func (w *Worker) setPhase(p phase) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.phase = p
}

// loopPulses tell which goroutines of a Run have ended. What their loops do is told by the listener, the reaper and the
// runners themselves.
type loopPulses struct {
	listens, reaps pulse.Pulse
	runners        map[string]*pulse.Pulse
}

// makeFor makes one for each queue, once.
func (l *loopPulses) makeFor(queues []string) {
	l.runners = make(map[string]*pulse.Pulse, len(queues))
	for _, queue := range queues {
		l.runners[queue] = &pulse.Pulse{}
	}
}

// begin says that all of them run. It comes before they are started.
func (l *loopPulses) begin() {
	for _, one := range l.all() {
		one.Begin(0)
		one.Rest(time.Time{}) // they are not at one step for long: others watch that
	}
}

func (l *loopPulses) all() []*pulse.Pulse {
	return slices.AppendSeq([]*pulse.Pulse{&l.listens, &l.reaps}, maps.Values(l.runners))
}

// queueNames are the queues that the worker serves, sorted.
func (w *Worker) queueNames() []string { return slices.Sorted(maps.Keys(w.runners)) }

// aliasesOf gives the kind that each alias stands for.
func aliasesOf(kinds []runner.KindConfig) map[string]string {
	aliases := map[string]string{}
	for _, kind := range kinds {
		for _, alias := range kind.Aliases {
			aliases[alias] = kind.Name
		}
	}
	return aliases
}
