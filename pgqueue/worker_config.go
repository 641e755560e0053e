package pgqueue

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/runner"
)

// Queues names the queues that a worker serves, each with its settings. A zero QueueConfig means the defaults.
type Queues map[string]QueueConfig

// QueueConfig is how one process serves one queue. Zero values mean the defaults.
type QueueConfig struct {
	// Workers is how many handlers run at a time, at most 10,000. Default 2.
	Workers int
	// Batch is the most jobs that one claim takes, at most 10,000. Default 64.
	Batch int
	// Window is how long hints are collected after one that claimed at once. Default 250 ms.
	Window time.Duration
	// Poll is how often an idle queue is looked at although no hint came. Default 1 s.
	Poll time.Duration
	// Deadline bounds one run of a handler. Default 2 min; negative means none.
	Deadline time.Duration
	// CleanUp is how much longer than its deadline, or than a cancelled stop, a handler may take to return while its
	// lease is still renewed. Default 10 s.
	CleanUp time.Duration
	// Backoff says how long a failed job waits. Default [runner.DefaultBackoff].
	Backoff runner.Backoff
}

// WorkerConfig configures a [Worker]. Only Queues is required.
type WorkerConfig struct {
	Queues Queues

	// ID names this process in claimed_by, for people. It decides nothing: two workers may have the same. The default
	// is made of host name, process id and a random part.
	ID string

	// Lease is how long a claim holds without renewal. A job of a killed process is back after at most Lease and one
	// ReapInterval. Default 30 s; at least three times RenewEvery.
	Lease time.Duration
	// RenewEvery is how often leases of running and buffered jobs are renewed. Default a third of Lease.
	RenewEvery time.Duration
	// StorageTimeout bounds each claim, renewal and report. Default 5 s; at most RenewEvery.
	StorageTimeout time.Duration
	// ReapInterval is how often this process looks for jobs whose lease has run out. Default 5 s.
	ReapInterval time.Duration
	// StopTimeout is how long running handlers may go on after Run's context has ended before theirs is cancelled.
	// Default 20 s; negative means not at all.
	StopTimeout time.Duration

	// KeepHistory is how long succeeded and cancelled jobs are kept, in whole UTC days; retention drops partitions.
	// Default 7 days. KeepAttention is how long failed and dead ones are. Default 90 days.
	KeepHistory   time.Duration
	KeepAttention time.Duration
	// KeepAudit is how long the entries of the audit log are kept, see [RecordAudit]. Default 365 days; at least 7 days: what is younger
	// only the owner of the table may delete.
	KeepAudit time.Duration

	// Pool is what the worker uses for its own statements and for the transactions of [HandleTx], so that it neither
	// waits for the application's connections nor holds them. Default: the client's pool.
	Pool *pgxpool.Pool
	// ListenerConn makes the connection that listens for hints. It is never taken from the pool, and needs a direct
	// connection: a pooler in transaction mode forwards no hints. Default: a new connection with the pool's settings, and without
	// an idle_session_timeout.
	ListenerConn func(ctx context.Context) (*pgx.Conn, error)
	// DisableListener turns hints off: the worker polls.
	DisableListener bool

	// StoreErrorText stores the full text of handlers' errors with the failed attempt. By default only a code, the
	// error's Go type and messages marked as safe are stored, because texts may hold personal data.
	StoreErrorText bool
	// Observer is told what happens; it may implement any of the observer interfaces of package runner, listener and
	// reaper. [Observers] makes one of several. Default: that of the client, see [WithObserver].
	Observer any

	// HeartbeatEvery is how often this process says in the table workers that it lives, what it serves and what runs: one
	// row a worker, written once at the start, then at this interval, up to a tenth less at random, and removed by a clean
	// stop. It is for people and why_not_running; no work depends on it. Default 10 s; at least 5 s; negative turns it off.
	HeartbeatEvery time.Duration
	// Version is the version of the application, shown in the table workers. At most 128 bytes; empty is fine.
	Version string

	echoEvery   time.Duration // of the listener, for tests; zero: its default
	standbyWait time.Duration // at the start, for tests; zero: standbyPatience
}

// DefaultHeartbeatEvery is the default of [WorkerConfig].HeartbeatEvery.
const DefaultHeartbeatEvery = 10 * time.Second

