package pgserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// memoryWanted is the room in bytes that /dev/shm must have before a cluster is put there. A fresh one takes 40 MB.
const memoryWanted = 1 << 30

// parentDir returns the directory in which throwaway directories are made.
func parentDir(opts Options, user *account) (string, error) {
	if opts.ParentDir != "" {
		return filepath.Abs(opts.ParentDir)
	}
	if roomInMemory(memoryWanted) && user.enters(sharedMemoryDir) == nil {
		return sharedMemoryDir, nil
	}
	dir := os.TempDir()
	if user.enters(dir) != nil && user.enters("/tmp") == nil {
		return "/tmp", nil
	}
	return filepath.Abs(dir)
}

// home makes the directory of the cluster and takes its lock.
func home(opts Options, user *account) (dir string, owner *os.File, err error) {
	mode := os.FileMode(0o700)
	if user.shares() {
		mode = 0o711 // the server passes through to folders of its own
	}
	if opts.DataDir != "" {
		if dir, err = filepath.Abs(opts.DataDir); err != nil {
			return "", nil, err
		}
		if err := os.MkdirAll(dir, mode); err != nil {
			return "", nil, err
		}
		owner, err = ownFixed(dir)
	} else {
		parent, err := parentDir(opts, user)
		if err != nil {
			return "", nil, err
		}
		removeStale(parent)
		if dir, err = os.MkdirTemp(parent, throwawayPrefix); err != nil {
			return "", nil, err
		}
		if owner, err = own(dir); err != nil {
			os.RemoveAll(dir)
			return "", nil, err
		}
	}
	if err == nil {
		err = os.Chmod(dir, mode)
	}
	return dir, owner, err
}

// clusterVersion returns the major version of the cluster in dir, 0 when there is none yet.
func clusterVersion(dir string) (int, error) {
	content, err := os.ReadFile(filepath.Join(dir, dataFolder, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

// prepare makes the data directory: a copy of one that an earlier process left in the cache, or a new one, which then
// goes into the cache.
func (s *Server) prepare(ctx context.Context, opts Options) error {
	data := filepath.Join(s.dir, dataFolder)
	// An interrupted start must not leave half a data directory that a later start takes for a whole one.
	fresh := filepath.Join(s.dir, dataFolder+".new")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if opts.primary != nil {
		if err := s.copyPrimary(opts.primary, fresh); err != nil {
			return err
		}
		return os.Rename(fresh, data)
	}
	prepared := ""
	if cache, err := cacheDir(opts); err == nil { // without a cache it only takes longer
		prepared = filepath.Join(cache, "clusters", s.clusterKey(opts))
	}
	if prepared == "" || copyTree(prepared, fresh, s.user) != nil {
		if err := os.RemoveAll(fresh); err != nil {
			return err
		}
		if err := s.initdb(ctx, opts, fresh); err != nil {
			return err
		}
		if prepared != "" {
			keepPrepared(fresh, prepared)
		}
	}
	return os.Rename(fresh, data)
}

// initArgs are the arguments of initdb other than the directory. The locale and the encoding are always given: the defaults
// depend on the machine and can be ones that do not work.
func initArgs(opts Options) []string {
	return []string{
		"--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C", "--username=postgres", "--auth=trust",
		"--wal-segsize=" + strconv.Itoa(opts.walSegmentMB()),
	}
}

// clusterKey names everything that a prepared data directory depends on.
func (s *Server) clusterKey(opts Options) string {
	hash := sha256.New()
	fmt.Fprintln(hash, s.binaries.Version, s.binaries.Dir, initArgs(opts))
	if info, err := os.Stat(s.binaries.program("postgres")); err == nil {
		fmt.Fprintln(hash, info.Size(), info.ModTime().UnixNano())
	}
	return strconv.Itoa(s.binaries.Major) + "-" + hex.EncodeToString(hash.Sum(nil)[:8])
}

// initdb makes a new data directory.
func (s *Server) initdb(ctx context.Context, opts Options, data string) error {
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := s.user.give(data); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, s.binaries.program("initdb"), append(initArgs(opts), "--pgdata="+data)...)
	cmd.Env = serverEnv()
	cmd.Dir = filepath.VolumeName(data) + string(filepath.Separator)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	s.user.command(cmd, s.closed)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, lastLines(output.String(), 5))
	}
	file, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	// ALTER SYSTEM still wins: its file is read last.
	_, err = fmt.Fprintf(file, "\ninclude_if_exists = '%s'\n", settingsFile)
	return errors.Join(err, file.Close())
}

// keepPrepared puts a copy of a new data directory into the cache. Failing to is no error: the next start takes longer.
func keepPrepared(fresh, prepared string) {
	if err := os.MkdirAll(filepath.Dir(prepared), 0o755); err != nil {
		return
	}
	scratch, err := os.MkdirTemp(filepath.Dir(prepared), "new-")
	if err != nil {
		return
	}
	defer os.RemoveAll(scratch)
	copied := filepath.Join(scratch, dataFolder)
	if copyTree(fresh, copied, nil) == nil {
		os.Rename(copied, prepared) //nolint:errcheck // somebody else's copy is as good
	}
}

// copyTree copies a data directory and gives every file to the user.
func copyTree(from, to string, user *account) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case entry.IsDir():
			err = os.Mkdir(target, 0o700)
		case entry.Type().IsRegular():
			err = copyFile(path, target)
		default:
			err = fmt.Errorf("%s is neither a file nor a directory", path)
		}
		if err != nil {
			return err
		}
		return user.give(target)
	})
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = target.ReadFrom(source)
	return errors.Join(err, target.Close())
}
