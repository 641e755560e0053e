package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// ErrNotFound is wrapped by the error of [Find] when the machine has no fitting server binaries. The error's text is one
// sentence that says what to install.
var ErrNotFound = errors.New("no PostgreSQL server binaries")

// Binaries are the programs of one PostgreSQL installation.
type Binaries struct {
	// Dir is the directory that holds postgres and initdb, symbolic links resolved.
	Dir string
	// Version is what "postgres --version" prints, for example "postgres (PostgreSQL) 18.4".
	Version string
	// Major is the major version, for example 18.
	Major int
	// Source says where they were found: "named", "path", "package" or "npm".
	Source string
}

func (b Binaries) program(name string) string { return filepath.Join(b.Dir, executable(name)) }

func executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

// Find returns the server binaries to use: those in the named directory, in PATH, in the usual package directories, or of
// the npm package (downloaded when it is not in the cache and npm is in PATH), in this order. The error wraps [ErrNotFound]
// when there are none.
func Find(ctx context.Context, opts Options) (Binaries, error) {
	want, err := opts.version()
	if err != nil {
		return Binaries{}, err
	}
	if dir := opts.binDir(); dir != "" {
		found, err := inspect(ctx, dir, "named")
		if err != nil {
			return Binaries{}, fmt.Errorf("pgserver: the named directory %s holds no usable postgres and initdb: %w", dir, err)
		}
		if found.fits(want) {
			return found, nil
		}
	}
	for _, place := range places() {
		for _, dir := range place.dirs {
			if found, err := inspect(ctx, dir, place.source); err == nil && found.fits(want) {
				return found, nil
			}
		}
		if err := ctx.Err(); err != nil {
			return Binaries{}, fmt.Errorf("pgserver: looking for PostgreSQL: %w", context.Cause(ctx))
		}
	}
	found, err := fromNPM(ctx, opts, want)
	if errors.Is(err, ErrNotFound) {
		return Binaries{}, notFound(want, err)
	}
	return found, err
}

// notFound says in one sentence what to install.
func notFound(want int, why error) error {
	asked := fmt.Sprintf("PostgreSQL %d or newer", OldestVersion)
	if want != 0 {
		asked = fmt.Sprintf("PostgreSQL %d", want)
	}
	return fmt.Errorf("pgserver: %w (%s) found: install the server of %s (Debian: apt-get install postgresql, macOS: brew install "+
		"postgresql), or npm, through which they are fetched where a package for this platform exists, or set %s to the directory "+
		"that holds postgres and initdb", why, asked, asked, EnvBin)
}

func (b Binaries) fits(want int) bool {
	if want == 0 {
		return b.Major >= OldestVersion
	}
	return b.Major == want
}

type place struct {
	source string
	dirs   []string
}

// places lists the directories of an installed server, most wanted first.
func places() []place {
	var path []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) {
			path = append(path, dir)
		}
	}
	return []place{{"path", path}, {"package", packageDirs()}}
}

// packageDirs lists the directories of the system's packages, newest version first within each kind.
func packageDirs() []string {
	var dirs []string
	for _, pattern := range packagePatterns() {
		matches, err := filepath.Glob(pattern) // a pattern of ours is never malformed
		if err != nil {
			continue
		}
		slices.SortStableFunc(matches, func(a, b string) int { return versionInPath(b) - versionInPath(a) })
		dirs = append(dirs, matches...)
	}
	return dirs
}

func packagePatterns() []string {
	switch runtime.GOOS {
	case "windows":
		return []string{filepath.Join(os.Getenv("ProgramFiles"), "PostgreSQL", "*", "bin")}
	case "darwin":
		return []string{
			"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
			"/opt/homebrew/opt/postgresql/bin", "/usr/local/opt/postgresql/bin",
			"/Applications/Postgres.app/Contents/Versions/*/bin", "/Library/PostgreSQL/*/bin",
			"/opt/local/lib/postgresql*/bin",
		}
	default:
		return []string{
			"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
			"/usr/pgsql-*/bin",          // the PostgreSQL project's packages for Red Hat and others
			"/usr/lib/postgresql*/bin",  // SUSE, Gentoo
			"/usr/libexec/postgresql*",  // Alpine
			"/usr/local/pgsql/bin",      // built from source
		}
	}
}

var digits = regexp.MustCompile(`\d+`)

// versionInPath returns the last number in the path of a package directory, which is its version.
func versionInPath(dir string) int {
	all := digits.FindAllString(strings.TrimSuffix(dir, "/bin"), -1)
	if len(all) == 0 {
		return 0
	}
	version, err := strconv.Atoi(all[len(all)-1])
	if err != nil {
		return 0
	}
	return version
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// inspect looks for both programs in dir and asks postgres for its version.
func inspect(ctx context.Context, dir, source string) (Binaries, error) {
	// A link in PATH points at one program; initdb lies beside the program itself.
	postgres, err := filepath.EvalSymlinks(filepath.Join(dir, executable("postgres")))
	if err != nil {
		return Binaries{}, err
	}
	found := Binaries{Dir: filepath.Dir(postgres), Source: source}
	if _, err := os.Stat(found.program("initdb")); err != nil {
		return Binaries{}, err
	}
	cmd := exec.CommandContext(ctx, found.program("postgres"), "--version")
	cmd.Env = serverEnv()
	output, err := cmd.Output()
	if err != nil {
		return Binaries{}, fmt.Errorf("postgres --version: %w", err)
	}
	found.Version = strings.TrimSpace(string(output))
	match := versionText.FindStringSubmatch(found.Version)
	if match == nil {
		return Binaries{}, fmt.Errorf("postgres --version printed %q", found.Version)
	}
	found.Major, err = strconv.Atoi(match[1])
	return found, err
}

// serverEnv is the environment of the server's programs: the caller's without the PG* variables, which would change what
// they do, and with messages in English, which this package reads.
func serverEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "PG") && !strings.HasPrefix(entry, "PGQUEUE_") || strings.HasPrefix(entry, "LC_ALL=")
	})
	return append(env, "LC_ALL=C")
}
