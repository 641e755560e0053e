package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// Editor changes schedules at run time: for tools, and for programs whose users make schedules. What it does takes effect with the commit
// of q, which any scheduler notices within its Poll; plain SQL does the same (docs/schedules.md). What cannot be meant, such as no q or a
// name with NUL, is a [*ConfigError], before any SQL. Safe for concurrent use.
type Editor struct {
	client *pgqueue.Client
	store  *store
}

// NewEditor makes an editor for the schema of a client, which enqueues for [Editor.TriggerNow]. It sends no SQL.
func NewEditor(client *pgqueue.Client) (*Editor, error) {
	if client == nil {
		return nil, fmt.Errorf("new editor: %w", invalid("client", "must not be nil"))
	}
	return &Editor{client: client, store: newStore(client.Schema(), databaseNow)}, nil
}

// Put makes a schedule, or changes all that s says of one of the same name: whether it is enabled, and whose it is, stay as they are. One
// that a program has registered keeps the change until the program itself says something else than before. A changed Spec or TimeZone
// begins to count at once; otherwise the next tick stays. A schedule with an ArgsFunc cannot be put, and one that had a function gets the
// arguments of s instead; to change only its time see [Editor.SetSpec].
//
// inserted says that there was none. What cannot be meant is a [*ConfigError], before any SQL.
func (e *Editor) Put(ctx context.Context, q pgqueue.Querier, s Schedule) (inserted bool, err error) {
	if err := runsOn(q); err != nil {
		return false, fmt.Errorf("put schedule %q: %w", s.Name, err)
	}
	if s.ArgsFunc != nil {
		return false, fmt.Errorf("put schedule: %w", invalid("args_func", "cannot be kept in the database: register the schedule with a Scheduler"))
	}
	row, refused := newEntry(e.client, s)
	if refused != nil {
		return false, fmt.Errorf("put schedule %q: %w", s.Name, refused)
	}
	payload, err := row.sealed(ctx, e.client)
	if err != nil {
		return false, fmt.Errorf("put schedule %q: %w", s.Name, err)
	}
	rows, err := q.Query(ctx, e.store.texts["put"], row.Jitter, row.CatchUpLimit, row.Priority, row.MaxAttempts, row.Name, row.Spec, row.Zone,
		row.CatchUp, row.Queue, row.Kind, row.Key, payload, row.Metadata, row.Tags)
	if err == nil {
		inserted, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	}
	if err != nil {
		return false, fmt.Errorf("put schedule %q: %w", s.Name, err)
	}
	return inserted, nil
}

// SetSpec changes when a schedule runs, and nothing else. An empty zone is UTC. [ErrNoSchedule] where there is none.
func (e *Editor) SetSpec(ctx context.Context, q pgqueue.Querier, name, spec, zone string) error {
	parsed, err := Parse(spec)
	if err != nil {
		return fmt.Errorf("set spec of schedule %q: %w", name, invalid("spec", err.Error()))
	}
	location, err := LoadZone(zone)
	if err != nil {
		return fmt.Errorf("set spec of schedule %q: %w", name, invalid("time_zone", err.Error()))
	}
	return e.change(ctx, q, "set_spec", name, parsed.String(), location.String())
}

// Enable lets a schedule run again, beginning with the next tick from now: what it rested through is not caught up. [ErrNoSchedule]
// where there is none.
func (e *Editor) Enable(ctx context.Context, q pgqueue.Querier, name string) error {
	return e.change(ctx, q, "set_enabled", name, true)
}

// Disable lets a schedule rest until it is enabled. Restarts and deployments of the program that registered it leave that as it is.
// [ErrNoSchedule] where there is none.
func (e *Editor) Disable(ctx context.Context, q pgqueue.Querier, name string) error {
	return e.change(ctx, q, "set_enabled", name, false)
}

