package pgqueue

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// The stored form of an encoded value is an envelope: a JSON object whose only member is $pgqueue. Postgres writes jsonb with the
// shortest member first, so what comes from there begins with envelopeStart; so do messages, which are text.
const (
	envelopeMember = "$pgqueue"
	envelopeStart  = `{"` + envelopeMember + `":`

	maxCodecs    = 8 // of one value
	maxCodecName = 32
	maxKeyName   = 128
)

// envelope is what stands in the member.
type envelope struct {
	Codec []string `json:"codec"` // in the order in which they were applied
	Key   string   `json:"key"`   // of those, the one that has keys
	Data  []byte   `json:"data"`
}

// isEnvelope tells whether a stored value, as Postgres writes it, may be an envelope. It is asked of every payload.
func isEnvelope[T ~[]byte | ~string](stored T) bool {
	return len(stored) > len(envelopeStart) && string(stored[:len(envelopeStart)]) == envelopeStart
}

// bytes writes the envelope.
func (e *envelope) bytes() []byte {
	size := len(envelopeStart) + 32 + len(e.Key) + base64.StdEncoding.EncodedLen(len(e.Data))
	for _, name := range e.Codec {
		size += len(name) + 3
	}
	text := append(make([]byte, 0, size), envelopeStart...)
	text = append(text, `{"codec":[`...)
	for i, name := range e.Codec {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, '"'), name...), '"') // the names were checked
	}
	text = append(text, ']')
	if e.Key != "" {
		text = append(append(append(text, `,"key":"`...), e.Key...), '"')
	}
	text = append(text, `,"data":"`...)
	text = base64.StdEncoding.AppendEncode(text, e.Data)
	return append(text, `"}}`...)
}

// parseEnvelope reads a stored value that isEnvelope. It is none if it has more members than the one.
func parseEnvelope(stored []byte) (found *envelope, err error) {
	reader := envelopeReader{text: stored}
	found, ok := reader.read()
	if !ok {
		var outer map[string]json.RawMessage
		if err := json.Unmarshal(stored, &outer); err != nil {
			return nil, errMalformed
		}
		if len(outer) != 1 {
			return nil, nil //nolint:nilnil // none, and no error
		}
		found = &envelope{}
		if err := json.Unmarshal(outer[envelopeMember], found); err != nil {
			return nil, errMalformed
		}
	}
	if len(found.Codec) == 0 || len(found.Codec) > maxCodecs || !validKeyName(found.Key) {
		return nil, errMalformed
	}
	for _, name := range found.Codec {
		if !validCodecName(name) {
			return nil, errMalformed
		}
	}
	return found, nil
}

// envelopeHead reads what it can of an envelope of which only the beginning is at hand: jsonb puts the key's name first, and the data
// before the codecs' names.
func envelopeHead(beginning string) (names []string, key string) {
	decoder := json.NewDecoder(strings.NewReader(beginning))
	member := ""
	list := false
	for depth := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			return names, key
		}
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '{':
				depth++
			case '[':
				list = depth == 2 && member == "codec"
				depth++
			default:
				depth, list, member = depth-1, false, ""
			}
		case string:
			switch {
			case list && len(names) < maxCodecs:
				names = append(names, token)
			case depth == 2 && member == "":
				member = token
			case depth == 2:
				if member == "key" {
					key = token
				}
				member = ""
			}
		default:
			member = ""
		}
	}
}

// reserved refuses JSON that would be taken for an envelope when it is read back: an object with a member $pgqueue, however that
// is spelt. text was validated. It costs one or two searches for bytes that are rare.
func reserved(field string, text []byte) *ValidationError {
	if len(text) == 0 || text[0] != '{' || !bytes.Contains(text, []byte(envelopeMember)) && !escapes(text) {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if _, err := decoder.Token(); err != nil {
		return nil // not JSON: refused elsewhere
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil
		}
		if name == envelopeMember {
			return invalid(field+"."+envelopeMember, "is a name that pgqueue keeps for encoded values")
		}
		var skipped json.RawMessage
		if decoder.Decode(&skipped) != nil {
			return nil
		}
	}
	return nil
}

// escapes tells whether a character of $pgqueue may be written as an escape in text.
func escapes(text []byte) bool {
	for {
		at := bytes.Index(text, []byte(`\u00`))
		if at < 0 || at+6 > len(text) {
			return false
		}
		switch high, low := text[at+4], text[at+5]; {
		case high == '2' && low == '4', high == '6' && (low == '5' || low == '7'), high == '7' && (low == '0' || low == '1' || low == '5'):
			return true
		}
		text = text[at+6:]
	}
}

// validKeyName tells whether a key's name, which may be empty, can be stored, and shown to people, as it is.
func validKeyName(name string) bool {
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return len(name) <= maxKeyName
}

func validCodecName(name string) bool {
	if name == "" || len(name) > maxCodecName {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
