//go:build unix

package pgserver

import (
	"errors"
	"os"
	"syscall"
)

// lockNow takes the file's lock, which the kernel releases when the process ends, or returns errLocked.
func lockNow(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// mine reports whether the file belongs to the user of this process.
func mine(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// alive reports whether a process with this id exists, whoever owns it.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// interrupt asks the server for a fast shutdown: connections are ended, transactions rolled back, a checkpoint is written.
func (s *Server) interrupt(process *os.Process) error { return process.Signal(syscall.SIGINT) }

// crash asks the server for an immediate shutdown, after which the next start goes through recovery.
func (s *Server) crash(process *os.Process) error { return process.Signal(syscall.SIGQUIT) }
