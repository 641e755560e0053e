package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/migrations"
)

// Options says what to examine. The zero value examines the schema "pgqueue" with every check, and no roles.
type Options struct {
	// Schema is the schema with pgqueue's tables. Empty means [migrations.DefaultSchema].
	Schema string

	// Roles are checked for the rights that they need, for row-level security and for settings of their own. Without any, only the
	// role of the connection itself is looked at, and not for missing rights: nobody said what it is meant to do.
	Roles []Role

	// Only restricts the examination to the checks with these ids, for example when a worker starts. Empty means all; see [Checks].
	Only []string

	// StatementTimeout bounds each query of the doctor. Zero means 5 s. A check that takes longer is reported as skipped.
	StatementTimeout time.Duration

	// Thresholds say from where on something is a finding.
	Thresholds Thresholds
}

// Role is a database role and what it is meant to do. The rights behind each purpose are those of docs/roles.md.
type Role struct {
	// Name is the role's name. Empty means the role of the doctor's connection.
	Name string
	// Purposes are what it is meant to do. Without any, only row-level security and its settings are looked at.
	Purposes []Purpose
}

// Purpose is what a role is meant to do, as docs/roles.md has it.
type Purpose string

// The purposes of docs/roles.md. The owner needs no check: who owns a table has every right on it.
const (
	Worker   Purpose = "worker"
	Producer Purpose = "producer"
	Operator Purpose = "operator"
	Watcher  Purpose = "watcher"
	Viewer   Purpose = "viewer"
)

// purposes lists all of them.
func purposes() []Purpose { return []Purpose{Worker, Producer, Operator, Watcher, Viewer} }

// Thresholds say from where on something is a finding. Each zero value means the default.
type Thresholds struct {
	// TransactionAge is how long a session or a prepared transaction may hold back vacuum. Default 5 min.
	TransactionAge time.Duration
	// DeadRows is how many times the threshold of autovacuum a table's dead rows may reach. Default 2.
	DeadRows float64
	// BloatBytes is how much more space a table or an index may take than its rows need, by estimate. Default 256 MiB.
	BloatBytes int64
	// XIDAge is how many transactions the oldest unfrozen row of a table may be behind. Default 1,000,000,000 of the 2,100,000,000 at
	// which Postgres stops.
	XIDAge int64
	// XminAge is how many transactions a standby's feedback or a replication slot may hold back vacuum. Default 100,000.
	XminAge int64
	// RetainedWAL is how many bytes of WAL a replication slot may retain before an idle one becomes an error. Default 1 GiB.
	RetainedWAL int64
	// NotifyUsage is the share of the NOTIFY queue that may be in use. Default 0.1; from 0.5 on, or five times this, it is an error.
	NotifyUsage float64
	// Connections is the share of the connections open to ordinary roles that may be in use. Default 0.85.
	Connections float64
	// LeaseExpired is how long a lease may have run out without being returned. Default 1 min.
	LeaseExpired time.Duration
	// LeaseAhead is how far ahead a lease may end. Default 24 h.
	LeaseAhead time.Duration
	// Paused is how long a queue or a kind may be paused without an end. Default 24 h.
	Paused time.Duration
	// Unserved is how long a job may be due in a queue, or of a kind, that no live worker serves, and how long the tick of a schedule
	// may have passed. Default 1 min.
	Unserved time.Duration
	// KeysExpired is how long unique keys may have expired without being deleted. Default 24 h.
	KeysExpired time.Duration
	// HistoryAhead is how many days ahead there must be a partition of history. Default 3; workers make them for 14.
	HistoryAhead int
	// KeepHistory is how long partitions of history are kept; two days later they are a finding. Default 7 days, as in
	// pgqueue.WorkerConfig.
	KeepHistory time.Duration
	// StatementTimeout is the least statement_timeout of a role that leaves pgqueue enough time. Default 5 s.
	StatementTimeout time.Duration
}

// An OptionError says which option cannot be used.
type OptionError struct {
	// Field is the option, such as "Schema" or "Thresholds.DeadRows".
	Field string
	// Message says what is wrong with it.
	Message string
	cause   error
}

// Error names the option and what is wrong with it.
func (e *OptionError) Error() string { return fmt.Sprintf("option %s %s", e.Field, e.Message) }

// Unwrap returns the error behind it, if there is one.
func (e *OptionError) Unwrap() error { return e.cause }

// withDefaults checks the options and fills in what was left out.
func (o Options) withDefaults() (Options, error) {
	if o.Schema == "" {
		o.Schema = migrations.DefaultSchema
	}
	if err := migrations.ValidateSchema(o.Schema); err != nil {
		return o, &OptionError{Field: "Schema", Message: "is no usable name: " + err.Error(), cause: err}
	}
	for i, role := range o.Roles {
		for _, purpose := range role.Purposes {
			if !slices.Contains(purposes(), purpose) {
				return o, &OptionError{Field: fmt.Sprintf("Roles[%d].Purposes", i), Message: fmt.Sprintf("must be of %v, not %q", purposes(), purpose)}
			}
		}
	}
	known := Checks()
	for i, id := range o.Only {
		if !slices.ContainsFunc(known, func(c Check) bool { return c.ID == id }) {
			return o, &OptionError{Field: fmt.Sprintf("Only[%d]", i), Message: fmt.Sprintf("names a check that does not exist: %q", id)}
		}
	}
	t := &o.Thresholds
	return o, firstError(
		orDefault("StatementTimeout", &o.StatementTimeout, 5*time.Second),
		orDefault("Thresholds.TransactionAge", &t.TransactionAge, 5*time.Minute),
		orDefault("Thresholds.DeadRows", &t.DeadRows, 2),
		orDefault("Thresholds.BloatBytes", &t.BloatBytes, 256<<20),
		orDefault("Thresholds.XIDAge", &t.XIDAge, 1_000_000_000),
		orDefault("Thresholds.XminAge", &t.XminAge, 100_000),
		orDefault("Thresholds.RetainedWAL", &t.RetainedWAL, 1<<30),
		orDefault("Thresholds.NotifyUsage", &t.NotifyUsage, 0.1),
		orDefault("Thresholds.Connections", &t.Connections, 0.85),
		orDefault("Thresholds.LeaseExpired", &t.LeaseExpired, time.Minute),
		orDefault("Thresholds.LeaseAhead", &t.LeaseAhead, 24*time.Hour),
		orDefault("Thresholds.Paused", &t.Paused, 24*time.Hour),
		orDefault("Thresholds.Unserved", &t.Unserved, time.Minute),
		orDefault("Thresholds.KeysExpired", &t.KeysExpired, 24*time.Hour),
		orDefault("Thresholds.HistoryAhead", &t.HistoryAhead, 3),
		orDefault("Thresholds.KeepHistory", &t.KeepHistory, 7*24*time.Hour),
		orDefault("Thresholds.StatementTimeout", &t.StatementTimeout, 5*time.Second),
	)
}

// orDefault fills in the default of a number that is zero and refuses one that is not positive (NaN included).
func orDefault[N int | int64 | float64 | time.Duration](field string, value *N, otherwise N) error {
	if *value == 0 {
		*value = otherwise
	}
	if positive := *value > 0; !positive {
		return &OptionError{Field: field, Message: fmt.Sprintf("must not be negative, is %v", *value)}
	}
	return nil
}

// firstError returns the first error that is one.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
