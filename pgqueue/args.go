package pgqueue

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Args are the arguments of one kind of job: a type of yours that encoding/json can write and read.
//
//	type SendWelcome struct {
//		UserID int64 `json:"user_id"`
//	}
//
//	func (SendWelcome) Kind() string { return "send_welcome" }
//
// Kind names the kind and must be the same for all values of a type that is given to Handle; it is called on the zero
// value too. It is stored with each job, so it should outlive renames of the Go type. At most 128 bytes.
//
// The payload is what json.Marshal makes of the value. Integers keep all their digits. "No arguments" is stored as {}
// however it is written: a nil pointer, the JSON null, an empty struct and an empty [Raw] are the same, and a handler
// receives the zero value for them. Postgres stores it as jsonb, which keeps no white space, no order of members and
// only the last of two members of one name.
type Args interface {
	Kind() string
}

// DefaultOptions may be implemented by [Args] to give options to every job of the type, ahead of those of the single
// call: an option of the call wins over the same option here, and WithRunAt and WithDelay replace each other.
type DefaultOptions interface {
	// EnqueueOptions is called on the value that is enqueued, so a key may be made from it.
	EnqueueOptions() []EnqueueOption
}

// Raw are arguments whose kind and payload are known at run time only: forwarded from elsewhere, or written by hand.
type Raw struct {
	Name    string          // the kind
	Payload json.RawMessage // any JSON value; empty and null are stored as {}
}

// Kind returns Name.
func (r Raw) Kind() string { return r.Name }

// emptyObject is the canonical form of "nothing", of payloads and of metadata.
const emptyObject = "{}"

// resolveArgs replaces a nil pointer by a pointer to the zero value, so that methods with a value receiver can be
// called on it; zero says that it did. A nil interface is refused.
func resolveArgs(args Args) (resolved Args, zero bool, err *ValidationError) {
	if args == nil {
		return nil, false, invalid("args", "must not be nil")
	}
	v := reflect.ValueOf(args)
	if v.Kind() != reflect.Pointer || !v.IsNil() {
		return args, false, nil
	}
	resolved, ok := reflect.New(v.Type().Elem()).Interface().(Args)
	if !ok {
		// A pointer of a named type cannot have methods, so the type of a nil Args pointer is always *T.
		return nil, false, invalid("args", "must not be a nil "+v.Type().String())
	}
	return resolved, true, nil
}

// encodePayload writes args as the JSON that is stored, checked against all that Postgres refuses.
func encodePayload(args Args, zero bool, limit int) (json.RawMessage, *ValidationError) {
	const field = "payload"
	if zero {
		return json.RawMessage(emptyObject), nil
	}
	switch raw := args.(type) {
	case Raw:
		return rawJSON(field, raw.Payload, limit)
	case *Raw:
		return rawJSON(field, raw.Payload, limit)
	}
	return encodeJSON(field, args, limit)
}

// encodeJSON is json.Marshal with the checks of checkJSON. The result is never JSON null.
func encodeJSON(field string, value any, limit int) (json.RawMessage, *ValidationError) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, &ValidationError{Field: field, Message: "cannot be written as JSON: " + err.Error(), cause: err}
	}
	if err := checkJSON(field, text, limit, value); err != nil {
		return nil, err
	}
	return canonical(text), nil
}

// rawJSON checks JSON that was written elsewhere. The result is never empty or JSON null.
func rawJSON(field string, text json.RawMessage, limit int) (json.RawMessage, *ValidationError) {
	text = bytes.Trim(text, " \t\r\n") // white space in the sense of JSON
	if len(text) == 0 {
		return json.RawMessage(emptyObject), nil
	}
	if len(text) > limit {
		return nil, tooLarge(field, len(text), limit)
	}
	if !json.Valid(text) {
		// Valid is cheaper and says only no; the decoder says why.
		err := json.Unmarshal(text, new(json.RawMessage))
		message := "is not JSON"
		if err != nil {
			message += ": " + err.Error()
		}
		return nil, &ValidationError{Field: field, Message: message, cause: err}
	}
	if err := checkJSON(field, text, limit, nil); err != nil {
		return nil, err
	}
	return canonical(text), nil
}

// canonical gives JSON null the form in which "nothing" is stored.
func canonical(text json.RawMessage) json.RawMessage {
	if string(text) == "null" {
		return json.RawMessage(emptyObject)
	}
	return text
}
