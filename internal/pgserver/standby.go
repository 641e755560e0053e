package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// StandbyName is the name by which a standby of StartStandby replicates: application_name in pg_stat_replication, and what
// synchronous_standby_names takes.
const StandbyName = "standby"

// StartStandby starts a streaming standby of the server and returns when it takes connections that read. The server is halted
// meanwhile, because its data directory is copied, and is running again, on its port, when the standby has started. It keeps WAL for a
// standby that lags only if wal_keep_size is among the settings of its own options.
//
// The standby is a server like any other: promote it with SELECT pg_promote(), and stop both. Of opts, DataDir must be empty.
func (s *Server) StartStandby(ctx context.Context, opts Options) (*Server, error) {
	if opts.DataDir != "" {
		return nil, errors.New("pgserver: a standby with a DataDir is not supported")
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.stopped {
		return nil, ErrStopped
	}
	if err := s.halt(ctx, false); err != nil {
		return nil, fmt.Errorf("pgserver: %w", err)
	}
	opts.primary, opts.BinDir, opts.Version = s, s.binaries.Dir, 0
	// The standby waits for its primary, so it must not be waited for here before the primary is back; it asks again every few seconds.
	standby, err := Start(ctx, opts)
	return standby, errors.Join(err, s.resume(ctx))
}

// copyPrimary makes the data directory of a standby out of that of its halted primary.
func (s *Server) copyPrimary(primary *Server, data string) error {
	if err := copyTree(filepath.Join(primary.dir, dataFolder), data, s.user); err != nil {
		return fmt.Errorf("copy the primary: %w", err)
	}
	signal := filepath.Join(data, "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return err
	}
	return s.user.give(signal)
}

// primaryConninfo is how the standby reaches its primary.
func primaryConninfo(primary *Server) string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=%s", primary.port, StandbyName)
}
