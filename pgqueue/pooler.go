package pgqueue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What a pooler between the program and Postgres says no to, and what helps.
const (
	noPreparedStatements = "prepared statements do not survive between two transactions, as through a pooler in transaction mode: " +
		"set default_query_exec_mode=exec in the connection string, or have the pooler keep them (PgBouncer from 1.21 on: max_prepared_statements)"
	noStartupParameter = "the pooler refuses a setting that connections are started with: take it out of the connection string and use " +
		"ALTER ROLE … SET, or name it in the pooler's ignore_startup_parameters"
	noTransactions = "the pooler allows no transactions, as PgBouncer does with pool_mode=statement: use transaction or session"
)

// poolerError says so where an error of Postgres, or of a pooler in its place, means that the connection goes through a pooler and
// expects what that one does not do. The words that both send for it name statements and protocols, but never the cause.
func poolerError(err error) error {
	if errors.Is(err, ErrPooler) {
		return err
	}
	code, message := serverError(err)
	switch {
	case code == "26000", // the statement was prepared in a session that now serves somebody else
		code == "42P05", // somebody else has prepared one of that name here
		code == "08P01" && strings.Contains(message, "bind message supplies"): // the unnamed one is somebody else's
		return fmt.Errorf("%w: %s: %w", ErrPooler, noPreparedStatements, err)
	case code == "08P01" && strings.Contains(message, "startup parameter"):
		return fmt.Errorf("%w: %s: %w", ErrPooler, noStartupParameter, err)
	case code == "08P01" && strings.Contains(message, "statement pooling mode"):
		return fmt.Errorf("%w: %s: %w", ErrPooler, noTransactions, err)
	}
	return err
}

// poolerPatience bounds checkPooler: a pooler with a single session cannot give a second one.
const poolerPatience = 3 * time.Second

// checkPooler returns an error when pool goes through a pooler that does not keep the prepared statements which its mode of pgx
// needs. Such a pooler often works while there is little to do, because the same session is at hand again each time, and fails
// under load: so this asks for proof. It costs a statement, and nothing where the mode needs no session.
//
// It asks once for a pool. It is no proof of the opposite: what goes wrong later, poolerError explains.
func (c *Client) checkPooler(ctx context.Context, pool *pgxpool.Pool) error {
	if c.checked.Load() == pool {
		return nil
	}
	err := provePooler(ctx, pool)
	if err == nil {
		c.checked.Store(pool)
	}
	return err
}

func provePooler(ctx context.Context, pool *pgxpool.Pool) error {
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
	pair := &sessionPair{}
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

// backendPID asks for the process that serves conn. It goes below pgx, which refuses simple queries under some settings.
func backendPID(ctx context.Context, conn *pgx.Conn) (uint32, error) {
	results, err := conn.PgConn().Exec(ctx, "SELECT pg_backend_pid()").ReadAll()
	if err != nil {
		return 0, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 1 {
		return 0, errors.New("pg_backend_pid() gave no row")
	}
	pid, err := strconv.ParseUint(string(results[0].Rows[0][0]), 10, 32)
	return uint32(pid), err
}

// sessionPair are two clients of a pooler. What one prepares in a session, it misses when the other has taken that session.
type sessionPair struct {
	ours, other *pgx.Conn
}

func (p *sessionPair) close(ctx context.Context) {
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
func (p *sessionPair) moved(ctx context.Context, mode pgx.QueryExecMode) error {
	statement := "pgqueue_pooler_" + rand.Text() // an earlier check has left its own in some session
	if _, err := beginOn(ctx, p.other); err != nil {
		return err
	}
	prepared, err := beginOn(ctx, p.ours)
	if err != nil {
		return err
	}
	if _, err := p.ours.Prepare(ctx, statement, "SELECT 1"); err != nil {
		return poolerError(err)
	}
	if err := simply(ctx, p.other, "COMMIT"); err != nil {
		return err
	}
	for range 4 { // somebody else may be quicker
		// Where the session that was freed last is given out next, the other client gets it now. Where they are given out in turn,
		// it gets it after a few.
		if err := simply(ctx, p.ours, "COMMIT"); err != nil {
			return err
		}
		if err := p.take(ctx, prepared); err != nil {
			return err
		}
		now, err := beginOn(ctx, p.ours)
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

// take has the other client begin a transaction in this session, if that is given to it within a few tries, or else end in none.
func (p *sessionPair) take(ctx context.Context, session uint32) error {
	for range 3 {
		got, err := beginOn(ctx, p.other)
		if err != nil || got == session {
			return err
		}
		if err := simply(ctx, p.other, "COMMIT"); err != nil {
			return err
		}
	}
	return nil
}

// beginOn begins a transaction and says in which session.
func beginOn(ctx context.Context, conn *pgx.Conn) (uint32, error) {
	if err := simply(ctx, conn, "BEGIN"); err != nil {
		return 0, err
	}
	return backendPID(ctx, conn)
}

func simply(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}
