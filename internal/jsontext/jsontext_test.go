package jsontext

import (
	"strings"
	"testing"
)

func TestIndentationIsBounded(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":[1,{"b":"{,[\\\""}]}`: "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"{,[\\\\\\\"\"\n    }\n  ]\n}",
		`[]`:                        "[]",
		`no JSON`:                   "no JSON",
	} {
		if got := string(Indent([]byte(text))); got != want {
			t.Errorf("%s in lines is %q, want %q", text, got, want)
		}
	}
	for _, deep := range []string{
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		strings.Repeat(`{"a":`, 3500) + "1" + strings.Repeat("}", 3500),
	} {
		if got := Indent([]byte(deep)); len(got) > 5*len(deep)+64<<10 {
			t.Errorf("%d bytes become %d", len(deep), len(got))
		}
	}
}
