package pgqueue

import (
	"bytes"
	"encoding/base64"
)

// envelopeReader reads envelopes as Postgres and this package write them, with fewer allocations than encoding/json, which is asked where it
// gives up: about an escape, or a member that it does not know.
type envelopeReader struct {
	text []byte
	at   int
}

// read reads an envelope and what it stands in.
func (r *envelopeReader) read() (found *envelope, ok bool) {
	r.at = len(envelopeStart)
	found = &envelope{}
	if !r.sign('{') {
		return nil, false
	}
	var seen struct{ key, data, codec bool } // of two members with one name the last one would count
	for more := true; more; more = r.sign(',') {
		name, ok := r.string()
		if !ok || !r.sign(':') {
			return nil, false
		}
		switch {
		case string(name) == "key" && !seen.key:
			value, ok := r.string()
			if !ok {
				return nil, false
			}
			found.Key, seen.key = string(value), true
		case string(name) == "data" && !seen.data:
			value, ok := r.string()
			if !ok {
				return nil, false
			}
			data, err := base64.StdEncoding.AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(value))), value)
			if err != nil {
				return nil, false
			}
			found.Data, seen.data = data, true
		case string(name) == "codec" && !seen.codec:
			if found.Codec, ok = r.list(); !ok {
				return nil, false
			}
			seen.codec = true
		default:
			return nil, false
		}
	}
	for range 2 { // of the envelope, and of what it stands in
		if !r.sign('}') {
			return nil, false
		}
	}
	r.space()
	return found, r.at == len(r.text)
}

// list reads a list of strings that has at least one.
func (r *envelopeReader) list() (values []string, ok bool) {
	if !r.sign('[') {
		return nil, false
	}
	values = make([]string, 0, 2)
	for more := true; more; more = r.sign(',') {
		value, ok := r.string()
		if !ok {
			return nil, false
		}
		values = append(values, string(value))
	}
	return values, r.sign(']')
}

// string reads a string in which nothing is escaped.
func (r *envelopeReader) string() (value []byte, ok bool) {
	if !r.sign('"') {
		return nil, false
	}
	length := bytes.IndexByte(r.text[r.at:], '"')
	if length < 0 {
		return nil, false
	}
	value = r.text[r.at : r.at+length]
	r.at += length + 1
	for _, c := range value {
		if c == '\\' || c < ' ' || c > '~' {
			return nil, false
		}
	}
	return value, true
}

// sign passes a sign, and the space in front of it; false if another one stands there.
func (r *envelopeReader) sign(c byte) bool {
	r.space()
	if r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

func (r *envelopeReader) space() {
	for r.at < len(r.text) && r.text[r.at] == ' ' {
		r.at++
	}
}
