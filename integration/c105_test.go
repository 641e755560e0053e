package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A static binary in an image without time-zone data: the right times, or an error, and never UTC by accident.
func TestC105_ZonesAreKnownInAnEmptyImage(t *testing.T) {
	t.Parallel()
	image := t.TempDir()
	if err := os.Chmod(image, 0o755); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(image, "zones")
	build := exec.Command("go", "build", "-o", binary, "./testdata/zones")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	// Where the kernel lets us, nothing but the binary is there; elsewhere at least no variable leads to data.
	run := inEmptyImage(image, binary)
	run.Env = []string{"ZONEINFO=/nonexistent"}
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	if err := run.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	got := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	want := []string{
		"2026-03-28T01:30:00Z", // 02:30, UTC+1
		"2026-03-29T01:00:00Z", // the gap from 02:00 to 03:00 ends
		"2026-03-30T00:30:00Z", // 02:30, UTC+2
		"Europe/Copenhagen: <nil>",
	}
	for i, line := range want {
		if i >= len(got) || got[i] != line {
			t.Fatalf("it says %q, want %q", got, want)
		}
	}
	if last := got[len(got)-1]; !strings.HasPrefix(last, "Mars/Base: new scheduler: schedules[0].time_zone") {
		t.Errorf("it says %q", last)
	}
}
