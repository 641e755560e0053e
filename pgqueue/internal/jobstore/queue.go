package jobstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/reaper"
	"github.com/pgqueue/pgqueue/runner"
)

// QueueConfig says what one consumer of one queue does. The zero value of each optional field is its default.
type QueueConfig struct {
	Name     string   // the queue; required
	WorkerID string   // stored in claimed_by and in errors, for people; required
	Kinds    []string // the kinds that are claimed; nil = any

	// Only, with QueueTx, has claims begin at this job.
	Only *One

	// Poll is how often the owner looks for work when nothing wakes it, one second by default. Full scans of the
	// ready index, where they are dear, are at least so far apart.
	Poll time.Duration
	// Margin is how far a start mark stays behind the database's clock, one second by default: a job whose transaction
	// was open for longer than this may wait for the next full scan.
	Margin time.Duration

	KeepHistory   time.Duration // how long succeeded and cancelled jobs are kept; 7 days by default
	KeepAttention time.Duration // how long failed and dead jobs are kept; 90 days by default
	KeepAudit     time.Duration // how long the audit log is kept; a year by default

	Logger *slog.Logger // nil = slog.Default()

	// Seal encodes the message of a failed attempt for storage. Nil: it is stored as it is.
	Seal func(ctx context.Context, kind, message string) string

	// Ends is told which jobs have ended. Nil tells nobody.
	Ends Ends

	// Returning is told of attempts whose handlers have said how far they are, see [Row.SetReported], before they are written as
	// failed, snoozed or released: behind that, others may claim the job. It has a third of the time that there is for the
	// verdicts. Nil tells nobody.
	Returning func(ctx context.Context, rows []*Row)

	// ReadOnly is told when a session of the pool refused to write, as that of a demoted server does. Nil tells nobody.
	ReadOnly func()
}

// Queue is the consumer's side of one queue in the jobs table: a [runner.Queue] that renews, schedules and can be
// reaped. It is safe for concurrent use, and holds no connection between calls.
type Queue struct {
	sql    *consumerStatements
	pool   *pgxpool.Pool
	tx     pgx.Tx // set by QueueTx, which has no pool
	config QueueConfig
	log    *slog.Logger

	// fresh holds the mode in which our statements are planned anew each time, or nothing where the pool's own mode
	// does that. A plan that was kept since the table was empty costs 70 ms where a new one costs 0.2 ms.
	fresh []any
	// explicit: a session here does not run in READ COMMITTED by itself. See do.
	explicit atomic.Bool

	single          *singleStatements
	progressRefused atomic.Bool // logged

	marks marks
	holds holds
	all   string // the key of config.Kinds in marks
	reap  reapState

	keysRefused atomic.Bool // that expired unique keys are not deleted was said

	auditSQL     *auditStatements
	auditRefused atomic.Bool // that the audit log keeps growing was said
}

var (
	_ runner.Queue[*Row, json.RawMessage] = (*Queue)(nil)
	_ runner.Renewer                      = (*Queue)(nil)
	_ runner.Scheduler                    = (*Queue)(nil)
	_ runner.KindPauser                   = (*Queue)(nil)
	_ reaper.Recoverer                    = (*Queue)(nil)
	_ reaper.Maintainer                   = (*Queue)(nil)
	_ reaper.Pinger                       = (*Queue)(nil)
)

// Queue makes the consumer's side of one queue over pool. It sends nothing yet.
func (s *Store) Queue(pool *pgxpool.Pool, config QueueConfig) (*Queue, error) {
	if pool == nil {
		return nil, errors.New("jobstore: Queue without a pool")
	}
	q, err := s.queue(config)
	if err != nil {
		return nil, err
	}
	q.pool, q.fresh = pool, freshMode(pool.Config().ConnConfig)
	return q, nil
}

// queue makes a queue that has nothing to run on yet.
func (s *Store) queue(config QueueConfig) (*Queue, error) {
	switch {
	case config.Name == "":
		return nil, errors.New("jobstore: Queue without a name")
	case config.WorkerID == "":
		return nil, errors.New("jobstore: Queue without a worker's name")
	case config.Kinds != nil && len(config.Kinds) == 0:
		return nil, errors.New("jobstore: Queue without kinds: nothing could ever be claimed")
	}
	config.Kinds = slices.Clone(config.Kinds)
	config.Poll = withDefault(config.Poll, time.Second)
	config.Margin = withDefault(config.Margin, time.Second)
	config.KeepHistory = withDefault(config.KeepHistory, 7*24*time.Hour)
	config.KeepAttention = withDefault(config.KeepAttention, 90*24*time.Hour)
	config.KeepAudit = withDefault(config.KeepAudit, 365*24*time.Hour)
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return &Queue{
		sql:    &s.sql,
		single: &s.single, auditSQL: &s.audit,
		config: config,
		log:    config.Logger.With("queue", config.Name),
		marks:  marks{poll: config.Poll, longest: max(longestGap, config.Poll), margin: config.Margin, cheap: cheapScan},
		all:    scanKey(config.Kinds, allClasses()),
		reap:   reapState{from: beginning().runAt},
	}, nil
}

const (
	cheapScan  = 5 * time.Millisecond // full scans below this run at every claim, but for a backlog
	longestGap = 30 * time.Second     // full scans are never further apart, however dear
)

func withDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// session is what our statements run on: the pool, or a transaction of ours.
type session interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// do runs statements in READ COMMITTED, whatever the role's default is. A pool's session is taken to be there already,
// which costs nothing. Where it is not, our statements are as correct, but may fail with 40001 (nothing was changed
// then); the first such failure tells, and from then on they run in transactions of their own. fn may run twice.
func (q *Queue) do(ctx context.Context, fn func(session) error) error {
	err := q.attempt(ctx, fn)
	if q.config.ReadOnly != nil && sqlState(err) == "25006" {
		q.config.ReadOnly()
	}
	return err
}

func (q *Queue) attempt(ctx context.Context, fn func(session) error) error {
	if q.tx != nil {
		return pgx.BeginFunc(ctx, q.tx, func(savepoint pgx.Tx) error { return fn(savepoint) })
	}
	if !q.explicit.Load() {
		err := fn(q.pool)
		if sqlState(err) != "40001" {
			return err
		}
		q.explicit.Store(true)
		q.log.InfoContext(ctx, "pgqueue: sessions are not READ COMMITTED by default, using transactions")
	}
	return pgx.BeginTxFunc(ctx, q.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { return fn(tx) })
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

// statement puts in front of args what makes pgx plan the statement anew.
func (q *Queue) statement(args ...any) []any { return slices.Concat(q.fresh, args) }

// batch begins a batch. pgx takes no mode for a batch, so the server is asked to plan its statements anew. The batch is one
// implicit transaction, the setting ends with it, and set_config, unlike SET LOCAL, does not warn about that.
func (q *Queue) batch() *pgx.Batch {
	batch := &pgx.Batch{}
	if q.fresh != nil {
		batch.Queue(`SELECT pg_catalog.set_config('plan_cache_mode', 'force_custom_plan', true)`)
	}
	return batch
}

// sqlState is the SQLSTATE of err, or "".
func sqlState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// wrap names the queue and what was done in an error.
func (q *Queue) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s of queue %q: %w", doing, q.config.Name, err)
}
