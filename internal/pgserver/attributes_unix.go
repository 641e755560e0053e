//go:build unix && !linux

package pgserver

import "syscall"

const canEnterClosed = false

func platformAttributes(*syscall.SysProcAttr, bool) {}
