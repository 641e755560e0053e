//go:build !unix

package pgserver

func watchdogPID(*Server) int { return 0 }
