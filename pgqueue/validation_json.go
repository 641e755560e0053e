package pgqueue

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What encoding/json reads and what a jsonb number can be.
const (
	maxJSONDepth      = 10_000  // encoding/json refuses to read more, so no handler could decode it
	maxIntegerDigits  = 131_072 // of a numeric before the decimal point
	maxFractionDigits = 16_383  // and after it
)

// tooLarge says by how much.
func tooLarge(field string, size, limit int) *ValidationError {
	return invalid(field, fmt.Sprintf("is too large: %d bytes where %d are allowed", size, limit))
}

// checkJSON refuses what is JSON and yet not storable as jsonb, or not readable afterwards. text must be well-formed.
// source is the Go value that encoding/json wrote text from; nil if text was written elsewhere.
//
// The source matters for one case: json.Marshal replaces bytes that are not UTF-8 by the escape \ufffd and reports
// nothing, which changes data. The character U+FFFD itself it writes as such, so the escape gives the replacement away,
// unless a json.RawMessage inside source brought it along.
func checkJSON(field string, text []byte, limit int, source any) *ValidationError {
	if len(text) > limit {
		return tooLarge(field, len(text), limit)
	}
	if !utf8.Valid(text) {
		return invalid(pathAt(field, text, firstInvalid(text)), "holds bytes that are not UTF-8")
	}
	s := jsonScanner{text: text}
	s.scan()
	switch {
	case s.problem == "exceeds the depth":
		return invalid(field, fmt.Sprintf("is nested deeper than the %d levels that encoding/json reads", maxJSONDepth))
	case s.problem != "":
		return invalid(pathAt(field, text, s.offset), s.problem)
	case len(text)+s.expansion > limit:
		// 1e131071 is eight bytes here and 131,072 when it is read back.
		return tooLarge(field, len(text)+s.expansion, limit)
	case s.replacement > 0 && source != nil && !onlyRawJSON(source):
		return invalid(pathAt(field, text, s.replacement), "holds bytes that are not UTF-8 (encoding/json wrote them as \\ufffd)")
	}
	return nil
}

// jsonScanner goes over well-formed JSON once, at about a nanosecond a byte.
type jsonScanner struct {
	text []byte

	problem     string // the first one, as the message of a ValidationError
	offset      int    // where
	expansion   int    // bytes by which numbers grow when Postgres writes them without exponent
	replacement int    // offset of the first escape \ufffd, 0 if there is none (a string starts at 0 with its quote)
}

func (s *jsonScanner) fail(offset int, problem string) {
	s.problem, s.offset = problem, offset
}

func (s *jsonScanner) scan() {
	depth := 0
	for i := 0; i < len(s.text) && s.problem == ""; {
		switch c := s.text[i]; {
		case c == '"':
			i = s.string(i)
		case c == '{' || c == '[':
			if depth++; depth > maxJSONDepth {
				s.fail(i, "exceeds the depth")
			}
			i++
		case c == '}' || c == ']':
			depth--
			i++
		case c == '-' || '0' <= c && c <= '9':
			i = s.number(i)
		default:
			i++
		}
	}
}

// string looks at the string that starts with the quote at i and returns the offset behind it.
func (s *jsonScanner) string(i int) int {
	for i++; i < len(s.text); {
		switch s.text[i] {
		case '"':
			return i + 1
		case '\\':
			if i = s.escape(i); s.problem != "" {
				return i
			}
		default:
			i++
		}
	}
	return i
}

// escape looks at the escape that starts with the backslash at i and returns the offset behind it.
func (s *jsonScanner) escape(i int) int {
	unit, ok := unicodeEscape(s.text, i)
	if !ok {
		return i + 2 // one of \" \\ \/ \b \f \n \r \t
	}
	switch {
	case unit == 0:
		s.fail(i, "holds the character NUL, which Postgres cannot store")
	case unit == 0xFFFD && s.replacement == 0:
		s.replacement = i
	case 0xD800 <= unit && unit < 0xDC00: // the first half of a pair
		if low, ok := unicodeEscape(s.text, i+6); !ok || low < 0xDC00 || low > 0xDFFF {
			s.fail(i, "holds half of a surrogate pair, which is no character")
			return i
		}
		return i + 12
	case 0xDC00 <= unit && unit <= 0xDFFF:
		s.fail(i, "holds half of a surrogate pair, which is no character")
	}
	return i + 6
}

