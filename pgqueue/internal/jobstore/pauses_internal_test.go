package jobstore

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/runner"
)

// An answer that was under way when a newer one came must not undo it.
func TestHoldsGoByTheLatestAnswer(t *testing.T) {
	t.Parallel()
	at := func(n int64) pgtype.Timestamptz { return pgtype.Timestamptz{Time: time.UnixMicro(n), Valid: true} }
	a, b := runner.PausedKind{Kind: "a"}, runner.PausedKind{Kind: "b", Until: time.Now().Add(time.Hour)}
	var h holds
	for _, step := range []struct {
		asOf  int64
		list  []runner.PausedKind
		freed bool
		want  []string // of a, b, c
	}{
		{10, nil, false, []string{"a", "b", "c"}},
		{20, []runner.PausedKind{a, b}, false, []string{"c"}},
		{15, nil, false, []string{"c"}},
		{20, []runner.PausedKind{a}, true, []string{"b", "c"}},
		{30, []runner.PausedKind{b, a}, false, []string{"c"}},
		{40, nil, true, []string{"a", "b", "c"}},
	} {
		if freed := h.note(at(step.asOf), step.list); freed != step.freed {
			t.Errorf("%+v: freed %v", step, freed)
		}
		if got := h.without([]string{"a", "b", "c"}, time.Now()); !slices.Equal(got, step.want) {
			t.Errorf("%+v: left are %v", step, got)
		}
	}
	h.note(at(50), []runner.PausedKind{a, b})
	if got := h.without([]string{"a", "b"}, b.Until); !slices.Equal(got, []string{"b"}) {
		t.Errorf("at the end of a pause: %v", got)
	}
	if h.without(nil, time.Now()) != nil {
		t.Error("any kind became some")
	}
}

// A kind that is paused twice is paused for as long as the longer one.
func TestReadHolds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for text, want := range map[string][]runner.PausedKind{
		`[["a", null], ["a", 5000000], ["b", 1], ["b", 2000000]]`: {{Kind: "a"}, {Kind: "b", Until: now.Add(2 * time.Second)}},
		`[["a", 5000000], ["a", null]]`:                           {{Kind: "a"}},
		`[["far", 9e18]]`:                                         {{Kind: "far", Until: now.Add(longestWait)}},
	} {
		if got, err := readHolds(&text, now); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if got, err := readHolds(nil, now); got != nil || err != nil {
		t.Errorf("of nothing: %v, %v", got, err)
	}
}
