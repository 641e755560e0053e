package schedule

import (
	"fmt"
	"log/slog"
	"time"
)

// Defaults of a [Config].
const (
	DefaultPoll         = time.Second
	DefaultTimeout      = 5 * time.Second
	DefaultConcurrency  = 4
	DefaultRetireAfter  = time.Minute
	DefaultKeepTicks    = 7 * 24 * time.Hour
	DefaultCatchUpLimit = 100
)

// What is not worth a setting.
const (
	maxConcurrency = 100
	maxJitter      = 24 * time.Hour
	maxCatchUp     = 10_000
	maxNameBytes   = 128
	maxSchedules   = 10_000
	keptTicks      = 100                 // of each schedule, however old
	buryAfter      = 30 * 24 * time.Hour // retired schedules
	cleanEvery     = 5 * time.Minute
	forgetBatch    = 1000
	dueLimit       = 100 // schedules that one look takes in
	firstBackoff   = time.Second
	lastBackoff    = time.Minute
)

// Config sets up a [Scheduler]. The zero value is a scheduler without schedules of its own, which serves those that are in the database.
type Config struct {
	// Source names the program that Schedules belong to, "billing" say: the same in all of its processes and versions, and another than
	// that of every other program. It is needed where there are Schedules. At most 128 bytes.
	Source string
	// Schedules are registered at the start. See the package documentation for what a start changes and what it leaves alone.
	Schedules []Schedule
	// Logger is where to log to. The default, and nil, is slog.Default().
	Logger *slog.Logger
	// Observer is told what happens; it may implement [TickObserver] and [ErrorObserver].
	Observer any
	// Poll is how long the scheduler sleeps at most before it looks again, when nothing is due sooner: so long may a change by SQL go
	// unnoticed. Each look is one statement that reads. The default is [DefaultPoll], a second; from 10 ms to a minute.
	Poll time.Duration
	// Timeout bounds the transaction of one tick, the function that makes arguments included. The default is [DefaultTimeout], 5 s; from
	// 10 ms to an hour.
	Timeout time.Duration
	// Concurrency is how many ticks of different schedules may be under way at a time, each with a connection of the client's pool. Those
	// that failed the last time get at most half of it. The default is [DefaultConcurrency], 4; at most 100.
	Concurrency int
	// RetireAfter is how long a schedule of this Source lives on after the last process that has it in its code has gone. It must be longer
	// than the pauses between calls of [Scheduler.Tick], where different versions of a program do nothing else. The default is
	// [DefaultRetireAfter], a minute; from 100 ms to 30 days.
	RetireAfter time.Duration
	// KeepTicks is how long the table schedule_ticks remembers ticks; the last hundred of each schedule stay in any case. The default is
	// [DefaultKeepTicks], 7 days; at least an hour.
	KeepTicks time.Duration
}

// withDefaults fills in the defaults and checks everything but the schedules.
func (c Config) withDefaults() (Config, error) {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	for _, d := range []struct {
		field         string
		value         *time.Duration
		usual, lo, hi time.Duration
	}{
		{"poll", &c.Poll, DefaultPoll, 10 * time.Millisecond, time.Minute},
		{"timeout", &c.Timeout, DefaultTimeout, 10 * time.Millisecond, time.Hour},
		{"retire_after", &c.RetireAfter, DefaultRetireAfter, 100 * time.Millisecond, 30 * 24 * time.Hour},
		{"keep_ticks", &c.KeepTicks, DefaultKeepTicks, time.Hour, 100 * 365 * 24 * time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.usual
		}
		if *d.value < d.lo || *d.value > d.hi {
			return c, invalid(d.field, fmt.Sprintf("must be from %s to %s, is %s", d.lo, d.hi, *d.value))
		}
	}
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	switch {
	case c.Concurrency < 1 || c.Concurrency > maxConcurrency:
		return c, invalid("concurrency", fmt.Sprintf("must be from 1 to %d, is %d", maxConcurrency, c.Concurrency))
	case len(c.Schedules) > maxSchedules:
		return c, invalid("schedules", fmt.Sprintf("are too many: %d where %d are allowed", len(c.Schedules), maxSchedules))
	case c.Source == "" && len(c.Schedules) > 0:
		return c, invalid("source", "must not be empty where there are schedules: it says whose they are")
	case c.Source != "":
		if err := checkText("source", c.Source); err != nil {
			return c, err
		}
	}
	return c, nil
}
