package pgqueue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// canonicalJSON writes JSON in the one form in which Postgres writes jsonb as text, so that a hash of it is the same whether it is
// made here or there: members by the length of their names and then by bytes, the last of two of one name; ", " and ": "; numbers
// without exponent, with all their digits; characters as such where JSON allows it.
//
// text must be JSON that checkJSON let through.
func canonicalJSON(text []byte) (string, error) {
	value, err := parseJSON(text)
	if err != nil {
		return "", err
	}
	return value.String(), nil
}

// jsonValue is a parsed value: an object, an array, or a scalar in its canonical form.
type jsonValue struct {
	kind    byte // '{', '[' or 0
	scalar  string
	members []jsonMember // sorted, each name once
	items   []jsonValue
}

type jsonMember struct {
	name  string
	value jsonValue
}

// parseJSON reads one value. Numbers are kept as they are written: a float64 has no room for 9007199254740993.
func parseJSON(text []byte) (jsonValue, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return parseValue(decoder)
}

func parseValue(decoder *json.Decoder) (jsonValue, error) {
	token, err := decoder.Token()
	if err != nil {
		return jsonValue{}, err
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			return parseItems(decoder)
		}
		return parseMembers(decoder)
	case string:
		return jsonValue{scalar: quoteJSON(token)}, nil
	case json.Number:
		number, err := canonicalNumber(token.String())
		return jsonValue{scalar: number}, err
	case bool:
		return jsonValue{scalar: strconv.FormatBool(token)}, nil
	case nil:
		return jsonValue{scalar: "null"}, nil
	}
	return jsonValue{}, fmt.Errorf("unexpected %v", token)
}

func parseItems(decoder *json.Decoder) (jsonValue, error) {
	value := jsonValue{kind: '['}
	for decoder.More() {
		item, err := parseValue(decoder)
		if err != nil {
			return value, err
		}
		value.items = append(value.items, item)
	}
	_, err := decoder.Token()
	return value, err
}

func parseMembers(decoder *json.Decoder) (jsonValue, error) {
	value := jsonValue{kind: '{'}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return value, err
		}
		name, ok := token.(string)
		if !ok {
			return value, errors.New("a member without a name")
		}
		member, err := parseValue(decoder)
		if err != nil {
			return value, err
		}
		value.members = append(value.members, jsonMember{name, member})
	}
	_, err := decoder.Token()
	value.sort()
	return value, err
}

// sort brings the members into the order of jsonb and keeps the last of each name.
func (v *jsonValue) sort() {
	slices.SortStableFunc(v.members, func(a, b jsonMember) int { return compareNames(a.name, b.name) })
	kept := v.members[:0]
	for i, member := range v.members {
		if i+1 == len(v.members) || v.members[i+1].name != member.name {
			kept = append(kept, member)
		}
	}
	v.members = kept
}

func compareNames(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// pick is the object of what stands at pointers, under their own names. What is not there is left out.
func (v jsonValue) pick(pointers []string) jsonValue {
	picked := jsonValue{kind: '{'}
	for _, pointer := range pointers {
		if found, ok := v.at(pointer); ok {
			picked.members = append(picked.members, jsonMember{pointer, found})
		}
	}
	picked.sort()
	return picked
}

// at follows a JSON pointer as the operator #> of Postgres follows a path.
func (v jsonValue) at(pointer string) (jsonValue, bool) {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, step := range strings.Split(pointer[1:], "/") {
		switch v.kind {
		case '{':
			name := unescape.Replace(step)
			i, ok := slices.BinarySearchFunc(v.members, name, func(m jsonMember, name string) int { return compareNames(m.name, name) })
			if !ok {
				return v, false
			}
			v = v.members[i].value
		case '[':
			i, err := strconv.ParseUint(step, 10, 31)
			if err != nil || i >= uint64(len(v.items)) {
				return v, false
			}
			v = v.items[i]
		default:
			return v, false
		}
	}
	return v, true
}

// String is the canonical form.
func (v jsonValue) String() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

func (v jsonValue) write(b *strings.Builder) {
	switch v.kind {
	case '{':
		b.WriteByte('{')
		for i, member := range v.members {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quoteJSON(member.name))
			b.WriteString(": ")
			member.value.write(b)
		}
		b.WriteByte('}')
	case '[':
		b.WriteByte('[')
		for i, item := range v.items {
			if i > 0 {
				b.WriteString(", ")
			}
			item.write(b)
		}
		b.WriteByte(']')
	default:
		b.WriteString(v.scalar)
	}
}

// quoteJSON writes a string as Postgres does: only what must be escaped is.
func quoteJSON(text string) string {
	var b strings.Builder
	b.Grow(len(text) + 2)
	b.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\b':
			b.WriteString(`\b`)
		case c == '\f':
			b.WriteString(`\f`)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// canonicalNumber writes a JSON number as the type numeric does: the point is moved by the exponent, the digits that were written
// behind it stay, zeros too, and zero has no sign.
func canonicalNumber(number string) (string, error) {
	digits, exponent := number, 0
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(number[i+1:]); err != nil {
			return "", fmt.Errorf("exponent: %w", err)
		}
		digits = number[:i]
	}
	digits, negative := strings.CutPrefix(digits, "-")
	integer, fraction, _ := strings.Cut(digits, ".")

	scale := max(len(fraction)-exponent, 0) // digits behind the point
	all, point := integer+fraction, len(integer)+exponent
	if strings.Trim(all, "0") == "" {
		all, point, negative = "", 0, false
	}
	if point < 0 {
		all, point = strings.Repeat("0", -point)+all, 0
	}
	if missing := point + scale - len(all); missing > 0 {
		all += strings.Repeat("0", missing)
	}
	whole := strings.TrimLeft(all[:point], "0")
	if whole == "" {
		whole = "0"
	}
	if scale > 0 {
		whole += "." + all[point:point+scale]
	}
	if negative {
		whole = "-" + whole
	}
	return whole, nil
}
