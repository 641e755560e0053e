package main

import (
	"errors"
	"strings"
	"testing"
)

// Tables are aligned by characters, end no line with blanks, and let nothing through that a terminal obeys.
func TestTables(t *testing.T) {
	t.Parallel()
	a, _ := newApp(t)
	var out lockedBuffer
	a.out = &out
	if err := a.writeTable([]string{"ID", "KIND", "NOTE"}, [][]string{{"1", "grüße", ""}, {"22", "a\tb\n\x1b[31mred\u202e", "x"}, {"3"}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 4 || lines[1] != "1   grüße" || lines[3] != "3" {
		t.Fatalf("%q", lines)
	}
	if strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "\u202e") || strings.Contains(out.String(), "\t") {
		t.Errorf("%q", out.String())
	}
	if at := strings.Index(lines[0], "NOTE"); strings.TrimSpace(lines[2][at:]) != "x" {
		t.Errorf("not aligned:\n%s", out.String())
	}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	a, _ := newApp(t)
	var out lockedBuffer
	a.out = &out
	if err := a.writeFacts([][2]string{{"state", "dead"}, {"none", ""}, {"payload", "{\n  \"a\": 1\n}\x1b"}}); err != nil {
		t.Fatal(err)
	}
	if want := "state    dead\npayload  {\n           \"a\": 1\n         }\\x1b\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// A full disk under a redirected output is no success.
func TestAFailedWriteIsAnError(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"migrate", "sql"}, {"doctor", "checks"}, {"doctor", "checks", "--json"}, {"completion", "bash"}} {
		c := newCLI(t, nil)
		var written lockedBuffer
		if code := run(t.Context(), args, streams{in: strings.NewReader(""), out: full{}, err: &written}, c.lookup); code != exitFailed || !strings.Contains(written.String(), "no space left") {
			t.Errorf("%q: exit code %d, %s", args, code, written.String())
		}
	}
}

// full is a device without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
