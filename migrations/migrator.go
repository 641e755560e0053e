package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
)

const (
	// lockTimeout is how long a step may wait for a table: all other sessions queue behind it meanwhile.
	lockTimeout = 500 * time.Millisecond
	// The pause before another try grows from retryMin to retryMax.
	retryMin = 20 * time.Millisecond
	retryMax = 2 * time.Second
	// rollbackTimeout bounds the rollback after the caller's context has ended.
	rollbackTimeout = 5 * time.Second
)

// errBusy says that a try found another migrator at work.
var errBusy = errors.New("another process is migrating this schema")

// migrator is one call of Up, Down or Status.
type migrator struct {
	db          Database
	schema      string
	files       fs.FS
	latest      uint
	probe       func(version uint) string
	logger      *slog.Logger
	discardJobs bool
	// What the transaction under way has done so far; logged when it is committed.
	applied, removed []uint
}

// probe is the condition, in SQL with the schema as $1, that holds exactly while a version is applied. It resolves the dirty flag that
// the golang-migrate command line leaves behind when it is killed: every step is one transaction, so it is done or it is not.
func probe(version uint) string {
	switch version {
	case 1:
		return `(SELECT count(*) = 4 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		         WHERE n.nspname = $1::text AND c.relkind IN ('r', 'p') AND c.relname IN ('jobs', 'history', 'history_attention', 'queues'))
		        AND
		        (SELECT count(DISTINCT p.proname) = 4 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
		         WHERE n.nspname = $1::text AND p.proname IN ('enqueue', 'ensure_history', 'drop_history', 'expire_attention'))`
	case 2:
		return `(SELECT count(DISTINCT p.proname) = 5 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
		         WHERE n.nspname = $1::text AND p.proname IN ('pause', 'resume', 'retry', 'cancel', 'set_max_attempts'))`
	case 3:
		return `(SELECT count(*) = 2 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		         WHERE n.nspname = $1::text AND c.relkind = 'r' AND c.relname IN ('workers', 'stats_cache'))
		        AND
		        (SELECT count(DISTINCT p.proname) = 4 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
		         WHERE n.nspname = $1::text AND p.proname IN ('heartbeat', 'goodbye', 'cached_stats', 'why_not_running'))`
	case 4:
		return `(SELECT count(*) = 5 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		         WHERE n.nspname = $1::text AND c.relkind = 'r'
		           AND c.relname IN ('paused_kinds', 'job_progress', 'unique_keys', 'schedules', 'schedule_ticks'))
		        AND
		        (SELECT count(DISTINCT p.proname) = 7 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
		         WHERE n.nspname = $1::text AND p.proname IN ('pause_until', 'pause_kind', 'resume_kind', 'reschedule', 'edit_payload',
		                                                      'enqueue_unique', 'expire_unique_keys'))`
	case 5:
		return `(SELECT count(*) = 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		         WHERE n.nspname = $1::text AND c.relkind = 'r' AND c.relname = 'audit')
		        AND
		        (SELECT count(DISTINCT p.proname) = 2 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
		         WHERE n.nspname = $1::text AND p.proname IN ('record_action', 'expire_audit'))`
	default:
		return `false`
	}
}

// status reads the version in a transaction of its own.
func (m *migrator) status(ctx context.Context) (State, error) {
	tx, err := m.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly})
	if err != nil {
		return State{Latest: m.latest}, fmt.Errorf("begin: %w", err)
	}
	defer rollback(ctx, tx)
	return m.stateIn(ctx, tx)
}

// stateIn reads the version in a transaction.
func (m *migrator) stateIn(ctx context.Context, tx pgx.Tx) (state State, err error) {
	state.Latest = m.latest
	state.Exists, err = m.hasVersionTable(ctx, tx)
	if err != nil || !state.Exists {
		return state, err
	}
	version, dirty, err := m.driver(ctx, tx).Version()
	if err != nil {
		return state, err
	}
	state.Version, state.Dirty = asVersion(version), dirty
	return state, nil
}

