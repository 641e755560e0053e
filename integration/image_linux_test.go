package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// inEmptyImage is a command whose root directory holds nothing but its binary, where we may do that.
func inEmptyImage(image, binary string) *exec.Cmd {
	if os.Geteuid() != 0 {
		return exec.Command(binary)
	}
	cmd := exec.Command("/" + filepath.Base(binary))
	cmd.Err = nil // it is looked up in the new root
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image}
	cmd.Dir = "/"
	return cmd
}
