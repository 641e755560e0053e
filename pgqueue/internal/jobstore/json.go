package jobstore

import (
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// storable tells whether Postgres takes text as jsonb: valid JSON, in UTF-8, without \u0000 and without half a surrogate
// pair. What it misses, such as a number out of range, is found when the statement fails.
func storable(text string) bool {
	if !json.Valid([]byte(text)) || !utf8.ValidString(text) {
		return false
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++ // valid JSON has something behind a backslash, and four digits behind a u
		if text[i] != 'u' {
			continue
		}
		unit := escaped(text[i+1:])
		i += 4
		switch {
		case unit == 0:
			return false
		case !utf16.IsSurrogate(unit):
		case len(text) < i+7 || text[i+1] != '\\' || text[i+2] != 'u',
			utf16.DecodeRune(unit, escaped(text[i+3:])) == utf8.RuneError:
			return false
		default:
			i += 6
		}
	}
	return true
}

// escaped reads the four hexadecimal digits at the start of text.
func escaped(text string) rune {
	value, err := strconv.ParseUint(text[:4], 16, 32)
	if err != nil {
		return 0
	}
	return rune(value)
}
