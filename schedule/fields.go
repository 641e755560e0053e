package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// field is one of the five fields of a cron expression: which values it allows, as a bit for each.
type field struct {
	bits uint64
	star bool // written as * or */n: "no restriction" where day of month and day of week are weighed against each other
}

func (f field) has(value int) bool { return f.bits&(1<<uint(value)) != 0 }
func (f field) count() int         { return bits.OnesCount64(f.bits) }

// nextValue is the smallest allowed value that is at least from, or -1.
func (f field) nextValue(from int) int {
	if from > 63 {
		return -1
	}
	rest := f.bits >> uint(from)
	if rest == 0 {
		return -1
	}
	return from + bits.TrailingZeros64(rest)
}

// fieldKind is what a field may hold.
type fieldKind struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

// fieldKinds are the five, in order. 7 is Sunday too.
func fieldKinds() [5]fieldKind {
	return [5]fieldKind{
		{name: "minute", min: 0, max: 59},
		{name: "hour", min: 0, max: 23},
		{name: "day of month", min: 1, max: 31},
		{name: "month", min: 1, max: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
		{name: "day of week", min: 0, max: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
	}
}

// parse reads a list such as "1-5,10,*/15".
func (k fieldKind) parse(text string) (field, error) {
	parsed := field{star: strings.HasPrefix(text, "*")}
	for part := range strings.SplitSeq(text, ",") {
		set, err := k.parsePart(part)
		if err != nil {
			return field{}, err
		}
		parsed.bits |= set
	}
	if k.max == 7 && parsed.has(7) {
		parsed.bits = parsed.bits&^(1<<7) | 1
	}
	return parsed, nil
}

// parsePart reads one element of the list: *, 5, 1-5, */15, 1-30/2.
func (k fieldKind) parsePart(part string) (uint64, error) {
	span, step, stepped := strings.Cut(part, "/")
	low, high, err := k.span(span)
	if err != nil {
		return 0, err
	}
	width := 1
	if stepped {
		if span != "*" && !strings.Contains(span, "-") {
			return 0, k.wrong(part, "has a step but no range; write "+span+"-"+strconv.Itoa(k.max)+"/"+step)
		}
		if width, err = strconv.Atoi(step); err != nil || width < 1 || !digits(step) {
			return 0, k.wrong(part, "has a step that is not a whole number from 1 on")
		}
		if width > high-low {
			return 0, k.wrong(part, fmt.Sprintf("has a step that is longer than the range from %d to %d; for a longer interval use @every", low, high))
		}
	}
	var set uint64
	for value := low; value <= high; value += width {
		set |= 1 << uint(value)
	}
	return set, nil
}

// span reads *, 5 or 1-5.
func (k fieldKind) span(text string) (low, high int, err error) {
	if text == "*" {
		high = k.max
		if k.max == 7 {
			high = 6 // Sunday once, so that steps are not counted from it twice
		}
		return k.min, high, nil
	}
	from, to, ranged := strings.Cut(text, "-")
	if low, err = k.value(from, text); err != nil {
		return 0, 0, err
	}
	if !ranged {
		return low, low, nil
	}
	if high, err = k.value(to, text); err != nil {
		return 0, 0, err
	}
	if k.max == 7 && high == 0 && low > 0 {
		high = 7 // fri-sun
	}
	if high < low {
		return 0, 0, k.wrong(text, "goes backwards; write it as two, with a comma")
	}
	return low, high, nil
}

// value reads a number or a name.
func (k fieldKind) value(text, whole string) (int, error) {
	for i, name := range k.names {
		if strings.EqualFold(text, name) {
			return k.min + i, nil
		}
	}
	if !digits(text) {
		if text == "" {
			return 0, k.wrong(whole, "is incomplete")
		}
		if strings.ContainsAny(whole, "?LlWw#") {
			return 0, k.wrong(whole, "is not understood: of the extensions to cron, ?, L, W and # are not supported")
		}
		return 0, k.wrong(whole, "is not understood")
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < k.min || value > k.max {
		return 0, k.wrong(whole, fmt.Sprintf("is out of range: from %d to %d", k.min, k.max))
	}
	return value, nil
}

func (k fieldKind) wrong(part, message string) error {
	return fmt.Errorf("the %s %q %s", k.name, part, message)
}

// digits tells a number of at most four digits: none is longer, and signs are not numbers here.
func digits(text string) bool {
	if text == "" || len(text) > 4 {
		return false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
