package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// TestMain lets the test binary be its own worker process, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workerCommand {
		os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// runCommand runs the program in this process, with a database of its own unless url names one, and returns the exit
// code, what it printed, and the last line of that.
func runCommand(t *testing.T, url string, args ...string) (code int, output, last string) {
	t.Helper()
	t.Setenv("DATABASE_URL", url)
	var stdout, stderr bytes.Buffer
	code = command(args, strings.NewReader(""), &stdout, &stderr)
	lines := strings.Split(strings.TrimRight(stdout.String(), "\n"), "\n")
	return code, stdout.String() + stderr.String(), lines[len(lines)-1]
}

// writeTree writes files below a new folder and returns it.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		writeFile(t, root, name, content)
	}
	return root
}

func writeFile(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestBadInputEndsWithOneClearLine(t *testing.T) {
	empty := t.TempDir()
	file := filepath.Join(writeTree(t, map[string]string{"a.go": "package a\n"}), "a.go")
	good := writeTree(t, map[string]string{"a.go": "package a\n"})
	database := pgqueuetest.New(t).URL
	for _, test := range []struct {
		name string
		url  string
		args []string
		want []string // parts of the last line
	}{
		{"no such folder", database, []string{"-root", filepath.Join(empty, "missing")}, []string{"find the root", "missing", "-root"}},
		{"the root is a file", database, []string{"-root", file}, []string{"is not a folder"}},
		{"no Go files", database, []string{"-root", empty}, []string{"no Go files below"}},
		{"nobody listens", "postgres://postgres@127.0.0.1:1/postgres", []string{"-root", good}, []string{"connect to the database", "127.0.0.1"}},
		{"no URL", "postgres://%zz", []string{"-root", good}, []string{"read DATABASE_URL"}},
		{"the data folder is a file", "", []string{"-root", good, "-data", file}, []string{"start a Postgres in", "a.go", "DATABASE_URL"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, output, last := runCommand(t, test.url, test.args...)
			if code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			for _, part := range append(test.want, "demo failed: ") {
				if !strings.Contains(last, part) {
					t.Errorf("the last line lacks %q:\n%s", part, output)
				}
			}
		})
	}
}

func TestBadPasswordIsNotPrinted(t *testing.T) {
	root := writeTree(t, map[string]string{"a.go": "package a\n"})
	for _, url := range []string{
		"postgres://somebody:hunter2@127.0.0.1:1/postgres",
		"postgres://somebody:hunter2@127.0.0.1:port/postgres",
	} {
		if _, output, _ := runCommand(t, url, "-root", root); strings.Contains(output, "hunter2") {
			t.Errorf("the password was printed:\n%s", output)
		}
	}
}

func TestGorootWithoutSourceIsNamed(t *testing.T) {
	goroot := t.TempDir()
	t.Setenv("GOROOT", goroot)
	t.Setenv("INDEXER_ROOT", "")
	code, output, last := runCommand(t, "postgres://127.0.0.1:1/postgres")
	if code != 1 || !strings.Contains(last, filepath.Join(goroot, "src")) || !strings.Contains(last, "standard library") {
		t.Errorf("exit code %d:\n%s", code, output)
	}
}

func TestUnknownArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-nonsense"}, {"nonsense"}, {"serve", "nonsense"}} {
		code, output, _ := runCommand(t, "", args...)
		if code != 2 || !strings.Contains(output, "nonsense") || !strings.Contains(output, "usage") {
			t.Errorf("%q: exit code %d:\n%s", args, code, output)
		}
	}
}

func TestRepositoryRootIsFoundFromBelow(t *testing.T) {
	root := writeTree(t, map[string]string{
		"go.mod":                   ownModule + "\n\ngo 1.26.0\n",
		"examples/go.mod":          ownModule + "/examples\n",
		"examples/indexer/main.go": "package main\n",
	})
	got, err := repositoryRoot(filepath.Join(root, "examples", "indexer"))
	if err != nil || got != root {
		t.Errorf("got %q, %v; want %q", got, err, root)
	}
	if _, err := repositoryRoot(t.TempDir()); err == nil || !strings.Contains(err.Error(), "-data") {
		t.Errorf("outside a clone: got %v, want an error that says what to do", err)
	}
}
