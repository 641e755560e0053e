package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// decodeImport decodes a line and says what is wrong with it without quoting it.
func decodeImport(line []byte) (*importLine, error) {
	record := &importLine{}
	err := json.Unmarshal(line, record)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, fmt.Errorf("it is not JSON: look at byte %d", syntax.Offset)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return nil, errors.New("it is not a JSON object")
		}
		// The path begins with the name of the struct that the members are in.
		return nil, fmt.Errorf("%s is not %s", visible(strings.TrimPrefix(wrong.Field, "jobRecord.")), jsonWord(wrong.Type))
	}
	if err != nil {
		return nil, errors.New("one of its times is not in RFC 3339")
	}
	return record, checkMembers(line)
}

// checkMembers refuses members that no job has, and those that are there twice, of which a reader would take one and a writer mean the other.
func checkMembers(line []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}
	known, seen := importMembers(), map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		name, ok := token.(string)
		switch {
		case err != nil || !ok:
			return errors.New("it is not a JSON object")
		case !known[name]:
			return fmt.Errorf("it has a member %q that no job has", visible(name))
		case seen[name]:
			return fmt.Errorf("it has the member %q twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return errors.New("it is not a JSON object")
		}
	}
	return nil
}

// jsonWord is what JSON calls a type.
func jsonWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number in range"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// importMembers are the members that a line may have. Those that only an export has are read and not used.
func importMembers() map[string]bool {
	known := map[string]bool{}
	for _, name := range []string{
		"id", "state", "queue", "kind", "key", "revision", "priority", "tags", "run_at", "created_at", "claimed_at", "lease_expires_at", "finished_at",
		"claimed_by", "cancel_wanted", "attempt", "generation", "version", "failures", "max_attempts", "error_count", "payload", "metadata", "result",
		"attempts", "progress", "sealed", "cut", "why_not_running", "import_id",
	} {
		known[name] = true
	}
	return known
}