func (c WorkerConfig) validate() error {
	if len(c.Queues) == 0 {
		return &ValidationError{Field: "Queues", Message: "must name at least one queue"}
	}
	for name := range c.Queues {
		if err := checkName(fmt.Sprintf("Queues[%q]", name), name); err != nil {
			return err
		}
	}
	if c.ID != "" {
		if err := checkText("ID", c.ID, maxWorkerIDBytes); err != nil {
			return err
		}
	}
	if c.Version != "" {
		if err := checkText("Version", c.Version, maxNameBytes); err != nil {
			return err
		}
	}
	if c.HeartbeatEvery > 0 && c.HeartbeatEvery < minHeartbeatEvery || c.HeartbeatEvery > maxHeartbeatEvery {
		return &ValidationError{Field: "HeartbeatEvery", Message: fmt.Sprintf("must be from %s to %s, or negative for none, is %s",
			minHeartbeatEvery, maxHeartbeatEvery, c.HeartbeatEvery)}
	}
	if c.KeepAudit != 0 && c.KeepAudit < minKeepAudit {
		return &ValidationError{Field: "KeepAudit", Message: fmt.Sprintf("must be at least 7 days, is %s", c.KeepAudit)}
	}
	if c.ReapInterval < 0 {
		return &ValidationError{Field: "ReapInterval", Message: fmt.Sprintf("must not be negative, is %s", c.ReapInterval)}
	}
	return nil
}

// heartbeatEvery is how often the worker reports itself; zero: not at all.
func (c WorkerConfig) heartbeatEvery() time.Duration {
	if c.HeartbeatEvery == 0 {
		return DefaultHeartbeatEvery
	}
	return max(c.HeartbeatEvery, 0)
}

// workers is how many handlers run at a time.
func (c QueueConfig) workers() int { return cmp.Or(c.Workers, runner.DefaultWorkers) }

// renewInterval is how often a living worker renews, which the reaper waits for after an outage.
func (c WorkerConfig) renewInterval() time.Duration {
	if c.RenewEvery > 0 {
		return c.RenewEvery
	}
	if c.Lease > 0 {
		return c.Lease / 3
	}
	return runner.DefaultLease / 3
}

// storageTimeout bounds the statements that no runner sends.
func (c WorkerConfig) storageTimeout() time.Duration {
	if c.StorageTimeout > 0 {
		return c.StorageTimeout
	}
	return min(runner.DefaultStorageTimeout, c.renewInterval())
}

// minKeepAudit is what expire_audit refuses to go below.
const minKeepAudit = 7 * 24 * time.Hour

// maxWorkerIDBytes bounds what is written with every claim.
const maxWorkerIDBytes = 255

// runnerConfig puts the worker's and the queue's settings together.
func (c WorkerConfig) runnerConfig(client *Client, name string, kinds []runner.KindConfig) runner.Config {
	queue := c.Queues[name]
	return runner.Config{
		Name:           name,
		Workers:        queue.Workers,
		Batch:          queue.Batch,
		Window:         queue.Window,
		Poll:           queue.Poll,
		Deadline:       queue.Deadline,
		CleanUp:        queue.CleanUp,
		Backoff:        queue.Backoff,
		Lease:          c.Lease,
		RenewEvery:     c.RenewEvery,
		StorageTimeout: c.StorageTimeout,
		StopTimeout:    c.StopTimeout,
		Kinds:          boundKinds(kinds, queue.Workers),
		ProbedOutside:  true, // by the worker's prober, for all of its queues
		StoreErrorText: c.StoreErrorText && client.codecs == nil,
		SealErrorText:  c.StoreErrorText && client.codecs != nil,
		Logger:         client.logger,
		Observer:       c.Observer,
	}
}

// boundKinds fits the kinds' bounds to a queue: one mux may serve a queue of fifty workers and one of two, and what a kind
// may hold at most is no reason to refuse the smaller one.
func boundKinds(kinds []runner.KindConfig, workers int) []runner.KindConfig {
	if workers <= 0 {
		workers = runner.DefaultWorkers
	}
	most := workers
	if len(kinds) > 1 {
		most = max(1, workers-1)
	}
	bounded := slices.Clone(kinds)
	for i := range bounded {
		bounded[i].Workers = min(bounded[i].Workers, most)
	}
	return bounded
}

// settingError names a setting that the runner of a queue refused as the caller of NewWorker knows it.
func settingError(queue string, kinds []runner.KindConfig, err error) error {
	var refused *runner.ConfigError
	if !errors.As(err, &refused) {
		return fmt.Errorf("queue %q: %w", queue, err)
	}
	field := refused.Field
	for i, kind := range kinds {
		if setting, ok := strings.CutPrefix(field, fmt.Sprintf("Kinds[%d].", i)); ok {
			field = fmt.Sprintf("Handle[%q].%s", kind.Name, setting)
		}
	}
	switch field {
	case "Lease", "RenewEvery", "StorageTimeout", "StopTimeout": // of the worker, for all queues
	default:
		field = fmt.Sprintf("Queues[%q].%s", queue, field)
	}
	return &ValidationError{Field: field, Message: refused.Message, cause: err}
}

// newWorkerID makes an id that a person can trace to a process and that no other process has.
func newWorkerID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	if len(host) > 128 {
		host = host[:128]
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails, by its contract
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), hex.EncodeToString(random[:]))
}
