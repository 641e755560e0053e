package schedule

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// CatchUp says what becomes of ticks that nobody was there for: all processes were down, or the database was.
type CatchUp string

// The policies.
const (
	// Skip enqueues nothing for ticks that are more than a minute late, and at most the last one of those that are less.
	Skip CatchUp = "skip"
	// Latest enqueues one job for all of them, with the latest as its tick. It is the default.
	Latest CatchUp = "latest"
	// All enqueues a job for each of them, oldest first, but at most CatchUpLimit: the latest ones.
	All CatchUp = "all"
)

// skipAfter is how late a tick may be that Skip still enqueues.
const skipAfter = time.Minute

// Tick is one occurrence of a schedule.
type Tick struct {
	Schedule string    // its name
	At       time.Time // the instant, in UTC
}

// Schedule says what is enqueued when.
type Schedule struct {
	// Name identifies it in the database, whoever registers it. At most 128 bytes.
	Name string
	// Spec says when; see [Parse].
	Spec string
	// TimeZone is the IANA zone in which the fields of Spec are meant, "Europe/Copenhagen" say. Empty means UTC.
	TimeZone string
	// Args are the arguments of each job. With ArgsFunc they only say of which kind the jobs are, and may be the zero value.
	Args pgqueue.Args
	// ArgsFunc makes the arguments of each job anew, of the kind of Args. It is called inside of the transaction that enqueues the job, at
	// most one call of a tick at a time among all processes, again after a failure, and by this program only: a schedule with a function is
	// left alone by programs that do not have it. It has [Config].Timeout; one that ignores its context delays no other schedule, but
	// its own for as long as it runs. An error or a panic is tried again; [ErrSkip] means no job for this tick.
	ArgsFunc func(ctx context.Context, tick Tick) (pgqueue.Args, error)
	// Options are those of each job: queue, priority, tags, metadata, max attempts, and a key for jobs of which at most one should be live
	// at a time (without one they may overlap). Others cannot be kept in the database and are refused.
	Options []pgqueue.EnqueueOption
	// CatchUp is the policy for missed ticks; the default, and empty, is [Latest].
	CatchUp CatchUp
	// CatchUpLimit bounds [All]. The default is [DefaultCatchUpLimit], 100; at most 10,000.
	CatchUpLimit int
	// Jitter makes each job due a while after its tick, at random but always the same for one tick, less than this. At most a day.
	Jitter time.Duration
}

// entry is a schedule as the table holds it.
type entry struct {
	Name, Spec, Zone, Kind, Queue string
	Key                           *string
	Priority, MaxAttempts         int
	Payload, Metadata             string
	Tags                          []string
	CatchUp                       string
	CatchUpLimit                  int
	Jitter                        int64 // microseconds
	Dynamic                       bool
}

// definition is a hash of all that a program says of a schedule: with codecs one that nobody can guess the payload from.
func (e entry) definition(client *pgqueue.Client) (string, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	sum := client.Fingerprint(text)
	return hex.EncodeToString(sum[:16]), nil
}

// newEntry validates a schedule. No SQL is sent.
func newEntry(client *pgqueue.Client, s Schedule) (entry, *ConfigError) {
	e := entry{Name: s.Name, Zone: s.TimeZone, CatchUp: string(s.CatchUp), CatchUpLimit: s.CatchUpLimit, Jitter: s.Jitter.Microseconds(), Dynamic: s.ArgsFunc != nil}
	if err := checkText("name", s.Name); err != nil {
		return e, err
	}
	spec, err := Parse(s.Spec)
	if err != nil {
		return e, invalid("spec", err.Error())
	}
	e.Spec = spec.String()
	if _, err := LoadZone(s.TimeZone); err != nil {
		return e, invalid("time_zone", err.Error())
	}
	if e.Zone == "" {
		e.Zone = time.UTC.String()
	}
	switch s.CatchUp {
	case "":
		e.CatchUp = string(Latest)
	case Skip, Latest, All:
	default:
		return e, invalid("catch_up", fmt.Sprintf("must be skip, latest or all, is %q", s.CatchUp))
	}
	if e.CatchUpLimit == 0 {
		e.CatchUpLimit = DefaultCatchUpLimit
	}
	if e.CatchUpLimit < 1 || e.CatchUpLimit > maxCatchUp {
		return e, invalid("catch_up_limit", fmt.Sprintf("must be from 1 to %d, is %d", maxCatchUp, e.CatchUpLimit))
	}
	if s.Jitter < 0 || s.Jitter > maxJitter {
		return e, invalid("jitter", fmt.Sprintf("must be from 0 to %s, is %s", maxJitter, s.Jitter))
	}
	return e, e.fillJob(client, s)
}