// Delete removes a schedule. Its jobs stay. One that a program has in its code comes back when a process of that program starts; disable it
// instead. [ErrNoSchedule] where there is none.
func (e *Editor) Delete(ctx context.Context, q pgqueue.Querier, name string) error {
	return e.change(ctx, q, "delete", name)
}

func (e *Editor) change(ctx context.Context, q pgqueue.Querier, statement, name string, args ...any) error {
	if err := checkCall(q, name); err != nil {
		return fmt.Errorf("%s of schedule %q: %w", statement, name, err)
	}
	found, err := e.store.strings(ctx, q, statement, append([]any{name}, args...)...)
	if err == nil && len(found) == 0 {
		err = ErrNoSchedule
	}
	if err != nil {
		return fmt.Errorf("schedule %q: %w", name, err)
	}
	return nil
}

// TriggerNow enqueues a job of a schedule now, beside its ticks, which stay as they are: in or out of a transaction, enabled or not. The
// job's metadata has "schedule" and no "tick". [ErrNoSchedule] where there is none, [ErrNeedsProgram] where a Go function makes the
// arguments: SQL that sets next_run_at to now works for those as well, and counts as a tick.
//
// options come on top of those of the schedule, for this job alone: [pgqueue.WithIdempotencyKey], so that a form that is sent twice triggers once.
func (e *Editor) TriggerNow(ctx context.Context, q pgqueue.Querier, name string, options ...pgqueue.EnqueueOption) (pgqueue.Enqueued, error) {
	stored, err := e.one(ctx, q, name)
	if err == nil && stored.Dynamic {
		err = ErrNeedsProgram
	}
	if err != nil {
		return pgqueue.Enqueued{}, fmt.Errorf("trigger: %w", err)
	}
	r := &row{
		name: name, kind: stored.Kind, queue: stored.Queue, priority: int16(stored.Priority), maxAttempts: int16(stored.MaxAttempts),
		payload: string(stored.Payload), metadata: string(stored.Metadata), tags: stored.Tags,
	}
	if stored.Key != "" {
		r.key = &stored.Key
	}
	args, err := r.fixedArgs(ctx, e.client)
	if err != nil {
		return pgqueue.Enqueued{}, fmt.Errorf("trigger: %w", err)
	}
	enqueued, err := e.client.Enqueue(ctx, q, args, append(r.options(), options...)...)
	if err != nil {
		return enqueued, fmt.Errorf("trigger schedule %q: %w", name, err)
	}
	return enqueued, nil
}

// Stored is a schedule as it stands in the database. All times are the database's; zero means that there is none.
type Stored struct {
	Name, Spec, TimeZone string
	Kind, Queue          string
	Key                  string // empty: none
	Priority             int
	MaxAttempts          int
	Payload              json.RawMessage
	Metadata             json.RawMessage
	Tags                 []string
	CatchUp              CatchUp
	CatchUpLimit         int
	Jitter               time.Duration
	Dynamic              bool // a Go function makes the arguments
	Enabled              bool
	Source               string // which program registered it; empty: made by hand

	Failures  int    // in a row
	LastError string // why its last tick could not be enqueued; empty: all is well
	LastJobID int64  // of the latest tick; 0: none

	CreatedAt, UpdatedAt time.Time
	NextRunAt            time.Time // zero: to be worked out, which takes a second, or none, see Ended
	Ended                bool      // there is no next tick: it was one instant, or one that had passed
	LastRunAt            time.Time
	RetryAt              time.Time // after a failure
	RetiredAt            time.Time // since when no program of its source has it any more
}

// Get reads one schedule. [ErrNoSchedule] where there is none.
func (e *Editor) Get(ctx context.Context, q pgqueue.Querier, name string) (Stored, error) {
	found, err := e.one(ctx, q, name)
	if err != nil {
		return Stored{}, err
	}
	found.open(ctx, e.client)
	return found, nil
}

