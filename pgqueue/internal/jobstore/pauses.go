package jobstore

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/runner"
)

// holds is what a queue knows about its paused kinds from the latest answer of a claim or a probe. It decides nothing: each
// claim asks the table. But a claim that names a paused kind walks over all of its jobs, so the next one does not name it, and
// the runner gives back what it has claimed of it and not started.
//
// The marks need no word of it. Claims without a kind have marks of their own, see [marks]; those of claims with it stay where they
// were when it was paused, and its jobs are behind them when it goes on.
type holds struct {
	mu   sync.Mutex
	asOf int64 // the database time of the answer, as micros counts
	list []runner.PausedKind
}

// note takes an answer from the time asOf, and tells whether a kind goes on that was paused before. An answer that is older than
// what is known says nothing: a claim that was under way when the pause came must not undo it.
func (h *holds) note(asOf pgtype.Timestamptz, list []runner.PausedKind) (freed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if micros(asOf) < h.asOf {
		return false
	}
	before := h.list
	h.asOf, h.list = micros(asOf), list
	return slices.ContainsFunc(before, func(old runner.PausedKind) bool { return !among(list, old.Kind) })
}

// known is the latest answer. It must not be changed.
func (h *holds) known() []runner.PausedKind {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.list
}

// without are those of kinds that are not known to be paused at now; nil, which means any kind, stays nil. The same slice is
// returned where there are none to leave out.
func (h *holds) without(kinds []string, now time.Time) []string {
	held := h.known()
	if len(held) == 0 || kinds == nil {
		return kinds
	}
	left := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		if !slices.ContainsFunc(held, func(p runner.PausedKind) bool { return p.Kind == kind && p.At(now) }) {
			left = append(left, kind)
		}
	}
	return left
}

// among tells whether list names kind.
func among(list []runner.PausedKind, kind string) bool {
	return slices.ContainsFunc(list, func(p runner.PausedKind) bool { return p.Kind == kind })
}

// hides tells whether a claim of kinds (nil = any) passed over jobs because their kind is paused.
func hides(list []runner.PausedKind, kinds []string) bool {
	return slices.ContainsFunc(list, func(p runner.PausedKind) bool { return kinds == nil || slices.Contains(kinds, p.Kind) })
}

// PausedKinds implements [runner.KindPauser].
func (q *Queue) PausedKinds() []runner.PausedKind { return q.holds.known() }

// readHolds decodes paused_kinds as claim and probe send it: [["kind", µs to the end or null], …]. A kind that is paused both in this
// queue and in all of them stands there twice, and the longer pause counts. now is when the answer came, so that no pause ends
// earlier here than in the database.
func readHolds(text *string, now time.Time) ([]runner.PausedKind, error) {
	if text == nil {
		return nil, nil
	}
	var pairs [][2]any
	if err := json.Unmarshal([]byte(*text), &pairs); err != nil {
		return nil, fmt.Errorf("paused kinds: %w", err)
	}
	list := make([]runner.PausedKind, 0, len(pairs))
	for _, pair := range pairs {
		next := runner.PausedKind{}
		next.Kind, _ = pair[0].(string)
		if left, ok := pair[1].(float64); ok {
			next.Until = now.Add(time.Duration(min(left, float64(longestWait/time.Microsecond))) * time.Microsecond)
		}
		if i := slices.IndexFunc(list, func(p runner.PausedKind) bool { return p.Kind == next.Kind }); i < 0 {
			list = append(list, next)
		} else if !list[i].Until.IsZero() && (next.Until.IsZero() || next.Until.After(list[i].Until)) {
			list[i] = next
		}
	}
	return list, nil
}

// longestWait keeps waits far from the end of what a time.Duration can say.
const longestWait = 100 * 365 * 24 * time.Hour

// pausedFor is the answer about a queue that is paused until a time, as seen from now: with the wait, if it ends by itself.
func pausedFor(now, until pgtype.Timestamptz) error {
	wait := probed(now, until)
	if !wait.Scheduled {
		return runner.ErrPaused
	}
	return &runner.PausedError{For: wait.Wait}
}
