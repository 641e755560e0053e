// Package jsontext writes JSON documents for people. The console and the command line use it; it imports nothing.
package jsontext

import (
	"bytes"
	"encoding/json"
)

// Indent is a JSON document in lines, for people; or as it is, where it is none, or where lines would make much more of it: the blanks
// before a line grow with the depth, so 18 kB of brackets would become 162 MB.
func Indent(value []byte) []byte {
	if indentedSize(value) > 4*len(value)+64<<10 {
		return value
	}
	var lines bytes.Buffer
	if json.Indent(&lines, value, "", "  ") != nil {
		return value
	}
	return lines.Bytes()
}

// indentedSize is about how many bytes a document would have in lines. It reads no more of JSON than where strings begin and end.
func indentedSize(value []byte) int {
	size, depth, inString, escaped := len(value), 0, false, false
	for _, c := range value {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '[' || c == '{':
			depth++
			size += 1 + 2*depth
		case c == ']' || c == '}':
			depth = max(0, depth-1)
			size += 1 + 2*depth
		case c == ',':
			size += 1 + 2*depth
		}
	}
	return size
}
