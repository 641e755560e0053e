package schedule

import (
	"fmt"
	"strings"
	"time"
)

// Spec is a parsed specification of when: a cron expression, an interval, or one instant. The zero value matches never. It may be
// copied and is safe for concurrent use.
type Spec struct {
	text  string
	cron  *cron
	every time.Duration
	at    time.Time
}

// Bounds of what a specification may say.
const (
	// MinInterval is the shortest that @every takes.
	MinInterval = time.Second
	// MaxInterval is the longest that @every takes.
	MaxInterval = 10 * 366 * 24 * time.Hour

	maxSpecBytes = 255
)

// Parse reads a specification:
//
//   - five fields, "minute hour day-of-month month day-of-week": numbers, names (jan, mon; three letters, any case), ranges 1-5, steps
//     */15 and 0-30/10, and lists of these. 0 and 7 are Sunday. If both days are restricted, either of them matches; a day that begins
//     with * does not count as restricted, and then both have to match. That is the rule of Vixie cron: "0 0 1 * 1" is every Monday and
//     every first, "0 0 */2 * 1" the Mondays that are odd days;
//   - @hourly, @daily (or @midnight), @weekly, @monthly, @yearly (or @annually): the usual shorthands for such fields;
//   - @every 90m: an interval in the notation of [time.ParseDuration], whole seconds from [MinInterval] to [MaxInterval];
//   - @at 2027-01-31T09:00:00Z: one instant, as RFC 3339, once. One that has passed already is taken, and never happens.
//
// What cannot be meant is an error that says why: a sixth field (seconds; use @every), values out of range, ranges that go backwards, steps
// that leave the field, and expressions that match no day there is, such as 30 February. The extensions ?, L, W and # are not
// supported, nor is a zone inside of the text: a zone goes beside it.
func Parse(text string) (Spec, error) {
	spec := Spec{text: strings.Join(strings.Fields(text), " ")}
	var err error
	switch {
	case len(text) > maxSpecBytes:
		return Spec{}, fmt.Errorf("is too long: %d bytes where %d are allowed", len(text), maxSpecBytes)
	case spec.text == "":
		return Spec{}, fmt.Errorf("must not be empty")
	case strings.HasPrefix(spec.text, "TZ=") || strings.HasPrefix(spec.text, "CRON_TZ="):
		return Spec{}, fmt.Errorf("%q begins with a time zone, which goes into a field of its own", spec.text)
	case strings.HasPrefix(spec.text, "@"):
		err = spec.parseWord()
	default:
		spec.cron, err = parseCron(spec.text)
	}
	if err != nil {
		return Spec{}, fmt.Errorf("%q %w", spec.text, err)
	}
	return spec, nil
}

// String is the text, with single spaces.
func (s Spec) String() string { return s.text }

// Once tells whether it is one instant.
func (s Spec) Once() bool { return !s.at.IsZero() }

// parseWord reads what begins with @.
func (s *Spec) parseWord() error {
	word, rest, _ := strings.Cut(s.text, " ")
	switch word {
	case "@every":
		every, err := time.ParseDuration(rest)
		switch {
		case err != nil:
			return fmt.Errorf("needs an interval such as 90m or 36h: %w", err)
		case every < MinInterval || every > MaxInterval:
			return fmt.Errorf("must be an interval from %s to %s", MinInterval, MaxInterval)
		case every%time.Second != 0:
			return fmt.Errorf("must be a whole number of seconds")
		}
		s.every = every
		return nil
	case "@at":
		at, err := time.Parse(time.RFC3339, rest)
		if err != nil {
			return fmt.Errorf("needs an instant such as 2027-01-31T09:00:00Z: %w", err)
		}
		if year := at.UTC().Year(); year < 1970 || year > 9999 {
			return fmt.Errorf("must lie in the years 1970 to 9999")
		}
		s.at = at.UTC().Truncate(time.Microsecond)
		return nil
	}
	fields, ok := map[string]string{
		"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
		"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
	}[word]
	if !ok || rest != "" {
		return fmt.Errorf("is not understood: there are @every, @at, @hourly, @daily, @weekly, @monthly and @yearly")
	}
	var err error
	s.cron, err = parseCron(fields)
	return err
}

// parseCron reads five fields.
func parseCron(text string) (*cron, error) {
	texts := strings.Split(text, " ")
	switch len(texts) {
	case 5:
	case 6, 7:
		return nil, fmt.Errorf("has %d fields where five are understood, from minute to day of week; there are no seconds, and @every does what is shorter than a minute", len(texts))
	default:
		return nil, fmt.Errorf("has %d fields where five are needed: minute, hour, day of month, month, day of week", len(texts))
	}
	var fields [5]field
	for i, kind := range fieldKinds() {
		var err error
		if fields[i], err = kind.parse(texts[i]); err != nil {
			return nil, fmt.Errorf("is wrong: %w", err)
		}
	}
	c := &cron{minute: fields[0], hour: fields[1], dom: fields[2], month: fields[3], dow: fields[4]}
	if !c.possible() {
		return nil, fmt.Errorf("matches no day of any year")
	}
	return c, nil
}

// Next is the first tick after an instant, in UTC, and false where there is none. zone is what the fields of a cron expression are
// meant in; nil is UTC. anchor is what the ticks of @every are counted from, in whole seconds.
func (s Spec) Next(after time.Time, zone *time.Location, anchor time.Time) (time.Time, bool) {
	if zone == nil {
		zone = time.UTC
	}
	switch {
	case s.cron != nil:
		tick, ok := nextCron(s.cron, zone, after)
		return tick.UTC(), ok
	case s.every > 0:
		return nextEvery(anchor.UTC().Truncate(time.Second), s.every, after.UTC()), true
	case s.at.After(after):
		return s.at, true
	}
	return time.Time{}, false
}

// nextEvery is the first point of a grid after an instant. It counts in seconds: a [time.Duration] holds 292 years.
func nextEvery(anchor time.Time, every time.Duration, after time.Time) time.Time {
	width := int64(every / time.Second)
	passed := after.Unix() - anchor.Unix()
	steps := passed / width
	if passed%width < 0 {
		steps--
	}
	return time.Unix(anchor.Unix()+(steps+1)*width, 0).UTC()
}

// Preview lists the first n ticks after an instant, for people: fewer where there are no more. n is at most 10,000; the ticks of @every are
// counted from after.
func Preview(spec, zone string, after time.Time, n int) ([]time.Time, error) {
	parsed, err := Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("preview: %w", &ConfigError{Field: "spec", Message: err.Error()})
	}
	location, err := LoadZone(zone)
	if err != nil {
		return nil, fmt.Errorf("preview: %w", &ConfigError{Field: "time_zone", Message: err.Error()})
	}
	ticks := []time.Time{}
	for at := after; len(ticks) < min(n, 10_000); {
		next, ok := parsed.Next(at, location, after)
		if !ok {
			break
		}
		ticks = append(ticks, next)
		at = next
	}
	return ticks, nil
}
