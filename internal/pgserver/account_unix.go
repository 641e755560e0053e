//go:build unix

package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that root's servers run as. A nil account means that the caller itself is fit to run them.
type account struct {
	name     string
	uid, gid uint32
}

// serverUser returns nil, or for root, which Postgres refuses, the user postgres or nobody.
func serverUser() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil || uid == 0 {
			continue
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("pgserver: PostgreSQL refuses to run as root, and there is neither a user postgres nor a user nobody")
}

// enters returns an error naming the directory that keeps the account from reaching path, nil when it can, or when the
// caller itself runs the server. What does not exist yet does not count.
func (a *account) enters(path string) error {
	if a == nil {
		return nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	for dir := path; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() && !a.mayEnter(info) {
			return fmt.Errorf("the user %s, which runs root's server, may not enter %s", a.name, dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func (a *account) mayEnter(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	switch mode := info.Mode().Perm(); {
	case stat.Uid == a.uid:
		return mode&0o100 != 0
	case stat.Gid == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// give hands the file to the account.
func (a *account) give(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// shares reports whether the server's user differs from the caller, so that both must get into the directory.
func (a *account) shares() bool { return a != nil }

// command prepares a program of the server to run as the account. closed says that the account may not enter a directory
// above the cluster by itself.
func (a *account) command(cmd *exec.Cmd, closed bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	platformAttributes(cmd.SysProcAttr, closed)
}
