package schedule

import (
	"math/bits"
	"time"
)

// wall is a time as a clock on the wall shows it: a [time.Time] in UTC that stands for no instant. Days have 24 hours there and
// each minute comes once; what a zone makes of it is in next.go.
type wall = time.Time

// cron is a parsed expression of five fields.
type cron struct {
	minute, hour, dom, month, dow field
}

// searchYears bounds how far is looked for a match. The longest that a possible one can be away is eight years: 29 February, from
// 2096 to 2104 and its like.
const searchYears = 9

// nextWall is the first match at or after from, which need not be a whole minute. ok is false where there is none.
func (c *cron) nextWall(from wall) (match wall, ok bool) {
	if whole := from.Truncate(time.Minute); whole.Before(from) {
		from = whole.Add(time.Minute)
	}
	year, month, day := from.Date()
	hour, minute := from.Hour(), from.Minute()
	for last := year + searchYears; year <= last; {
		found := c.month.nextValue(int(month))
		if found < 0 {
			year, month, day, hour, minute = year+1, time.January, 1, 0, 0
			continue
		}
		if time.Month(found) != month {
			month, day, hour, minute = time.Month(found), 1, 0, 0
		}
		for ; day <= daysIn(year, month); day, hour, minute = day+1, 0, 0 {
			if !c.onDay(year, month, day) {
				continue
			}
			if h, m, ok := c.timeOfDay(hour, minute); ok {
				return time.Date(year, month, day, h, m, 0, 0, time.UTC), true
			}
		}
		month, day, hour, minute = month+1, 1, 0, 0
		if month > time.December {
			year, month = year+1, time.January
		}
	}
	return time.Time{}, false
}

// timeOfDay is the first match of a day at or after a time.
func (c *cron) timeOfDay(hour, minute int) (h, m int, ok bool) {
	h = c.hour.nextValue(hour)
	if h == hour {
		if m = c.minute.nextValue(minute); m >= 0 {
			return h, m, true
		}
		h = c.hour.nextValue(hour + 1)
	}
	if h < 0 {
		return 0, 0, false
	}
	return h, c.minute.nextValue(0), true
}

// onDay is Vixie cron's rule: where both days are restricted either of them is enough; where one of them begins with *, both
// have to match.
func (c *cron) onDay(year int, month time.Month, day int) bool {
	inMonth := c.dom.has(day)
	inWeek := c.dow.has(int(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday()))
	if c.dom.star || c.dow.star {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// possible tells whether there is any day on which it matches.
func (c *cron) possible() bool {
	_, ok := c.nextWall(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	return ok
}

func daysIn(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// everyHour tells whether the hours are not restricted, however that is written.
func (c *cron) everyHour() bool { return bits.OnesCount64(c.hour.bits) == 24 }