// up applies what is missing, one transaction after the other.
func (m *migrator) up(ctx context.Context) error {
	// Most calls find nothing to do; they need no lock and no right to write.
	state, err := m.status(ctx)
	if err != nil {
		return fmt.Errorf("migrations: up of schema %q: %w", m.schema, err)
	}
	for done := state.Current(); !done; {
		done, err = m.retry(ctx, m.stepUp)
		if err != nil {
			return fmt.Errorf("migrations: up of schema %q: %w", m.schema, asConflict(m.schema, err))
		}
	}
	return nil
}

// down removes all versions, and the version table with the last one, in one transaction: what is refused in an early version, because
// others have built upon it, must not cost them the later ones.
func (m *migrator) down(ctx context.Context) error {
	state, err := m.status(ctx)
	if err != nil {
		return fmt.Errorf("migrations: down of schema %q: %w", m.schema, err)
	}
	if !state.Exists {
		return nil
	}
	if _, err := m.retry(ctx, m.stepsDown); err != nil {
		return fmt.Errorf("migrations: down of schema %q: %w", m.schema, asConflict(m.schema, err))
	}
	return nil
}

// stepsDown takes every step down in one transaction.
func (m *migrator) stepsDown(ctx context.Context, tx pgx.Tx) (done bool, err error) {
	for !done && err == nil {
		done, err = m.stepDown(ctx, tx)
	}
	return done, err
}

// stepUp applies the next version; done means that there is none. A first installation is one step for all versions: nobody works with the
// tables yet whom a long transaction could disturb, and a name that a late version finds taken must not leave the early ones behind.
func (m *migrator) stepUp(ctx context.Context, tx pgx.Tx) (done bool, err error) {
	if err := m.createSchema(ctx, tx); err != nil {
		return false, err
	}
	if err := m.createVersionTable(ctx, tx); err != nil {
		return false, err
	}
	d := m.driver(ctx, tx)
	version, err := m.version(ctx, tx, d)
	if err != nil {
		return true, err
	}
	if version < m.latest {
		if err := m.refuseEncoding(ctx, tx); err != nil {
			return false, err
		}
	}
	for fresh := version == 0; version < m.latest; {
		if err := m.step(d, +1); err != nil {
			return false, fmt.Errorf("apply version %d: %w", version+1, asConflict(m.schema, err))
		}
		version++
		m.applied = append(m.applied, version)
		if !fresh {
			break
		}
	}
	return version >= m.latest, nil
}

// refuseEncoding refuses a database that cannot hold every text. SQL_ASCII takes bytes as they are.
func (m *migrator) refuseEncoding(ctx context.Context, tx pgx.Tx) error {
	var encoding string
	if err := tx.QueryRow(ctx, `SELECT pg_catalog.current_setting('server_encoding')`, pgx.QueryExecModeExec).Scan(&encoding); err != nil {
		return fmt.Errorf("read the encoding of the database: %w", err)
	}
	if encoding != "UTF8" && encoding != "SQL_ASCII" {
		return fmt.Errorf("the encoding of the database is %s and must be UTF8", encoding)
	}
	return nil
}

// stepDown removes the current version; done means that nothing is left.
func (m *migrator) stepDown(ctx context.Context, tx pgx.Tx) (done bool, err error) {
	exists, err := m.hasVersionTable(ctx, tx)
	if err != nil || !exists {
		return true, err
	}
	d := m.driver(ctx, tx)
	version, err := m.version(ctx, tx, d)
	if err != nil {
		return false, err
	}
	if version > 0 {
		if err := m.refuseLiveJobs(ctx, tx); err != nil {
			return false, err
		}
		if err := m.step(d, -1); err != nil {
			return false, fmt.Errorf("remove version %d: %w", version, asConflict(m.schema, err))
		}
		m.removed = append(m.removed, version)
	}
	if version > 1 {
		return false, nil
	}
	if _, err := tx.Exec(ctx, `DROP TABLE `+d.table()); err != nil {
		return false, fmt.Errorf("drop the version table: %w", err)
	}
	return true, nil
}

