package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// TestReadmeShowsThisProgram keeps the README's quickstart the program that the other test runs.
func TestReadmeShowsThisProgram(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(source), "\npackage main\n")
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if block := "```go\npackage main\n" + program + "```\n"; !strings.Contains(string(readme), block) {
		t.Errorf("README.md does not hold examples/quickstart/main.go as its quickstart; it should be:\n%s", block)
	}
}

// TestQuickstart runs the program on an empty database, as a newcomer does, and interrupts it.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
	binary := filepath.Join(t.TempDir(), "quickstart")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	program := exec.Command(binary)
	program.Env = append(os.Environ(), "DATABASE_URL="+db.URL)
	var stderr strings.Builder
	program.Stderr = &stderr
	stdout, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	patience := time.AfterFunc(time.Minute, func() { _ = program.Process.Kill() })
	defer patience.Stop()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "welcome, user 42\n" {
		t.Errorf("it printed %q (%v)", line, err)
	}
	if err := program.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err != nil {
		t.Errorf("after an interrupt: %v\n%s", err, stderr.String())
	}
	var succeeded int
	if err := db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM pgqueue.history WHERE state = 'succeeded'").Scan(&succeeded); err != nil {
		t.Fatal(err)
	}
	if succeeded != 1 {
		t.Errorf("%d jobs succeeded, want 1", succeeded)
	}
}
