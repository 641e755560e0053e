package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Names inside the directory of a cluster, throwaway or fixed.
const (
	ownerFile  = "owner"        // locked by the process that owns the directory, for as long as it lives
	dataFolder = "data"         // the data directory proper
	logName    = "postgres.log" // what the server writes to stderr
	serverPID  = "server.pid"   // the process id of the running server, for the watchdog
	socketDir  = "socket"       // of a throwaway cluster
)

// throwawayPrefix begins the name of every throwaway directory.
const throwawayPrefix = "pgqueue-postgres-"

// errLocked is returned by lockNow when another process holds the lock.
var errLocked = errors.New("locked by another process")

// lockFile waits for the lock of path, which it creates, and returns the function that releases it.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		if err = lockNow(file); err == nil {
			return func() { file.Close() }, nil
		}
		file.Close()
		if !errors.Is(err, errLocked) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// own marks the new directory dir as this process's. The lock is taken before the file gets its name, so that nobody ever
// sees a living owner's directory unlocked.
func own(dir string) (*os.File, error) {
	path := filepath.Join(dir, ownerFile)
	file, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockNow(file); err != nil {
		file.Close()
		return nil, err
	}
	if err := os.Rename(path+".new", path); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// ownFixed locks a directory that stays, or says that another process has it.
func ownFixed(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, ownerFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockNow(file); err != nil {
		file.Close()
		if errors.Is(err, errLocked) {
			err = fmt.Errorf("another process runs the cluster in %s", dir)
		}
		return nil, err
	}
	return file, nil
}

// removeStale deletes the throwaway directories in parent whose owner is gone and whose server has ended.
func removeStale(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, throwawayPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || !mine(info) {
			continue
		}
		file, err := os.OpenFile(filepath.Join(dir, ownerFile), os.O_RDWR, 0)
		if err != nil {
			continue // being made at this moment, or not ours
		}
		if lockNow(file) == nil && !running(dir) {
			file.Close()
			os.RemoveAll(dir) // what cannot be removed now stays for the next one
			continue
		}
		file.Close()
	}
}

// postmasterFile reads the cluster's postmaster.pid: the process id and, from the file's eighth line, the state, such as
// "starting" or "ready". Without the file the id is 0.
func postmasterFile(dir string) (pid int, state string) {
	content, err := os.ReadFile(filepath.Join(dir, dataFolder, "postmaster.pid"))
	if err != nil {
		return 0, ""
	}
	lines := strings.Split(string(content), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil {
		return 0, ""
	}
	if len(lines) > 7 {
		state = strings.TrimSpace(lines[7])
	}
	return pid, state
}

// running reports whether the server named by postmaster.pid may still be alive. A process id that was given to another
// process since only makes it answer yes.
func running(dir string) bool {
	pid, _ := postmasterFile(dir)
	return pid > 0 && alive(pid)
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