// retry runs one step in a transaction, again and again while somebody else is in the way and ctx allows.
func (m *migrator) retry(ctx context.Context, step func(context.Context, pgx.Tx) (bool, error)) (done bool, err error) {
	pause := retryMin
	for tries := 1; ; tries++ {
		done, err = m.try(ctx, step)
		if !errors.Is(err, errBusy) && !isCode(err, codeLockNotAvailable, codeDeadlock) {
			return done, err
		}
		if tries == 1 || pause == retryMax {
			m.logger.InfoContext(ctx, "pgqueue: migration waits", "schema", m.schema, "tries", tries, "reason", err.Error())
		}
		// Half of the pause is random, so that many starters do not come back together.
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-ctx.Done():
			timer.Stop()
			return false, fmt.Errorf("%w (the last try failed: %w)", context.Cause(ctx), err)
		case <-timer.C:
		}
		// Waiting for another migrator is cheap and ends soon; waiting for a lock costs the fleet half a second a try.
		pause = min(2*pause, retryMax)
		if errors.Is(err, errBusy) {
			pause = min(pause, retryMax/8)
		}
	}
}

// try runs one step in one transaction under the lock.
func (m *migrator) try(ctx context.Context, step func(context.Context, pgx.Tx) (bool, error)) (done bool, err error) {
	tx, err := m.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return false, fmt.Errorf("begin: %w", err)
	}
	defer rollback(ctx, tx)
	if err := m.prepare(ctx, tx); err != nil {
		return false, err
	}
	m.applied, m.removed = nil, nil
	done, err = step(ctx, tx)
	if err != nil {
		return false, err
	}
	if err := tx.Commit(ctx); err != nil {
		return false, fmt.Errorf("commit: %w", err)
	}
	for _, version := range m.applied {
		m.logger.InfoContext(ctx, "pgqueue: migration applied", "schema", m.schema, "version", version)
	}
	for _, version := range m.removed {
		m.logger.InfoContext(ctx, "pgqueue: migration removed", "schema", m.schema, "version", version)
	}
	return done, nil
}

// prepare sets what the step needs, whatever the role's defaults are, and takes the lock. All of it ends with the transaction, so it
// works behind a pooler that gives every transaction another connection, and leaves no trace on the caller's.
//
// The lock is the one that the golang-migrate command line takes for the same version table. It is tried, not awaited: a session
// that waits in SELECT pg_advisory_lock holds a snapshot, and CREATE INDEX CONCURRENTLY would wait for that.
func (m *migrator) prepare(ctx context.Context, tx pgx.Tx) error {
	// By way of pg_settings, because transaction_timeout exists from Postgres 17 on only.
	if _, err := tx.Exec(ctx, fmt.Sprintf(`
		SELECT pg_catalog.set_config(s.name, v.value, true)
		FROM (VALUES ('search_path', 'pg_catalog, pg_temp'), ('lock_timeout', '%dms'), ('statement_timeout', '0'),
		             ('transaction_timeout', '0'), ('idle_in_transaction_session_timeout', '0'),
		             ('client_encoding', 'UTF8')) AS v (name, value)
		     JOIN pg_catalog.pg_settings s ON s.name = v.name`, lockTimeout.Milliseconds())); err != nil {
		return fmt.Errorf("prepare the transaction: %w", err)
	}
	var databaseName string
	if err := tx.QueryRow(ctx, `SELECT current_database()`, pgx.QueryExecModeExec).Scan(&databaseName); err != nil {
		return fmt.Errorf("read the name of the database: %w", err)
	}
	// The command line puts the path of its URL in the place of the name, slash included.
	key, err := database.GenerateAdvisoryLockId("/"+databaseName, m.schema, versionTable)
	if err != nil {
		return fmt.Errorf("make the lock's number: %w", err)
	}
	var locked bool
	if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(`+key+`)`, pgx.QueryExecModeExec).Scan(&locked); err != nil {
		return fmt.Errorf("take the lock: %w", err)
	}
	if !locked {
		return errBusy
	}
	return nil
}

// step lets golang-migrate go one version up (+1) or down (-1).
func (m *migrator) step(d *driver, direction int) error {
	source, err := iofs.New(m.files, ".")
	if err != nil {
		return fmt.Errorf("open the files: %w", err)
	}
	defer func() { _ = source.Close() }()
	engine, err := migrate.NewWithInstance("pgqueue", source, "pgqueue", d)
	if err != nil {
		return err
	}
	return engine.Steps(direction)
}

// rollback ends a transaction that was not committed, even if the caller's context has ended.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	// Nothing is lost with the error: a connection that cannot roll back is closed by pgx, which has the same effect.
	_ = tx.Rollback(ctx)
}
