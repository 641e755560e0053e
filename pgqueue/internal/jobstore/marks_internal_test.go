package jobstore

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// scanned plays one claim that took so long on the server and found nothing.
func scanned(m *marks, took time.Duration) (full bool) {
	classes := allClasses()
	from := m.begin("k", "k", classes)
	now := pgtype.Timestamptz{Time: time.Unix(1_000_000, 0), Valid: true}
	m.done(from, envelope{now: now, took: took.Microseconds()}, classes, nil, 10)
	return from.full
}

func newMarks() *marks {
	return &marks{poll: time.Second, longest: 30 * time.Second, margin: time.Second, cheap: 5 * time.Millisecond}
}

// age moves what the marks remember into the past.
func (m *marks) age(by time.Duration) {
	for _, set := range m.sets {
		set.lastFull = set.lastFull.Add(-by)
		set.markTime = set.markTime.Add(-by)
	}
}

func TestFullScansAreRationedWhenDear(t *testing.T) {
	want := func(m *marks, took time.Duration, full bool, why string) {
		t.Helper()
		if got := scanned(m, took); got != full {
			t.Fatalf("%s: full scan = %v, want %v", why, got, full)
		}
	}
	m := newMarks()
	for range 5 {
		want(m, time.Millisecond, true, "cheap")
	}
	want(m, 200*time.Millisecond, true, "cheap so far")
	want(m, 200*time.Millisecond, true, "one slow scan may be chance")
	want(m, time.Millisecond, false, "dear")
	m.age(1700 * time.Millisecond)
	want(m, time.Millisecond, false, "a tenth of the time: after 1.8 s")
	m.age(200 * time.Millisecond)
	want(m, 20*time.Second, true, "1.9 s later")
	want(m, time.Millisecond, false, "dear")
	m.age(2 * time.Second)
	want(m, 20*time.Second, true, "the cheaper of the last two counts")
	m.age(29 * time.Second)
	want(m, time.Millisecond, false, "very dear")
	m.age(time.Second)
	want(m, 10*time.Millisecond, true, "the longest distance")

	m = newMarks()
	want(m, 20*time.Millisecond, true, "first")
	want(m, 20*time.Millisecond, true, "second")
	want(m, 15*time.Millisecond, false, "dear")
	want(m, 20*time.Millisecond, true, "scans from the mark are no cheaper: it is the server")
	want(m, 20*time.Millisecond, false, "or is it? the marks may have passed what was in the way")
	want(m, 20*time.Millisecond, true, "it is the server still")
	want(m, time.Millisecond, false, "tried again")
	want(m, time.Millisecond, false, "scans from the mark are cheap now")

	m = newMarks()
	for range 3 {
		scanned(m, 20*time.Millisecond)
	}
	want(m, 20*time.Millisecond, true, "it is the server")
	m.age(2 * time.Second)
	want(m, 20*time.Millisecond, true, "a poll later, whatever the scan before was")
	m.probed(m.begin("k", "k", allClasses()), false, 20*time.Millisecond) // from the marks
	if from := m.begin("k", "k", allClasses()); !from.full {
		t.Error("after a probe from the marks it is the turn of a full one")
	}
}

func TestProbeThatFindsNothingIsAFullScan(t *testing.T) {
	m := newMarks()
	scanned(m, 200*time.Millisecond)
	scanned(m, 200*time.Millisecond)
	m.age(time.Minute)
	from := m.begin("k", "k", allClasses())
	if !from.full {
		t.Fatal("a full scan was due")
	}
	m.probed(from, true, 200*time.Millisecond)
	if from = m.begin("k", "k", allClasses()); !from.full {
		t.Fatal("the probe found work, which only a full claim can take")
	}
	m.probed(from, false, 200*time.Millisecond)
	if from = m.begin("k", "k", allClasses()); from.full {
		t.Fatal("the probe found nothing and cost as much as a full claim")
	}
}

// A claim that began before a mark was lowered says nothing about what lies below.
func TestLoweredMarkStays(t *testing.T) {
	m := newMarks()
	scanned(m, 0)
	classes := allClasses()
	from := m.begin("k", "k", classes)
	low := mark{runAt: pgtype.Timestamptz{Time: time.Unix(5, 0), Valid: true}, id: 7}
	m.lower(2, low)
	m.done(from, envelope{now: pgtype.Timestamptz{Time: time.Unix(2_000_000, 0), Valid: true}}, classes, nil, 10)
	if got := m.sets["k"].at[2]; got != low {
		t.Fatalf("the mark is at %+v, want %+v", got, low)
	}
}

func TestSetsOfKindsAreBounded(t *testing.T) {
	m := newMarks()
	m.begin("all", "all", allClasses())
	for i := range 1000 {
		m.begin(string(rune('a'+i)), "all", allClasses())
	}
	if len(m.sets) > maxSets || m.sets["all"] == nil {
		t.Fatalf("%d sets are kept", len(m.sets))
	}
}

func TestScanKey(t *testing.T) {
	keys := map[string]bool{}
	for _, kinds := range [][]string{nil, {}, {"a"}, {"a", "b"}, {"ab"}, {"*"}} {
		keys[scanKey(kinds, allClasses())] = true
		keys[scanKey(kinds, []int16{1})] = true
	}
	if len(keys) != 12 || scanKey([]string{"b", "a"}, []int16{2, 1}) != scanKey([]string{"a", "b"}, []int16{1, 2}) {
		t.Fatalf("keys %v", keys)
	}
}

// In a backlog what one claim has taken lies in the way of the next.
func TestMarksRationCheapScansInABacklog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		claimed int
		took    time.Duration
		full    bool
	}{
		{claimed: 1, took: 2 * time.Millisecond, full: false},
		{claimed: 0, took: 2 * time.Millisecond, full: true},
		{claimed: 1, took: 50 * time.Microsecond, full: true},
	} {
		m := &marks{poll: time.Second, longest: time.Minute, cheap: 5 * time.Millisecond}
		classes := allClasses()
		head := envelope{now: pgtype.Timestamptz{Time: time.Now(), Valid: true}, took: c.took.Microseconds()}
		rows := make([]claimedRow, c.claimed)
		for i := range rows {
			rows[i] = claimedRow{row: &Row{ID: 1, Priority: 1}, at: head.now.Time.UnixMicro()}
		}
		for range 2 { // a single slow scan may be chance
			from := m.begin("k", "k", classes)
			from.full = true
			m.done(from, head, classes, rows, 1)
		}
		if got := m.begin("k", "k", classes).full; got != c.full {
			t.Errorf("after scans of %v that claimed %d of 1 the next is full: %v, want %v", c.took, c.claimed, got, c.full)
		}
		m.sets["k"].lastFull = time.Now().Add(-time.Second)
		if !m.begin("k", "k", classes).full {
			t.Errorf("scans of %v that claimed %d: none is full any more", c.took, c.claimed)
		}
	}
}
