//go:build !unix

package pgserver

import (
	"os"
	"os/exec"
	"path/filepath"
)

// lockNow does nothing: without flock, processes that fetch the same archive do the work twice, and the last rename fails.
func lockNow(*os.File) error { return nil }

// mine answers no, so that no directory is ever taken for stale: without flock nobody can tell.
func mine(os.FileInfo) bool { return false }

// alive answers yes: the caller then waits for the server's own answer.
func alive(int) bool { return true }

// interrupt asks the server for a fast shutdown. There are no signals here; pg_ctl knows how to send the server's own.
func (s *Server) interrupt(*os.Process) error { return s.pgCtl("fast") }

// crash asks the server for an immediate shutdown, after which the next start goes through recovery.
func (s *Server) crash(*os.Process) error { return s.pgCtl("immediate") }

func (s *Server) pgCtl(mode string) error {
	cmd := exec.Command(s.binaries.program("pg_ctl"), "stop", "-W", "-m", mode, "-D", filepath.Join(s.dir, dataFolder))
	cmd.Env = serverEnv()
	return cmd.Run()
}

// account is the user that servers run as; always the caller here.
type account struct{}

func serverUser() (*account, error)  { return nil, nil }
func (*account) enters(string) error { return nil }
func (*account) give(string) error   { return nil }

const canEnterClosed = false

func (*account) command(*exec.Cmd, bool) {}
func (*account) shares() bool            { return false }

type watchdog struct{}

// watch does nothing on this system: an owner that ends without Stop leaves its server behind.
func watch(string, bool) (*watchdog, error) { return &watchdog{}, nil }
func (*watchdog) release()                  {}