// one is Get with the payload as it is stored.
func (e *Editor) one(ctx context.Context, q pgqueue.Querier, name string) (Stored, error) {
	if err := checkCall(q, name); err != nil {
		return Stored{}, fmt.Errorf("schedule %q: %w", name, err)
	}
	found, err := e.read(ctx, q, "", nil, 1, &name)
	if err == nil && len(found) == 0 {
		err = ErrNoSchedule
	}
	if err != nil {
		return Stored{}, fmt.Errorf("schedule %q: %w", name, err)
	}
	return found[0], nil
}

// ListFilter says which schedules are listed.
type ListFilter struct {
	After  string  // only names after this one: the last name of the page before
	Source *string // only of this program; nil: of all
	Limit  int     // 0 is 100; at most 1,000
}

// List reads schedules in the order of their names, retired ones too.
func (e *Editor) List(ctx context.Context, q pgqueue.Querier, filter ListFilter) ([]Stored, error) {
	if err := filter.check(q); err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	limit := page(filter.Limit)
	found, err := e.read(ctx, q, filter.After, filter.Source, limit, nil)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	for i := range found {
		found[i].open(ctx, e.client)
	}
	return found, nil
}

// check refuses what cannot be meant.
func (f ListFilter) check(q pgqueue.Querier) error {
	if err := runsOn(q); err != nil {
		return err
	}
	if f.After != "" {
		if err := checkText("after", f.After); err != nil {
			return err
		}
	}
	if f.Source != nil && *f.Source != "" {
		if err := checkText("source", *f.Source); err != nil {
			return err
		}
	}
	return checkLimit(f.Limit)
}

func page(limit int) int {
	if limit == 0 {
		return 100
	}
	return min(limit, 1000)
}

func (e *Editor) read(ctx context.Context, q pgqueue.Querier, after string, source *string, limit int, name *string) ([]Stored, error) {
	rows, err := q.Query(ctx, e.store.texts["list"], after, source, limit, name)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Stored, error) {
		var (
			s                         Stored
			payload, metadata         string
			jitter                    int64
			next, last, retry, gone   *time.Time
			priority, attempts, limit int32
		)
		err := row.Scan(&s.Name, &s.Spec, &s.TimeZone, &s.Kind, &s.Queue, &s.Key, &priority, &attempts, &payload, &metadata, &s.Tags,
			&s.CatchUp, &limit, &jitter, &s.Dynamic, &s.Enabled, &s.Source, &s.Failures, &s.LastError, &s.LastJobID, &s.CreatedAt, &s.UpdatedAt,
			&next, &s.Ended, &last, &retry, &gone)
		s.Priority, s.MaxAttempts, s.CatchUpLimit = int(priority), int(attempts), int(limit)
		s.Payload, s.Metadata, s.Jitter = json.RawMessage(payload), json.RawMessage(metadata), time.Duration(jitter)*time.Microsecond
		for to, from := range map[*time.Time]*time.Time{&s.NextRunAt: next, &s.LastRunAt: last, &s.RetryAt: retry, &s.RetiredAt: gone} {
			if from != nil {
				*to = *from
			}
		}
		return s, err
	})
}

// PastTick is a tick that has been.
type PastTick struct {
	At         time.Time // the instant
	EnqueuedAt time.Time
	JobID      int64 // 0: none was wanted
}

// Ticks reads the ticks of a schedule, the latest first, those before an instant if that is not zero. limit 0 is 100; at most 1,000.
func (e *Editor) Ticks(ctx context.Context, q pgqueue.Querier, name string, before time.Time, limit int) ([]PastTick, error) {
	err := checkCall(q, name)
	if err == nil {
		err = checkLimit(limit)
	}
	if err != nil {
		return nil, fmt.Errorf("ticks of schedule %q: %w", name, err)
	}
	var until *time.Time
	if !before.IsZero() {
		until = &before
	}
	rows, err := q.Query(ctx, e.store.texts["ticks"], name, until, page(limit))
	var found []PastTick
	if err == nil {
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[PastTick])
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("ticks of schedule %q: %w", name, err)
	}
	return found, nil
}
