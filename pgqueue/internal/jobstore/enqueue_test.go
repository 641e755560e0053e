package jobstore

import (
	"strings"
	"testing"
)

func TestArrayLiteral(t *testing.T) {
	t.Parallel()
	for want, values := range map[string][]string{
		`{}`:                      nil,
		`{"a","","NULL"}`:         {"a", "", "NULL"},
		`{"a\"b","\\","{x}","😀"}`: {`a"b`, `\`, `{x}`, "😀"},
	} {
		if got := arrayLiteral(values); got != want {
			t.Errorf("arrayLiteral(%q) = %s, want %s", values, got, want)
		}
	}
}

// A schema's name may hold both kinds of quotes and still be named inside a literal.
func TestSequenceLiteral(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		"pgqueue": `nextval('"pgqueue"."jobs_id_seq"'::regclass)`,
		`o'b"c--`: `nextval('"o''b""c--"."jobs_id_seq"'::regclass)`,
		`a\b`:     `nextval(E'"a\\b"."jobs_id_seq"'::regclass)`,
	} {
		found, err := loadStatements(schema)
		if err != nil {
			t.Fatal(err)
		}
		var produce producerStatements
		if err := produce.load(schema, found); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(produce.enqueue, want) {
			t.Errorf("schema %q: %s is not in the statement", schema, want)
		}
		if strings.Contains(produce.enqueue, "{sequence}") || strings.Contains(produce.enqueue, "{schema}") {
			t.Errorf("schema %q: a placeholder is left", schema)
		}
	}
}
