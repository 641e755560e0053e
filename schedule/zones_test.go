package schedule

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"
)

// zoneNames are all zones of the tz database, as they stand in the Go distribution: unzip -Z1 $(go env GOROOT)/lib/time/zoneinfo.zip
//
//go:embed testdata/zones.txt
var zoneNames string

// jumps lists the instants at which the wall clock of a zone jumps.
func jumps(zone *time.Location, from, until time.Time) []time.Time {
	var found []time.Time
	for at := from; ; {
		_, end := at.In(zone).ZoneBounds()
		if end.IsZero() || !end.Before(until) {
			return found
		}
		_, before := end.Add(-time.Nanosecond).In(zone).Zone()
		if _, after := end.In(zone).Zone(); before != after {
			found = append(found, end)
		}
		at = end
	}
}

// wallAt is what the wall shows at an instant, by the standard library.
func wallAt(instant time.Time, zone *time.Location) wall {
	local := instant.In(zone)
	return time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC)
}

// walk is what the wall shows in each minute from an instant on.
type walk struct {
	start time.Time
	walls []wall
}

func newWalk(zone *time.Location, from, until time.Time) walk {
	w := walk{start: from}
	for at := from; at.Before(until); at = at.Add(time.Minute) {
		w.walls = append(w.walls, wallAt(at, zone))
	}
	return w
}

// shows tells whether the fields match a minute of the wall.
func shows(c *cron, now wall) bool {
	return c.minute.has(now.Minute()) && c.hour.has(now.Hour()) && c.month.has(int(now.Month())) && c.onDay(now.Date())
}

// onceOf is the policy of fixed times told in another way than in next.go: minute by minute, and the wall clock's times are ticked off as
// they are reached. The walk begins earlier, so that what has been reached at from is known.
func onceOf(c *cron, w walk, from time.Time) []time.Time {
	var ticks []time.Time
	reached := w.walls[0]
	for i, now := range w.walls {
		hit := false
		for ; !reached.After(now); reached = reached.Add(time.Minute) {
			hit = hit || shows(c, reached)
		}
		if at := w.start.Add(time.Duration(i) * time.Minute); hit && !at.Before(from) {
			ticks = append(ticks, at)
		}
	}
	return ticks
}

// evenlyOf is the policy of every hour: each minute of the wall that matches, in both passes.
func evenlyOf(c *cron, w walk, from time.Time) []time.Time {
	var ticks []time.Time
	for i, now := range w.walls {
		if at := w.start.Add(time.Duration(i) * time.Minute); shows(c, now) && !at.Before(from) {
			ticks = append(ticks, at)
		}
	}
	return ticks
}

// In every zone, around each jump of its clock: a day is never lost, an instant never repeated, and the ticks are those of the policy.
func TestADayIsNeverLostAndAnInstantNeverRepeatedInAnyZone(t *testing.T) {
	t.Parallel()
	first, last := at("2005-01-01T00:00:00Z"), at("2038-01-01T00:00:00Z")
	if full() {
		first = at("1972-01-01T00:00:00Z")
	}
	// Offsets with seconds are older than these years; a tick is a whole minute of the wall, and here of UTC too.
	fixed := []string{"30 2 * * *", "0 0 * * *", "45 1 * * *", "15,59 0,3,23 * * *", "0 9 30 12 *", "30 2 * * 0"}
	even := []string{"0 * * * *", "*/15 * * * *", "7 * * * *"}
	done := map[string]bool{}
	compared, zones := 0, 0
	for name := range strings.FieldsSeq(zoneNames) {
		zone, err := LoadZone(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		zones++
		all := jumps(zone, first, last)
		for _, jump := range all {
			_, before := jump.Add(-time.Second).In(zone).Zone()
			_, after := jump.In(zone).Zone()
			// Of zones that jump at the same instant by the same, one says it for all.
			same := fmt.Sprint(jump.Unix(), before, after)
			if done[same] || before%60 != 0 || after%60 != 0 || jump.Unix()%60 != 0 {
				continue
			}
			done[same] = true
			// A few jumps of each rule are enough for every run.
			rule := fmt.Sprint(jump.UTC().Format("01 15:04"), after-before)
			if !full() && done[rule] && after-before < 80000 {
				continue
			}
			done[rule] = true
			compared++
			from, until, known := jump.Add(-6*time.Hour), jump.Add(28*time.Hour), 6*time.Hour
			if full() || max(after-before, before-after) > 4*3600 {
				from, until, known = jump.Add(-30*time.Hour), jump.Add(50*time.Hour), memory
			}
			w := newWalk(zone, from.Add(-known), until)
			for _, text := range fixed {
				checkAround(t, name, text, from, until, zone, w, onceOf)
			}
			for _, text := range even {
				if after-before < 86400 {
					checkAround(t, name, text, from, until, zone, w, evenlyOf)
				}
			}
		}
	}
	if zones < 590 || compared < 60 {
		t.Errorf("%d zones, %d jumps", zones, compared)
	}
	t.Logf("%d zones, %d jumps that differ", zones, compared)
}

func checkAround(t *testing.T, name, text string, from, until time.Time, zone *time.Location, w walk, oracle func(*cron, walk, time.Time) []time.Time) {
	spec, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want := oracle(spec.cron, w, from)
	var got []time.Time
	for at := from.Add(-time.Nanosecond); ; {
		tick, ok := spec.Next(at, zone, time.Time{})
		if !ok || !tick.Before(until) {
			break
		}
		if !tick.After(at) {
			t.Fatalf("%s %q: %s is not after %s", name, text, tick, at)
		}
		got, at = append(got, tick), tick
	}
	if fmt.Sprint(texts(got)) != fmt.Sprint(texts(want)) {
		t.Errorf("%s %q around %s:\n got %v\nwant %v", name, text, from, texts(got), texts(want))
	}
}

// A year in each zone that is peculiar: a daily time has its tick on each day that there is.
func TestADailyTickOnEachDayThatThereIs(t *testing.T) {
	t.Parallel()
	for zone, years := range map[string][]int{
		"America/New_York": {2026}, "Europe/Copenhagen": {2026}, "Australia/Lord_Howe": {2026}, "Africa/Casablanca": {2025, 2026}, "Antarctica/Troll": {2026},
		"Europe/Dublin": {2026}, "America/Havana": {2026}, "Pacific/Apia": {2011}, "Pacific/Kwajalein": {1993}, "Asia/Kathmandu": {2026}, "Africa/Cairo": {2026},
	} {
		location, err := LoadZone(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, year := range years {
			for hour := range 24 {
				days := map[string]int{}
				spec := fmt.Sprintf("30 %d * * *", hour)
				from := fmt.Sprintf("%d-01-01 00:00", year)
				for _, tick := range between(t, spec, zone, from, fmt.Sprintf("%d-01-01 00:00", year+1)) {
					days[tick[:10]]++
				}
				start := time.Date(year, 1, 1, 12, 0, 0, 0, location)
				for day := start; day.Year() == year; day = day.Add(24 * time.Hour) {
					date := day.Format("2006-01-02")
					want := 1
					if date == "2011-12-31" && zone == "Pacific/Apia" || date == "1993-08-22" && zone == "Pacific/Kwajalein" {
						want = 2 // its own, and at its beginning that of the day which was left out
					}
					if days[date] != want {
						t.Errorf("%s %q: %d ticks on %s", zone, spec, days[date], date)
					}
				}
			}
		}
	}
}
