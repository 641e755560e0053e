package pgserver

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// settingsFile is read by the cluster's postgresql.conf and written at each Start.
const settingsFile = "pgserver.conf"

// settings are the server settings of opts other than the port and the addresses.
func settings(opts Options) map[string]string {
	connections := opts.MaxConnections
	if connections == 0 {
		connections = 200
	}
	all := map[string]string{
		"max_connections": strconv.Itoa(connections),
		"fsync":           "on",
		// Segments of POSIX shared memory stay in /dev/shm when the server is killed; files in the data directory do not.
		"dynamic_shared_memory_type": "mmap",
		"logging_collector":          "off",
		"log_destination":            "stderr",
		"log_line_prefix":            "%m [%p] %q%u@%d/%a ",
		"timezone":                   "UTC",
		"log_timezone":               "UTC",
	}
	if opts.DataDir == "" {
		all["max_wal_size"] = "256MB" // a throwaway cluster may live in memory
	}
	if !opts.Fsync {
		all["fsync"] = "off"
		all["full_page_writes"] = "off"
	}
	if opts.primary != nil {
		all["primary_conninfo"] = primaryConninfo(opts.primary)
		all["hot_standby"] = "on"
		all["wal_retrieve_retry_interval"] = "100ms" // the primary starts after its standby
	}
	maps.Copy(all, opts.Settings)
	return all
}

// writeSettings writes the settings where postgresql.conf includes them.
func (s *Server) writeSettings(opts Options) error {
	all := settings(opts)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.ContainsAny(name+all[name], "\n\r\x00") {
			return fmt.Errorf("setting %q contains a line break or NUL", name)
		}
		quoted := strings.NewReplacer(`'`, `''`, `\`, `\\`).Replace(all[name])
		fmt.Fprintf(&text, "%s = '%s'\n", name, quoted)
	}
	path := filepath.Join(s.dir, dataFolder, settingsFile)
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return err
	}
	return s.user.give(path)
}
