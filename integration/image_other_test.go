//go:build !linux

package integration

import "os/exec"

// inEmptyImage is a command; only Linux takes the rest of the file system away from it.
func inEmptyImage(_, binary string) *exec.Cmd { return exec.Command(binary) }
