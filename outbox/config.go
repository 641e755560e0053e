package outbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/runner"
)

// Defaults of [Config], used where a field is zero.
const (
	DefaultMaxAttempts    = 5
	DefaultWorkers        = 4
	DefaultBatch          = 16
	DefaultTimeout        = 30 * time.Second
	DefaultCleanUp        = 5 * time.Second
	DefaultStorageTimeout = 5 * time.Second
	DefaultTick           = 15 * time.Second
	DefaultMinLease       = 5 * time.Minute
	DefaultHold           = 30 * time.Second
)

// Config says how the rows of a [Table] are worked off. The zero value is usable: every zero field takes the default that
// its comment names.
//
// # The lease
//
// Without a column for it, a claim is stale when it is older than Lease. Nothing renews it, so Lease must cover the worst
// case of a batch, or a row could be sent by two processes at once. While Batch rows wait, each worker may have one
// row in hand, and then takes its share of them:
//
//	worst case = (⌈Batch / Workers⌉ + 1) · (Timeout + CleanUp) + 2 · StorageTimeout
//
// must be at most nine tenths of Lease: in the last tenth the runner stops handlers. With the defaults that is 185 s, and so
// a Lease of 205.6 s at least. A shorter one is refused with the numbers. Every call that a handler makes must end with its context, or the worst case is longer than that.
type Config struct {
	// Name is for logs, observers and Status. Default: the table's.
	Name string

	// MaxAttempts is how many attempts of a row may fail, where the row does not say. Default 5.
	MaxAttempts int
	// Backoff is the delay after a failed attempt. Default [runner.OutboxBackoff]: 30 s, 2 min, 8 min, 32 min, at most 1 h,
	// ±15 %, added to the database's clock.
	Backoff runner.Backoff

	// Workers is how many handlers run at once, 4. Batch is how many rows a claim takes at most, 16.
	Workers, Batch int
	// Timeout bounds one attempt, 30 s, and CleanUp how long a handler may go on after that, 5 s.
	Timeout, CleanUp time.Duration
	// StorageTimeout bounds each call of the database, 5 s, or a third of the renewal interval's lease if that is less.
	StorageTimeout time.Duration
	// Lease is how long a claim holds. Without [Table].LeaseUntil the default is the worst case, at least 5 min; with it, 30 s.
	Lease time.Duration
	// Tick is how long a resident worker waits at most before it looks for work, and for stale claims. Default 15 s. Between
	// ticks it wakes for hints, and for rows that become due, as far as it knew them when it last looked.
	Tick time.Duration
	// StopTimeout is how long running handlers may go on undisturbed after a stop; see [runner.Config]. Default 20 s.
	StopTimeout time.Duration

	// Hold is how long a row is left alone after a claim, if something has set it back to pending without giving it a later
	// due time: a trigger that does so each time would otherwise have it sent in a loop. Default 30 s; negative means no time.
	Hold time.Duration

	// Classes are the values of [Table].Priority that are claimed; lower ones go first, see [runner.Config]. Default 1, 2, 3, 4.
	// Rows of other classes are left alone.
	Classes []runner.Class
	// Kinds bounds the kinds of [Table].Kind, such as a provider each; see [runner.Config]. Rows of other kinds are left alone.
	// Nil means any kind, with one bound for all.
	Kinds []runner.KindConfig

	// Channel is what a resident worker listens on for hints: any NOTIFY on it, with a payload that is not empty, has it look at
	// once. (Postgres makes no difference between no payload and an empty one, and listeners of pgqueue take neither for a hint:
	// elsewhere the payload is the name of a queue.) Empty means no listening.
	Channel string
	// ListenerConn makes the listener's connection, which must not go through a pooler. Default: one like the pool's.
	ListenerConn func(ctx context.Context) (*pgx.Conn, error)

	// StoreErrorText stores the full text of every error; see [runner.Config].
	StoreErrorText bool
	// Logger receives what an operator should know. Default slog.Default().
	Logger *slog.Logger
	// Observer may implement any of the observer interfaces of packages runner, reaper and listener.
	Observer any
}

