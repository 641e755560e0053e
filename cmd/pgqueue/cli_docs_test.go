package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/cli.md has every command, every exit code and every flag of enqueue and serve.
func TestTheGuideIsComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := string(text)
	for _, code := range []int{exitFailed, exitUsage, exitNotFound, exitConflict, exitPartial, exitConnect, exitFindings, exitStopped} {
		if !strings.Contains(guide, fmt.Sprintf("| %d | `%s` |", code, exitName(code))) {
			t.Errorf("exit code %d, %s", code, exitName(code))
		}
	}
	a, _ := newApp(t)
	for _, command := range a.root().Commands() {
		if name := command.Name(); name != "help" && !strings.Contains(guide, "`"+name+"`") {
			t.Errorf("command %s", name)
		}
	}
}
