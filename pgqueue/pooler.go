package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What a pooler between the program and Postgres says no to, and what helps.
const (
	noPreparedStatements = "prepared statements do not survive between two transactions, as through a pooler in transaction mode: " +
		"set default_query_exec_mode=exec in the connection string, or have the pooler keep them (PgBouncer from 1.21 on: max_prepared_statements)"
	noStartupParameter = "the pooler refuses a setting that connections are started with: take it out of the connection string and use " +
		"ALTER ROLE … SET, or name it in the pooler's ignore_startup_parameters"
)

// poolerError says so where an error of Postgres, or of a pooler in its place, means that the connection goes through a pooler and
// expects what that one does not do. The words that both send for it name statements and protocols, but never the cause.
func poolerError(err error) error {
	if errors.Is(err, ErrPooler) {
		return err
	}
	var fromServer *pgconn.PgError
	if !errors.As(err, &fromServer) {
		return err
	}
	switch {
	case fromServer.Code == "26000", // the statement was prepared in a session that now serves somebody else
		fromServer.Code == "42P05": // somebody else has prepared one of that name here
		return fmt.Errorf("%w: %s: %w", ErrPooler, noPreparedStatements, err)
	case fromServer.Code == "08P01" && strings.Contains(fromServer.Message, "startup parameter"):
		return fmt.Errorf("%w: %s: %w", ErrPooler, noStartupParameter, err)
	}
	return err
}

// poolerPatience bounds checkPooler: a pooler with a single session cannot give a second one.
const poolerPatience = 3 * time.Second

// checkPooler returns an error when pool goes through a pooler that does not keep the prepared statements which its mode of pgx
// needs. Such a pooler often works while there is little to do, because the same session is at hand again each time, and fails
// under load: so this asks for proof. It costs a statement, and nothing where the mode needs no session.
//
// It is no proof of the opposite: what goes wrong later, poolerError explains.
func checkPooler(ctx context.Context, pool *pgxpool.Pool) error {
	mode := pool.Config().ConnConfig.DefaultQueryExecMode
	if mode != pgx.QueryExecModeCacheStatement && mode != pgx.QueryExecModeDescribeExec {
		return nil
	}
	var pooled bool
	err := pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		pid, err := backendPID(ctx, conn.Conn())
		// A pooler makes up what it tells its clients at the start.
		pooled = pid != conn.Conn().PgConn().PID()
		return err
	})
	if err != nil || !pooled {
		return poolerError(err)
	}
	// Connections beside the pool's, which may have but one.
	ctx, cancel := context.WithTimeout(ctx, poolerPatience)
	defer cancel()
	pair := sessionPair{}
	defer pair.close(ctx)
	for _, conn := range []**pgx.Conn{&pair.ours, &pair.other} {
		if *conn, err = connectLike(ctx, pool); err != nil {
			return nil // no proof
		}
	}
	if err := pair.moved(ctx, mode); errors.Is(err, ErrPooler) {
		return err
	}
	return nil
}

func backendPID(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}

// sessionPair are two clients of a pooler. What one prepares in a session, it misses when the other has taken that session.
type sessionPair struct {
	ours, other *pgx.Conn
}

func (p sessionPair) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), poolerPatience)
	defer cancel()
	for _, conn := range []*pgx.Conn{p.ours, p.other} {
		if conn != nil {
			// A client that leaves in a transaction costs the pooler a session.
			_ = simply(ctx, conn, "ROLLBACK")
			_ = conn.Close(ctx)
		}
	}
}

// moved prepares a statement in one session and has it executed in another, if the pooler changes sessions between transactions.
func (p sessionPair) moved(ctx context.Context, mode pgx.QueryExecMode) error {
	const statement = "pgqueue_pooler_check"
	if err := simply(ctx, p.other, "BEGIN"); err != nil {
		return err
	}
	if err := simply(ctx, p.ours, "BEGIN"); err != nil {
		return err
	}
	prepared, err := backendPID(ctx, p.ours)
	if err != nil {
		return err
	}
	if _, err := p.ours.Prepare(ctx, statement, "SELECT 1"); err != nil {
		return poolerError(err)
	}
	// Poolers give out either the session that was freed last or the one that was freed first. In one of the two orders the other
	// client gets ours.
	for _, order := range [][2]*pgx.Conn{{p.other, p.ours}, {p.ours, p.other}} {
		for _, conn := range order {
			if err := simply(ctx, conn, "COMMIT"); err != nil {
				return err
			}
		}
		for _, conn := range []*pgx.Conn{p.other, p.ours} {
			if err := simply(ctx, conn, "BEGIN"); err != nil {
				return err
			}
		}
		now, err := backendPID(ctx, p.ours)
		if err != nil {
			return err
		}
		if now == prepared {
			continue
		}
		if mode == pgx.QueryExecModeDescribeExec { // it describes in one transaction and executes in the next
			return fmt.Errorf("%w: mode describe_exec: %s", ErrPooler, noPreparedStatements)
		}
		_, err = p.ours.Exec(ctx, statement)
		return poolerError(err)
	}
	return nil
}

func simply(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}
