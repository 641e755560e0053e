package pgqueue

import (
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// staleAgain is how soon a pool may be emptied once more: new connections may have come to a server that is read-only as well, as
// while a failover is under way, or while somebody has made the whole database read-only.
const staleAgain = 2 * time.Second

// staleConnections lets go of connections to a server that was demoted. Such a connection answers every write with 25006 and every
// ping with success, so that a pool would keep it until MaxConnLifetime has passed, an hour by default. It is safe for
// concurrent use.
type staleConnections struct {
	pool   *pgxpool.Pool
	logger *slog.Logger

	mutex  sync.Mutex
	last   time.Time // when the pool was emptied last
	logged time.Time
}

// staleLogEvery is how often emptying the pool is logged.
const staleLogEvery = time.Minute

// refused says that a session of the pool refused to write. All connections of the pool are replaced: those in use when they are
// given back, and until then nobody's work is disturbed.
func (s *staleConnections) refused() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := time.Now()
	if now.Sub(s.last) < staleAgain {
		return
	}
	s.last = now
	if now.Sub(s.logged) >= staleLogEvery {
		s.logged = now
		s.logger.Warn("pgqueue: the database is read-only here; the pool's connections are replaced, in case another server is the primary now")
	}
	s.pool.Reset()
}
