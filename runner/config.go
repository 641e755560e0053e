package runner

import (
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Defaults of [Config], used where a field is zero.
const (
	DefaultWorkers        = 2
	DefaultBatch          = 64
	DefaultWindow         = 250 * time.Millisecond
	DefaultPoll           = time.Second
	DefaultDeadline       = 2 * time.Minute
	DefaultCleanUp        = 10 * time.Second
	DefaultStorageTimeout = 5 * time.Second
	DefaultLease          = 30 * time.Second
	DefaultStopTimeout    = 20 * time.Second
	DefaultMaxReport      = 1000

	// MaxBatch is the largest [Config].Batch and [Config].MaxReport.
	MaxBatch = 10_000
	// MaxWorkers is the largest [Config].Workers.
	MaxWorkers = 10_000
)

// Config sets up a [Runner]. The zero value is usable: every zero field takes the default that its comment names. A
// value that cannot work is refused by [New] with a [*ConfigError].
//
// # Classes
//
// Four claims in a row prefer the classes in ascending order. The fifth is led by the last class, the next fifth by
// the one before it, and so on, without the first; the classes behind the lead follow in descending order. What the
// preferred class does not use the others borrow, because every claim names all classes. Claims that come back empty do
// not count. So fresh work goes first and no class starves.
//
// # Kinds
//
// Where several kinds share a queue, none may hold all slots, so that a stalled handler of one kind never blocks
// another. A claim leaves out kinds at their bound, unless that kind is making progress and the claim only fills the
// buffer ahead of it.
//
// # Batches
//
// A kind with a BatchSize is claimed by itself, in turn with the others, as many tasks as its free slots can take. See
// [BatchHandler].
//
// # Memory
//
// The buffer of claimed tasks that wait for a slot holds at most the free slots and one Batch; how much of the batch
// is used follows from how long handlers take, so that about a second's work is fetched ahead and no more. Verdicts that
// could not be written count too: no more is claimed while Workers + 3·Batch tasks are buffered, running or unwritten, where a
// worker that may run a batch counts as much as the batch.
type Config struct {
	// Name of the queue, for logs and observers. It may be empty.
	Name string

	// Workers is how many handlers run at once. Default 2, at most [MaxWorkers].
	Workers int

	// Batch is how many tasks one claim takes at most. Default 64, at most [MaxBatch].
	Batch int

	// MaxReport is how many verdicts one call of Report carries at most. Default 1,000, or Batch if that is more; at
	// most [MaxBatch].
	MaxReport int

	// Window merges hints: the first one claims at once and opens the window, later ones inside it become one claim at
	// its end. Default 250 ms; negative means no merging.
	Window time.Duration

	// Poll is how long an idle runner waits at most before it looks again, up to a tenth less at random. Default 1 s.
	Poll time.Duration

	// ProbedOutside says that somebody else asks the store on behalf of this runner, at least once in each Poll, and
	// passes the answers to [Runner.Probed]: one statement can ask for many runners. The runner itself then asks only
	// after a claim that came back empty, and when no answer has come for three Polls.
	ProbedOutside bool

	// MaxReplacements is how many slots of stuck handlers may be replaced at a time, where an observer asks for it, see
	// [StuckReplaceObserver]. Default Workers, which is also the most; negative means none.
	MaxReplacements int

	// Deadline bounds one attempt. Its context ends then with the cause [ErrDeadline], and the attempt fails with
	// [CodeTimeout] when the handler returns. Default 2 min; negative means none.
	Deadline time.Duration

	// CleanUp is how long a handler may go on after its deadline, or after its context was cancelled on stop, before
	// it is counted as stuck and no longer waited for. Its lease is renewed until then. Default 10 s; negative means
	// no time at all.
	CleanUp time.Duration

	// StorageTimeout bounds every call of the queue. Default 5 s, or RenewEvery if that is less.
	StorageTimeout time.Duration

	// Lease is how long a claim holds without renewal. With renewal the default is 30 s, and it must be at least three
	// times RenewEvery. Without, it must cover the longest Deadline + CleanUp + StorageTimeout, which is the default.
	Lease time.Duration

	// LeaseCoversBatch says that, without renewal, Lease covers not one run but the wait in the buffer before it as well: every
	// run that a worker may have in hand, and its share of a Batch. Only then is a Batch claimed ahead of the slots; package
	// outbox computes such a lease.
	LeaseCoversBatch bool

	// RenewEvery is the interval of renewals. Default Lease/3; negative means no renewal. It is ignored if the queue
	// is no [Renewer].
	RenewEvery time.Duration

	// StopTimeout is how long running handlers may go on undisturbed after a stop; then their contexts are cancelled
	// with the cause [ErrStopping]. Default 20 s; negative means at once.
	StopTimeout time.Duration

	// Backoff gives the delay after a failed attempt. Default [DefaultBackoff]. A policy that panics, or answers with
	// no positive delay or with more than a year, is replaced by the default for that attempt, with a warning.
	Backoff Backoff

	// Classes are the classes of precedence that are claimed. Default 1, 2, 3, 4.
	Classes []Class

	// Kinds lists the kinds of tasks to claim. With nil, tasks of any kind are claimed, and share all slots.
	Kinds []KindConfig

	// StoreErrorText stores the full text of every error as the failure's message. By default only texts that were
	// marked with [Safe] are stored, and otherwise the error's Go type: error texts tend to carry personal data.
	StoreErrorText bool
	// SealErrorText gives the queue that text as [Failure].Text, beside a Message as without StoreErrorText, so that it can be stored
	// encrypted, and is not logged.
	SealErrorText bool

	// Logger receives what an operator should know, with the Name as queue; see docs/logging.md for all of it. Of one
	// message at most 60 come at once and one a second after that. Default slog.Default().
	Logger *slog.Logger

	// Observer implements any of the interfaces in this package whose names end in Observer.
	Observer any
}

// KindConfig bounds one kind of tasks inside a queue.
type KindConfig struct {
	// Name is the kind, as in [Task].Kind.
	Name string

	// Workers is how many handlers of this kind run at once. Default: all of [Config].Workers if this is the only kind,
	// and one fewer otherwise (at least 1). It may not exceed [Config].Workers, nor reach it where there are several
	// kinds and more than one worker.
	Workers int

	// Deadline and Backoff override those of [Config]. A negative Deadline means none.
	Deadline time.Duration
	Backoff  Backoff

	// MaxAttempts bounds how many attempts of a task may fail here, beside the task's own budget; see
	// [Verdict].MaxAttempts. Zero means no such bound.
	MaxAttempts int

	// Aliases are further names of this kind, such as the one before a rename. Their tasks are claimed too and count
	// against the same bounds. [Task].Kind stays as it is stored.
	Aliases []string

	// BatchSize is how many tasks of this kind one call takes at most; the handler must be a [BatchHandler] then. Workers
	// and Deadline count for batches. Default 0: tasks run one by one. At most [MaxBatch].
	BatchSize int

	// Collect is how long a batch that is not full waits for more tasks, from its first one on. Default
	// [Config].Window; negative means not at all. It must be shorter than the lease.
	Collect time.Duration
}

// ConfigError says which field of [Config] cannot work, and why.
type ConfigError struct {
	Field   string // such as "Lease" or "Kinds[1].Workers"
	Message string
}

// Error returns the field and the reason.
func (e *ConfigError) Error() string { return "runner: config: " + e.Field + ": " + e.Message }

func refuse(field, format string, args ...any) error {
	return &ConfigError{Field: field, Message: fmt.Sprintf(format, args...)}
}

// resolve returns the configuration with defaults filled in, or a *ConfigError. renewer says whether the queue can
// renew; in the answer RenewEvery is zero where there is no renewal.
func (c Config) resolve(renewer bool) (Config, error) {
	if err := c.resolveSizes(); err != nil {
		return c, err
	}
	if err := c.resolveTimes(); err != nil {
		return c, err
	}
	if err := c.resolveKinds(); err != nil {
		return c, err
	}
	if err := c.resolveLease(renewer); err != nil {
		return c, err
	}
	if err := c.checkCollect(); err != nil {
		return c, err
	}
	if c.Classes == nil {
		c.Classes = []Class{1, 2, 3, 4}
	}
	c.Classes = slices.Clone(c.Classes)
	slices.Sort(c.Classes)
	if len(c.Classes) == 0 {
		return c, refuse("Classes", "must name at least one class")
	}
	if len(slices.Compact(slices.Clone(c.Classes))) != len(c.Classes) {
		return c, refuse("Classes", "names a class twice")
	}
	if c.Backoff == nil {
		c.Backoff = DefaultBackoff()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = boundedLogger(c.Logger)
	if c.Name != "" {
		c.Logger = c.Logger.With("queue", c.Name)
	}
	return c, nil
}

func (c *Config) resolveSizes() error {
	if c.Workers == 0 {
		c.Workers = DefaultWorkers
	}
	if c.Batch == 0 {
		c.Batch = DefaultBatch
	}
	if c.MaxReport == 0 {
		c.MaxReport = max(DefaultMaxReport, c.Batch)
	}
	if c.MaxReplacements == 0 {
		c.MaxReplacements = c.Workers
	}
	c.MaxReplacements = max(c.MaxReplacements, 0)
	switch {
	case c.Workers > MaxWorkers:
		return refuse("Workers", "must be at most %d, not %d", MaxWorkers, c.Workers)
	case c.Workers < 0:
		return refuse("Workers", "must be at least 1, not %d", c.Workers)
	case c.MaxReplacements > c.Workers:
		return refuse("MaxReplacements", "must be at most the %d workers, not %d", c.Workers, c.MaxReplacements)
	case c.Batch < 0 || c.Batch > MaxBatch:
		return refuse("Batch", "must be between 1 and %d, not %d", MaxBatch, c.Batch)
	case c.MaxReport < 0 || c.MaxReport > MaxBatch:
		return refuse("MaxReport", "must be between 1 and %d, not %d", MaxBatch, c.MaxReport)
	}
	return nil
}

func (c *Config) resolveTimes() error {
	orDefault(&c.Window, DefaultWindow)
	orDefault(&c.Poll, DefaultPoll)
	orDefault(&c.Deadline, DefaultDeadline)
	orDefault(&c.CleanUp, DefaultCleanUp)
	orDefault(&c.StopTimeout, DefaultStopTimeout)
	c.Window = max(c.Window, 0)
	c.CleanUp = max(c.CleanUp, 0)
	c.StopTimeout = max(c.StopTimeout, 0)
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Poll", c.Poll}, {"StorageTimeout", c.StorageTimeout}, {"Lease", c.Lease}} {
		if f.value < 0 {
			return refuse(f.name, "must be positive, not %v", f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Window", c.Window}, {"Poll", c.Poll}, {"Deadline", c.Deadline}, {"CleanUp", c.CleanUp},
		{"StorageTimeout", c.StorageTimeout}, {"Lease", c.Lease}, {"RenewEvery", c.RenewEvery},
		{"StopTimeout", c.StopTimeout}} {
		if f.value > maxDelay {
			return refuse(f.name, "must be at most %v, not %v", maxDelay, f.value)
		}
	}
	return nil
}

func orDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

func (c *Config) resolveKinds() error {
	c.Kinds = slices.Clone(c.Kinds)
	seen := make(map[string]bool, len(c.Kinds))
	most := c.Workers
	if len(c.Kinds) > 1 {
		most = max(1, c.Workers-1)
	}
	for i := range c.Kinds {
		k := &c.Kinds[i]
		field := fmt.Sprintf("Kinds[%d].", i)
		switch {
		case k.Name == "":
			return refuse(field+"Name", "must not be empty")
		case seen[k.Name]:
			return refuse(field+"Name", "names kind %q twice", k.Name)
		case k.Workers < 0 || k.Workers > most:
			return refuse(field+"Workers", "must be between 1 and %d (the queue has %d workers and %d kinds), not %d",
				most, c.Workers, len(c.Kinds), k.Workers)
		case k.Deadline > maxDelay:
			return refuse(field+"Deadline", "must be at most %v, not %v", maxDelay, k.Deadline)
		case k.MaxAttempts < 0:
			return refuse(field+"MaxAttempts", "must not be negative, is %d", k.MaxAttempts)
		}
		if err := c.validateBatch(k, field); err != nil {
			return err
		}
		seen[k.Name] = true
		for _, alias := range k.Aliases {
			if alias == "" || seen[alias] {
				return refuse(field+"Aliases", "must be names that nothing else has, not %q", alias)
			}
			seen[alias] = true
		}
		if k.Workers == 0 {
			k.Workers = most
		}
		orDefault(&k.Deadline, c.Deadline)
	}
	return nil
}

// resolveLease checks that a lease covers what it must, so that a healthy handler is never run twice.
func (c *Config) resolveLease(renewer bool) error {
	if !renewer || c.RenewEvery < 0 {
		c.RenewEvery = 0
		orDefault(&c.StorageTimeout, DefaultStorageTimeout)
		longest, none := c.longestDeadline()
		if none {
			return refuse("Deadline", "none is possible only with renewal: no lease covers a run of any length")
		}
		need := longest + c.CleanUp + c.StorageTimeout
		orDefault(&c.Lease, need)
		if c.Lease < need {
			return refuse("Lease", "%v without renewal is shorter than deadline (and collecting) %v + clean-up %v + completion %v = %v",
				c.Lease, longest, c.CleanUp, c.StorageTimeout, need)
		}
		return nil
	}
	orDefault(&c.Lease, DefaultLease)
	orDefault(&c.RenewEvery, c.Lease/3)
	orDefault(&c.StorageTimeout, min(DefaultStorageTimeout, c.RenewEvery))
	switch {
	case c.RenewEvery <= 0:
		return refuse("Lease", "%v is too short to be renewed", c.Lease)
	case c.Lease < 3*c.RenewEvery:
		return refuse("Lease", "%v is shorter than three renewal intervals of %v = %v", c.Lease, c.RenewEvery, 3*c.RenewEvery)
	case c.StorageTimeout > c.RenewEvery:
		return refuse("StorageTimeout", "%v is longer than one renewal interval of %v", c.StorageTimeout, c.RenewEvery)
	}
	return nil
}

func (c *Config) longestDeadline() (longest time.Duration, none bool) {
	if len(c.Kinds) == 0 {
		return c.Deadline, c.Deadline < 0
	}
	for _, k := range c.Kinds {
		longest = max(longest, k.Deadline+k.Collect)
		none = none || k.Deadline < 0
	}
	return longest, none
}
