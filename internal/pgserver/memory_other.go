//go:build !linux

package pgserver

const sharedMemoryDir = ""

func roomInMemory(uint64) bool { return false }
