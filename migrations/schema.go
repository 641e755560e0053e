package migrations

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// DefaultSchema is the schema that is meant where none is named.
const DefaultSchema = "pgqueue"

// maxNameBytes is the longest identifier Postgres stores, and the longest channel NOTIFY takes. Longer identifiers are cut silently.
const maxNameBytes = 63

// SchemaError says that a schema name cannot be used.
type SchemaError struct {
	// Schema is the name as it was given.
	Schema string
	// Message says what is wrong with it.
	Message string
}

// Error names the schema and what is wrong with it.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("schema %q: %s", e.Schema, e.Message)
}

// ValidateSchema says whether a schema name can be used: it must be valid UTF-8 of 1 to 63 bytes without a NUL, and none of the
// names that belong to Postgres (pg_…, information_schema). Anything else goes, quotes, dots, blanks and key words included: names
// are always quoted. The error is a [*SchemaError].
//
// Unlike the functions that apply something, it does not take the empty name for the default.
func ValidateSchema(schema string) error {
	switch {
	case schema == "":
		return &SchemaError{Schema: schema, Message: "must not be empty"}
	case !utf8.ValidString(schema):
		return &SchemaError{Schema: schema, Message: "must be valid UTF-8"}
	case strings.ContainsRune(schema, 0):
		return &SchemaError{Schema: schema, Message: "must not contain a NUL"}
	case len(schema) > maxNameBytes:
		return &SchemaError{Schema: schema, Message: fmt.Sprintf("must have at most %d bytes, not %d", maxNameBytes, len(schema))}
	case strings.HasPrefix(schema, "pg_"):
		return &SchemaError{Schema: schema, Message: "names that begin with pg_ belong to Postgres"}
	case schema == "information_schema":
		return &SchemaError{Schema: schema, Message: "this schema belongs to Postgres"}
	}
	return nil
}

// Channel is the NOTIFY channel on which the hints of a schema are sent: "pgqueue" for the default schema (and for the empty name),
// "pgqueue:" and the schema's name for others, and a hash instead of the name where that would exceed the 63 bytes of a channel.
func Channel(schema string) string { return channelOf(DefaultSchema, schema) }

// ControlChannel is the NOTIFY channel on which workers are told what concerns single jobs, such as a cancellation: that of [Channel]
// with "pgqueue!control" in place of "pgqueue".
func ControlChannel(schema string) string { return channelOf(DefaultSchema+"!control", schema) }

func channelOf(prefix, schema string) string {
	if schema == "" || schema == DefaultSchema {
		return prefix
	}
	channel := prefix + ":" + schema
	if len(channel) <= maxNameBytes {
		return channel
	}
	sum := sha256.Sum256([]byte(schema))
	return prefix + ":" + hex.EncodeToString(sum[:16])
}

// schemaOrDefault resolves the empty name and checks the result.
func schemaOrDefault(schema string) (string, error) {
	if schema == "" {
		return DefaultSchema, nil
	}
	if err := ValidateSchema(schema); err != nil {
		return "", fmt.Errorf("migrations: %w", err)
	}
	return schema, nil
}
