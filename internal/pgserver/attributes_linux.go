//go:build linux

package pgserver

import (
	"os"
	"syscall"
)

// canEnterClosed says that platformAttributes lets root's server into directories that are closed to its user.
const canEnterClosed = true

// capDACOverride is CAP_DAC_OVERRIDE of capabilities(7).
const capDACOverride = 1

// platformAttributes makes the kernel send SIGINT, a fast shutdown, when the thread that starts the server ends, which is
// when this process ends. With closed, the server keeps root's right to pass through directories such as /root.
func platformAttributes(attr *syscall.SysProcAttr, closed bool) {
	attr.Pdeathsig = syscall.SIGINT
	if closed {
		attr.AmbientCaps = []uintptr{capDACOverride}
	}
}

// sharedMemoryDir is where throwaway clusters live when there is room.
const sharedMemoryDir = "/dev/shm"

// roomInMemory reports whether /dev/shm is a directory with at least least bytes free. Containers often have 64 MB there.
func roomInMemory(least uint64) bool {
	info, err := os.Stat(sharedMemoryDir)
	if err != nil || !info.IsDir() {
		return false
	}
	var stat syscall.Statfs_t
	if err := syscall.Statfs(sharedMemoryDir, &stat); err != nil {
		return false
	}
	return stat.Bavail*uint64(stat.Bsize) >= least
}
