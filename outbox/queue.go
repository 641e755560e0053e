package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/lazytx"
	"github.com/pgqueue/pgqueue/reaper"
	"github.com/pgqueue/pgqueue/runner"
)

// Queue is a table of the application's as a [runner.Queue]: it claims and reports, knows when the next row is due
// ([runner.Scheduler]) and takes back stale claims ([reaper.Recoverer]). Where the table has a column for the lease,
// [Queue.Renewing] is a [runner.Renewer] as well. It is safe for concurrent use, and holds no connection between calls.
type Queue[P, R any] struct {
	table  Table[P, R]
	config Config
	pool   *pgxpool.Pool
	log    *slog.Logger
	full   string // the table's name, for tokens and errors
	sql    map[string]*Statement
	encode func(R) (string, error)
	kinds  []string // that are claimed, aliases included; nil means any

	// fresh holds the mode in which our statements are planned anew each time, or nothing where the pool's own mode does
	// that. A plan that was kept since the table was empty costs hundreds of times what a new one does.
	fresh []any
	// explicit: a session here does not run in READ COMMITTED by itself. See do.
	explicit atomic.Bool

	mark      mark
	held      heldRows
	suspended suspects
	open      lazytx.Slots
	counts    counters

	complaints complaints
	inTxs      atomic.Bool // HandleTx has made a handler for it
}

var (
	_ runner.Queue[int, int] = (*Queue[int, int])(nil)
	_ runner.Scheduler       = (*Queue[int, int])(nil)
	_ reaper.Recoverer       = (*Queue[int, int])(nil)
	_ reaper.Pinger          = (*Queue[int, int])(nil)
	_ runner.Renewer         = (*Renewing[int, int])(nil)
)

// New makes a queue of a table. It sends nothing: call [Queue.Check] to compare the description with the database. What is
// wrong with the description or the configuration by itself is a [*ConfigError].
func New[P, R any](pool *pgxpool.Pool, table Table[P, R], config Config) (*Queue[P, R], error) {
	if pool == nil {
		return nil, refuse("pool", "must not be nil")
	}
	if err := table.check(); err != nil {
		return nil, err
	}
	config, err := config.resolve(table.Name, table.LeaseUntil != "")
	if err != nil {
		return nil, err
	}
	if config.Kinds != nil && table.Kind == "" {
		return nil, refuse("Kinds", "needs Table.Kind")
	}
	if config.Classes != nil && table.Priority == "" {
		return nil, refuse("Classes", "needs Table.Priority")
	}
	q := &Queue[P, R]{
		table: table, config: config, pool: pool, log: config.Logger.With("queue", config.Name), full: table.Name.plain(),
		encode: table.Encode, fresh: freshMode(pool.Config().ConnConfig), open: lazytx.NewSlots(pool.Config().MaxConns),
	}
	if q.encode == nil {
		q.encode = encodeDefault[R](table.Result.Type)
	}
	for _, k := range config.Kinds {
		q.kinds = append(append(q.kinds, k.Name), k.Aliases...)
	}
	if q.sql, err = render(table.names()); err != nil {
		return nil, err
	}
	// What else is wrong with the engine's part of the configuration is told now and not when a worker is made.
	_, err = runner.New(q.Engine(), runner.HandlerFunc[P, R](func(context.Context, *runner.Task[P]) (none R, err error) { return none, nil }),
		q.RunnerConfig())
	var wrong *runner.ConfigError
	if errors.As(err, &wrong) {
		return nil, refuse(wrong.Field, "%s", wrong.Message)
	}
	return q, err
}

// plain is the name for people.
func (n Name) plain() string {
	if len(n) == 1 {
		return n[0]
	}
	return n[0] + "." + n[1]
}

// Renewing is a [Queue] over a table with a column for the lease. See [Queue.Renewing].
type Renewing[P, R any] struct{ *Queue[P, R] }

// Renewing returns the queue as one that renews leases; ok is false where the description names no column for them.
func (q *Queue[P, R]) Renewing() (renewing *Renewing[P, R], ok bool) {
	if q.table.LeaseUntil == "" {
		return nil, false
	}
	return &Renewing[P, R]{q}, true
}

// Engine is the queue with everything that it can do, for [runner.New]: the [Renewing] one where there is a column for the lease.
func (q *Queue[P, R]) Engine() runner.Queue[P, R] {
	if renewing, ok := q.Renewing(); ok {
		return renewing
	}
	return q
}

// RunnerConfig is the queue's configuration as that of a runner, for who calls [runner.New] instead of [NewWorker].
func (q *Queue[P, R]) RunnerConfig() runner.Config { return q.config.runnerConfig() }

// SQL returns every statement that the queue sends, in alphabetic order, for review. Those of [Queue.Check] are not among
// them: they read the catalog.
func (q *Queue[P, R]) SQL() []Statement {
	var all []Statement
	for _, s := range q.sql {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Statement) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all
}

// session is what our statements run on.
type session interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// do runs a statement in READ COMMITTED, whatever the role's default is. A pool's session is taken to be there already, which
// costs nothing. Where it is not, our statements are as correct, but may fail with 40001 (nothing was changed then); the
// first such failure tells, and from then on they run in transactions of their own. read may be called twice.
func (q *Queue[P, R]) do(ctx context.Context, name string, given args, read func(pgx.Rows) error) error {
	s := q.sql[name]
	values := slices.Concat(q.fresh, s.values(given))
	run := func(on session) error {
		rows, err := on.Query(ctx, s.SQL, values...)
		if err != nil {
			return err
		}
		defer rows.Close()
		if err := read(rows); err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	}
	if !q.explicit.Load() {
		err := run(q.pool)
		if sqlState(err) != "40001" {
			return err
		}
		q.explicit.Store(true)
		q.log.InfoContext(ctx, "outbox: sessions are not READ COMMITTED by default, using transactions")
	}
	return pgx.BeginTxFunc(ctx, q.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { return run(tx) })
}

// freshMode is the argument that makes pgx plan a statement anew on a connection that would keep its plan by default. All
// other modes do so by themselves, and are left to the application, whose pooler may want them.
func freshMode(config *pgx.ConnConfig) []any {
	switch {
	case config.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement:
		return nil
	case config.DescriptionCacheCapacity == 0:
		return []any{pgx.QueryExecModeDescribeExec}
	default:
		return []any{pgx.QueryExecModeCacheDescribe}
	}
}

// sqlState is the SQLSTATE of err, or "".
func sqlState(err error) string {
	var fromServer *pgconn.PgError
	if errors.As(err, &fromServer) {
		return fromServer.Code
	}
	return ""
}

// wrap names the table and what was done in an error.
func (q *Queue[P, R]) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("outbox: %s of %s: %w", doing, q.full, err)
}