// unicodeEscape reads an escape such as \u0041 at i.
func unicodeEscape(text []byte, i int) (unit uint64, ok bool) {
	if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[i+2:i+6]), 16, 32)
	return unit, err == nil
}

// number looks at the number at i and returns the offset behind it.
func (s *jsonScanner) number(i int) int {
	start := i
	if s.text[i] == '-' {
		i++
	}
	digits := func() int {
		from := i
		for i < len(s.text) && '0' <= s.text[i] && s.text[i] <= '9' {
			i++
		}
		return i - from
	}
	integer, fraction, exponent := digits(), 0, 0
	if i < len(s.text) && s.text[i] == '.' {
		i++
		fraction = digits()
	}
	if i < len(s.text) && (s.text[i] == 'e' || s.text[i] == 'E') {
		i++
		negative := i < len(s.text) && s.text[i] == '-'
		if negative || i < len(s.text) && s.text[i] == '+' {
			i++
		}
		from := i
		digits()
		for _, c := range s.text[from:i] {
			if exponent = exponent*10 + int(c-'0'); exponent > 1_000_000 {
				break // far beyond both bounds, and safe from overflow
			}
		}
		s.expansion += exponent
		if negative {
			exponent = -exponent
		}
	}
	// Leading zeros of a fraction could be left out of the count; nobody needs the difference.
	if integer+exponent > maxIntegerDigits || fraction-exponent > maxFractionDigits {
		s.fail(start, fmt.Sprintf("holds a number beyond what Postgres stores (%d digits before the point, %d after it)",
			maxIntegerDigits, maxFractionDigits))
	}
	return i
}

// firstInvalid is the offset of the first byte that is not UTF-8.
func firstInvalid(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(text)
}

// pathAt names what stands at an offset of JSON: "payload.items[3].name". It is only called to explain a refusal.
func pathAt(field string, text []byte, offset int) string {
	type level struct {
		object bool
		name   string // of the member, empty before the first
		named  bool   // the next string is a value, not a name
		index  int
	}
	var levels []level
	for i := 0; i < len(text) && i <= offset; {
		top := len(levels) - 1
		switch text[i] {
		case '{', '[':
			levels = append(levels, level{object: text[i] == '{'})
		case '}', ']':
			if top >= 0 {
				levels = levels[:top]
			}
		case ',':
			if top >= 0 {
				levels[top].index++
				levels[top].named = false
			}
		case '"':
			end := (&jsonScanner{text: text}).skipString(i)
			if top >= 0 && levels[top].object && !levels[top].named {
				levels[top].name = string(bytes.Trim(text[i:end], `"`))
				levels[top].named = true
			}
			i = end
			continue
		}
		i++
	}
	const maxPath = 256
	var b strings.Builder
	b.WriteString(field)
	for _, l := range levels {
		if b.Len() > maxPath {
			b.WriteString("…")
			break
		}
		switch {
		case !l.object:
			fmt.Fprintf(&b, "[%d]", l.index)
		case !l.named && l.name == "": // the object itself
		case plainName(l.name):
			b.WriteString("." + l.name)
		default:
			b.WriteString(`["` + printable(l.name) + `"]`)
		}
	}
	return b.String()
}

// skipString returns the offset behind the string at i without judging it.
func (s *jsonScanner) skipString(i int) int {
	for i++; i < len(s.text); i++ {
		switch s.text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return len(s.text)
}

// plainName tells whether a member's name can stand in a path without quotes.
func plainName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// printable makes a name fit for an error: valid, and not long.
func printable(name string) string {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}
