package pgqueuetest

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// claim says to the other processes on this server that this one lives, and drops the databases of those that do not. The
// evidence is an advisory lock on a connection that stays open until the process ends: the server releases it then. Advisory
// locks belong to a database, which is why its number is part of the names.
func (s *source) claim(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, s.config.Copy())
	if err != nil {
		return err
	}
	// The lock comes before the first database with this name, so that nobody ever sees one without it. A server that ends idle
	// sessions would end the claim.
	_, err = conn.Exec(ctx, "SET idle_session_timeout = 0")
	if err == nil {
		_, err = conn.Exec(ctx, "SELECT pg_catalog.pg_advisory_lock($1)", lockKey(s.mine))
	}
	if err == nil {
		err = s.sweep(ctx)
	}
	if err != nil {
		conn.Close(ctx) // it is of no use
		return fmt.Errorf("claiming a name: %w", err)
	}
	s.claimed = conn
	return nil
}

// sweep drops the databases of processes that have ended. One that cannot be dropped now is no reason to fail this process's
// tests; the next process tries again.
func (s *source) sweep(ctx context.Context) error {
	return s.do(ctx, func(conn *pgx.Conn) error {
		// Only those that the role owns; a database of somebody else's is not touched whatever its name is.
		rows, err := conn.Query(ctx, `SELECT datname FROM pg_catalog.pg_database
			WHERE starts_with(datname, $1) AND pg_catalog.pg_has_role(datdba, 'MEMBER') ORDER BY datname`, s.home)
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, name := range names {
			if owner, ok := ownerOf(name, s.home); ok && owner != s.mine {
				_ = dropOrphan(ctx, conn, owner, name) // see above
			}
		}
		return ctx.Err()
	})
}

// dropOrphan drops the database unless its process lives or another one is just dropping it.
func dropOrphan(ctx context.Context, conn *pgx.Conn, owner, name string) error {
	var dead bool
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_try_advisory_lock($1)", lockKey(owner)).Scan(&dead); err != nil || !dead {
		return err
	}
	// Another process may have dropped it since the list was read, and has released the lock again.
	var exists bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = $1)", name).Scan(&exists)
	if err == nil && exists {
		err = drop(ctx, conn, name)
	}
	if _, unlockErr := conn.Exec(ctx, "SELECT pg_catalog.pg_advisory_unlock($1)", lockKey(owner)); err == nil {
		err = unlockErr
	}
	return err
}

// ownerOf returns the part of a database's name that all databases of the same process share.
func ownerOf(name, home string) (string, bool) {
	rest, ok := strings.CutPrefix(name, home)
	if !ok {
		return "", false
	}
	process, _, ok := strings.Cut(rest, "_")
	return home + process + "_", ok
}

// lockKey is the advisory lock of a process.
func lockKey(owner string) int64 {
	hash := fnv.New64a()
	hash.Write([]byte(owner)) // never fails
	return int64(hash.Sum64())
}
