package schedule

import "time"

// nextCron is the first tick after an instant.
//
// A zone is a row of segments, in each of which the clock on the wall runs evenly; between two of them it jumps, forward over times
// that do not exist (a gap) or back over times that come again (an overlap). The policy, in one sentence: a fixed time has its tick at
// the first instant at which the clock has reached or passed it. So what falls into a gap happens once, when the gap ends, and
// what comes twice happens the first time. Three kinds of expressions differ:
//
//   - Fixed: hours are restricted and the minutes do not begin with *, as in "30 2 * * *". The sentence as it stands.
//   - Minutes that repeat within restricted hours, "*/15 1-3 * * *": an interval, which must not fall silent for the hour that comes
//     twice. So it goes on in both passes; what falls into a gap happens once at its end, so that no day is lost.
//   - Every hour, "0 * * * *", "*/15 * * * *": the clock's times in both passes, and nothing in exchange for those in a gap, since the
//     next hour follows at once; but for a gap of a day or more, see [dayLong].
func nextCron(c *cron, zone *time.Location, after time.Time) (time.Time, bool) {
	repeats := c.everyHour() || c.minute.star && c.minute.count() > 1
	start, end, offset := segmentAt(after, zone)
	reached := reachedBefore(start, zone)
	// 29 February may be eight years away. A zone has at most a handful of jumps a year; the bound is for damaged data.
	for range 1000 {
		if tick, ok := nextIn(c, segment{start, end, offset, reached}, repeats, after); ok {
			return tick, true
		}
		if end.IsZero() || end.Sub(after) > (searchYears+1)*366*24*time.Hour {
			break
		}
		if last := onWall(end, offset); last.After(reached) {
			reached = last
		}
		start, end, offset = segmentAt(end, zone)
	}
	return time.Time{}, false
}

// dayLong is a gap that takes a whole day with it, as in Samoa, which had no 30 December 2011. Expressions of every hour have
// their tick at its end too, since the day may be the only one that they name.
const dayLong = 24 * time.Hour

// segment is a stretch between two jumps of a zone.
type segment struct {
	start, end time.Time     // end is no part of it; zero = for ever; start zero = since ever
	offset     time.Duration // of the wall from UTC
	reached    wall          // the latest that the wall has shown, or was about to show, before start; zero = nothing is known
}

// nextIn is the first tick after an instant inside of a segment.
func nextIn(c *cron, s segment, repeats bool, after time.Time) (time.Time, bool) {
	if !s.start.IsZero() && after.Before(s.start) {
		if s.standsIn(c) {
			return s.start, true
		}
		after = s.start.Add(-time.Nanosecond) // its first instant counts
	}
	from := onWall(after, s.offset).Add(time.Nanosecond)
	if !repeats && from.Before(s.reached) {
		from = s.reached
	}
	match, ok := c.nextWall(from)
	if !ok {
		return time.Time{}, false
	}
	tick := match.Add(-s.offset)
	return tick, s.end.IsZero() || tick.Before(s.end)
}

// standsIn tells whether the segment's first instant is the tick of times in the gap before it.
func (s segment) standsIn(c *cron) bool {
	first := onWall(s.start, s.offset)
	if s.reached.IsZero() || !first.After(s.reached) {
		return false // no gap
	}
	if c.everyHour() && first.Sub(s.reached) < dayLong {
		return false
	}
	match, ok := c.nextWall(s.reached)
	return ok && match.Before(first)
}

// segmentAt is the segment that holds an instant.
func segmentAt(instant time.Time, zone *time.Location) (start, end time.Time, offset time.Duration) {
	local := instant.In(zone)
	_, seconds := local.Zone()
	start, end = local.ZoneBounds()
	offset = time.Duration(seconds) * time.Second
	// A change of name alone, or of the daylight saving flag, is no jump; it does no harm to treat it as one.
	return start, end, offset
}

// memory is how far back a jump of a zone may matter: the clock cannot be set back by more than the whole range of offsets, which
// is 31 hours.
const memory = 48 * time.Hour

// reachedBefore is the latest that the wall has shown before an instant at which a segment starts.
func reachedBefore(start time.Time, zone *time.Location) wall {
	var reached wall
	for at := start; !at.IsZero() && start.Sub(at) < memory; {
		previous, _, offset := segmentAt(at.Add(-time.Nanosecond), zone)
		if last := onWall(at, offset); reached.IsZero() || last.After(reached) {
			reached = last
		}
		at = previous
	}
	return reached
}

// onWall is what the wall shows at an instant.
func onWall(instant time.Time, offset time.Duration) wall { return instant.UTC().Add(offset) }
