package integration

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the process when the thread that started it ends, even one that is stopped and
// cannot notice the end of its input.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
