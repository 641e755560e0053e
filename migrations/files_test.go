package migrations_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pgqueue/pgqueue/migrations"
)

// allFiles is what FS has to hold.
var allFiles = []string{"0001_core.up.sql", "0001_core.down.sql", "0002_control.up.sql", "0002_control.down.sql",
	"0003_seeing.up.sql", "0003_seeing.down.sql"}

func TestFS_IsAFileSystemOfPlainSQL(t *testing.T) {
	for _, schema := range append(oddSchemas(), "") {
		files, err := migrations.FS(schema)
		if err != nil {
			t.Fatalf("%q: %v", schema, err)
		}
		if err := fstest.TestFS(files, allFiles...); err != nil {
			t.Errorf("%q: %v", schema, err)
		}
	}
	for _, name := range allFiles {
		text, err := templateText(name)
		if err != nil {
			t.Fatal(err)
		}
		if left := regexp.MustCompile(`\{[a-z_]+\}`).FindString(text); left != "" {
			t.Errorf("%s: the placeholder %s was not replaced", name, left)
		}
	}
}

// A line comment with a placeholder would end at a line break in the schema's name.
func TestTemplates_HaveNoPlaceholderInAComment(t *testing.T) {
	names, err := filepath.Glob("sql/*.sql")
	if err != nil || len(names) != 2*migrations.Latest {
		t.Fatalf("%d files, %v; want an up and a down for each of %d versions", len(names), err, migrations.Latest)
	}
	bad := regexp.MustCompile(`--.*\{[a-z_]+\}|(?i)^\s*(begin|commit)\s*;`)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for number, line := range strings.Split(string(text), "\n") {
			if bad.MatchString(line) {
				t.Errorf("%s:%d: %s", name, number+1, line)
			}
		}
	}
}

func TestWriteFiles_ReplacesOursAndLeavesOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "er")
	for _, schema := range []string{"first", "second"} {
		if err := migrations.WriteFiles(dir, schema); err != nil {
			t.Fatal(err)
		}
		files, err := migrations.FS(schema)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range allFiles {
			want, err := fs.ReadFile(files, name)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != string(want) {
				t.Errorf("%s of schema %s differs (%v)", name, schema, err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "theirs.sql"), []byte("theirs"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "theirs.sql")); err != nil || string(got) != "theirs" {
		t.Errorf("a foreign file became %q, %v", got, err)
	}
	if err := migrations.WriteFiles(dir, "pg_mine"); err == nil {
		t.Error("a bad schema was accepted")
	}
}

func TestValidateSchema(t *testing.T) {
	for _, schema := range append(oddSchemas(), "public", "pgqueue", "pg", "PG_upper") {
		if err := migrations.ValidateSchema(schema); err != nil {
			t.Errorf("%q: %v", schema, err)
		}
	}
	for schema, want := range map[string]string{
		"": "empty", "a\x00b": "NUL", "\xc3\x28": "UTF-8", strings.Repeat("ü", 32): "63 bytes, not 64", "pg_temp": "pg_", "information_schema": "Postgres",
	} {
		err := migrations.ValidateSchema(schema)
		var bad *migrations.SchemaError
		if !errors.As(err, &bad) || bad.Schema != schema || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something with %q", schema, err, want)
		}
	}
}

func TestChannel_IsShortAndDiffersBySchema(t *testing.T) {
	long := strings.Repeat("n", 55)
	for schema, want := range map[string]string{
		"": "pgqueue", "pgqueue": "pgqueue", "jobs": "pgqueue:jobs", "pgqueue:jobs": "pgqueue:pgqueue:jobs", long: "pgqueue:" + long,
	} {
		if got := migrations.Channel(schema); got != want {
			t.Errorf("channel of %q: %q, want %q", schema, got, want)
		}
	}
	seen := map[string]string{}
	for _, schema := range append(oddSchemas(), "pgqueue", long+"n", long+"m", strings.Repeat("n", 62)+"m") {
		channel := migrations.Channel(schema)
		if len(channel) > 63 {
			t.Errorf("channel of %q has %d bytes", schema, len(channel))
		}
		if other, taken := seen[channel]; taken {
			t.Errorf("%q and %q share the channel %q", schema, other, channel)
		}
		seen[channel] = schema
	}
}