// resolve fills in defaults and checks what has to fit together. leased says that leases are renewed.
func (c Config) resolve(name Name, leased bool) (Config, error) {
	if c.Name == "" {
		c.Name = name[len(name)-1]
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Backoff == nil {
		c.Backoff = runner.OutboxBackoff()
	}
	for _, n := range []struct {
		field     string
		value     *int
		otherwise int
		most      int
	}{{"MaxAttempts", &c.MaxAttempts, DefaultMaxAttempts, 1_000_000}, {"Workers", &c.Workers, DefaultWorkers, runner.MaxWorkers},
		{"Batch", &c.Batch, DefaultBatch, runner.MaxBatch}} {
		if *n.value == 0 {
			*n.value = n.otherwise
		}
		if *n.value < 1 || *n.value > n.most {
			return c, refuse(n.field, "must be between 1 and %d, not %d", n.most, *n.value)
		}
	}
	for _, d := range []struct {
		field     string
		value     *time.Duration
		otherwise time.Duration
		negative  bool // is allowed and means no time
	}{{"Timeout", &c.Timeout, DefaultTimeout, false}, {"CleanUp", &c.CleanUp, DefaultCleanUp, true},
		{"Tick", &c.Tick, DefaultTick, false}, {"Hold", &c.Hold, DefaultHold, true}} {
		switch {
		case *d.value == 0:
			*d.value = d.otherwise
		case *d.value < 0 && !d.negative:
			return c, refuse(d.field, "must be positive, not %v", *d.value)
		}
		if *d.value > maxTimeout {
			return c, refuse(d.field, "must be at most %v, not %v", maxTimeout, *d.value)
		}
	}
	c.Hold = max(c.Hold, 0)
	return c, c.resolveLease(leased)
}

const (
	maxDuration = 365 * 24 * time.Hour
	// maxTimeout bounds what is multiplied with the rounds of a batch.
	maxTimeout = 72 * time.Hour
)

// resolveLease checks that a claim outlives the worst case of a batch.
func (c *Config) resolveLease(leased bool) error {
	if c.Lease < 0 || c.Lease > maxDuration {
		return refuse("Lease", "must be positive and at most %v, not %v", maxDuration, c.Lease)
	}
	if c.StorageTimeout < 0 || c.StorageTimeout > maxDuration {
		return refuse("StorageTimeout", "must be positive and at most %v, not %v", maxDuration, c.StorageTimeout)
	}
	if leased {
		if c.Lease == 0 {
			c.Lease = runner.DefaultLease
		}
		if c.StorageTimeout == 0 {
			c.StorageTimeout = min(DefaultStorageTimeout, c.Lease/3)
		}
		return nil // package runner checks the rest
	}
	if c.StorageTimeout == 0 {
		c.StorageTimeout = DefaultStorageTimeout
	}
	timeout := c.Timeout
	for _, k := range c.Kinds {
		if k.Deadline < 0 {
			return refuse("Kinds", "kind %q has no deadline, and without Table.LeaseUntil no lease covers that", k.Name)
		}
		if k.Deadline > maxTimeout || k.Collect > maxTimeout {
			return refuse("Kinds", "kind %q has a deadline or collects for more than %v", k.Name, maxTimeout)
		}
		timeout = max(timeout, k.Deadline+max(k.Collect, 0))
	}
	rounds := time.Duration((c.Batch+c.Workers-1)/c.Workers + 1)
	each := timeout + max(c.CleanUp, 0)
	worst := rounds*each + 2*c.StorageTimeout
	need := (worst + worst/9).Round(time.Millisecond) + time.Millisecond // so that worst is at most nine tenths of it
	if c.Lease == 0 {
		c.Lease = max(DefaultMinLease, need)
	}
	if c.Lease < need {
		return refuse("Lease", "%v is shorter than what the worst case of a batch needs, %v: %d rounds of timeout %v + clean-up %v, two storage calls of %v, "+
			"divided by 0.9. Raise Lease or Workers, or lower Batch or Timeout", c.Lease, need, rounds, timeout, max(c.CleanUp, 0), c.StorageTimeout)
	}
	return nil
}

// runnerConfig is the configuration of the engine.
func (c *Config) runnerConfig() runner.Config {
	return runner.Config{
		Name: c.Name, Workers: c.Workers, Batch: c.Batch, Poll: c.Tick, Deadline: c.Timeout, CleanUp: c.CleanUp,
		StorageTimeout: c.StorageTimeout, Lease: c.Lease, LeaseCoversBatch: true, StopTimeout: c.StopTimeout, Backoff: c.Backoff, Classes: c.Classes,
		Kinds: c.Kinds, StoreErrorText: c.StoreErrorText, Logger: c.Logger, Observer: c.Observer,
	}
}