// fillJob takes over what the job says.
func (e *entry) fillJob(client *pgqueue.Client, s Schedule) (refused *ConfigError) {
	defer func() {
		if cause := recover(); cause != nil {
			refused = invalid("args", fmt.Sprintf("cannot be used: a method of %T panicked: %v", s.Args, cause))
		}
	}()
	if s.Args == nil {
		return invalid("args", "must not be nil: they say of which kind the jobs are")
	}
	job := pgqueue.NewJob{Args: s.Args, Options: s.Options}
	resolved, err := client.Resolve(job)
	if err == nil && e.Dynamic {
		// What the type says of its values (a key, a rule of uniqueness, a delay) is asked for at each tick; what the schedule says is kept.
		var own pgqueue.ResolvedJob
		own, err = client.Resolve(pgqueue.NewJob{Args: pgqueue.Raw{Name: resolved.Kind}, Options: s.Options})
		resolved.Key, resolved.Revision, resolved.RunAt, resolved.Delay, resolved.More = own.Key, own.Revision, own.RunAt, own.Delay, own.More
		resolved.Payload = own.Payload
	}
	if err != nil {
		var detail *pgqueue.ValidationError
		if errors.As(err, &detail) {
			return &ConfigError{Field: detail.Field, Message: detail.Message, cause: err}
		}
		return &ConfigError{Field: "args", Message: "cannot be used: " + err.Error(), cause: err}
	}
	switch {
	case !resolved.RunAt.IsZero() || resolved.Delay != 0:
		return invalid("options", "must not say when a job is due: its tick says that")
	case resolved.Revision != "":
		return invalid("options", "must not give a revision: all ticks would be the same")
	case resolved.More:
		return invalid("options", "say more than a queue, a key, a priority, tags, metadata and attempts, and nothing else can be kept with a schedule; with ArgsFunc the options of the type are asked for at each tick")
	}
	e.Kind, e.Queue, e.Priority, e.MaxAttempts = resolved.Kind, resolved.Queue, resolved.Priority, resolved.MaxAttempts
	e.Payload, e.Metadata, e.Tags = string(resolved.Payload), string(resolved.Metadata), resolved.Tags
	if e.Tags == nil {
		e.Tags = []string{}
	}
	if resolved.Key != "" {
		e.Key = &resolved.Key
	}
	return nil
}

// newEntries validates all schedules of a program.
func newEntries(client *pgqueue.Client, schedules []Schedule) ([]entry, error) {
	entries := make([]entry, len(schedules))
	taken := make(map[string]int, len(schedules))
	for i, s := range schedules {
		e, refused := newEntry(client, s)
		if refused != nil {
			refused.Field = fmt.Sprintf("schedules[%d].%s", i, refused.Field)
			if s.Name != "" && len(s.Name) <= maxNameBytes {
				refused.Message += fmt.Sprintf(" (schedule %q)", s.Name)
			}
			return nil, refused
		}
		if other, ok := taken[s.Name]; ok {
			return nil, invalid(fmt.Sprintf("schedules[%d].name", i), fmt.Sprintf("is %q, as that of schedules[%d]", s.Name, other))
		}
		taken[s.Name] = i
		entries[i] = e
	}
	return entries, nil
}
