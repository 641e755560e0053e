package console

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// databaseFigures are the numbers beside the doctor's findings. Sizes are bytes; ages of transactions are numbers of transactions.
type databaseFigures struct {
	Server      part[serverFigures]
	Tables      part[tableFigures]
	Partitions  part[partitionFigures]
	Holders     part[holderFigures]
	Hidden      part[hiddenFigures]
	Slots       part[slotFigures]
	Standbys    part[standbyFigures]
	Notify      part[notifyFigures]
	Connections part[connectionFigures]
	Vacuuming   part[vacuumFigures]
	Settings    part[settingFigures]

	HiddenNote string // how many sessions of others are not visible, and what would show them; empty: all are
}

type serverFigures struct {
	Now           time.Time
	Version       string
	Number        int32
	Database      string
	Role          string
	Standby       bool
	Started       time.Time
	FrozenAge     int64 // of the oldest row of the database that is not frozen
	FreezeFrom    int64 // autovacuum_freeze_max_age
	ReplayBytes   int64 // received and not replayed; -1: not known
	ReplayedUntil *time.Time
}

// LastReplay is when what was replayed last was committed.
func (s serverFigures) LastReplay() time.Time { return timeOf(s.ReplayedUntil) }

// timeOf is a time that may be missing; then it is zero.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// maxXIDAge is where Postgres stops giving out transaction numbers.
const maxXIDAge = 1<<31 - 3_000_000

// FrozenPercent is how much of the room for transaction numbers is used up, in whole percents.
func (s serverFigures) FrozenPercent() int64 { return 100 * s.FrozenAge / maxXIDAge }

type tableFigures struct {
	Name                 string
	Heap, Indexes, Total int64
	Live, Dead           int64
	Threshold            *float64 // dead rows from which on autovacuum means to work
	Updated, Hot         int64
	Vacuumed             *time.Time
	Vacuums              int64
}

// Over says whether the dead rows are beyond twice what autovacuum means to leave, as the doctor judges it.
func (t tableFigures) Over() bool { return t.Threshold != nil && float64(t.Dead) > 2**t.Threshold }

// From is the threshold as a whole number.
func (t tableFigures) From() int64 {
	if t.Threshold == nil || math.IsNaN(*t.Threshold) {
		return 0
	}
	return int64(min(*t.Threshold, math.MaxInt32))
}

// LastVacuum is when the table was vacuumed last; zero: never.
func (t tableFigures) LastVacuum() time.Time { return timeOf(t.Vacuumed) }

// HotShare is how many updates, of a hundred, touched no index; -1 where there was none.
func (t tableFigures) HotShare() int64 {
	if t.Updated <= 0 {
		return -1
	}
	return 100 * t.Hot / t.Updated
}

type partitionFigures struct {
	Name     string
	Day      time.Time
	Distance int32 // days from today; negative is past
	Size     int64
	Rows     int64 // by the last ANALYZE
	Pending  bool  // a DETACH was interrupted
	All      int64 // how many partitions of days there are
}

type holderFigures struct {
	What         string
	Name         string
	Since        *time.Time
	Transactions int64 // -1: not known
	Detail       string
}

// Start is since when; zero: not known.
func (h holderFigures) Start() time.Time { return timeOf(h.Since) }

type hiddenFigures struct {
	Sessions int64
	Monitor  bool // the role may see all sessions
}

type slotFigures struct {
	Name, Kind   string
	Active       bool
	Status       string
	Retained     int64
	Transactions int64 // that it holds back vacuum by; -1: it does not
}

type standbyFigures struct {
	Name, Client, State, Sync string
	Behind                    int64 // bytes; -1: not known
	Lag                       *float64
}

// LagTime is the time for which it is behind; zero where it is not known.
func (s standbyFigures) LagTime() time.Duration {
	if s.Lag == nil {
		return 0
	}
	return time.Duration(*s.Lag * float64(time.Second))
}

type notifyFigures struct {
	Usage *float64 // 0 to 1; nil in recovery
}

// Percent is the usage of a hundred.
func (n notifyFigures) Percent() float64 {
	if n.Usage == nil {
		return 0
	}
	return 100 * *n.Usage
}

type connectionFigures struct{ Used, Here, Max, Reserved int64 }

// Open is how many connections ordinary roles may have.
func (c connectionFigures) Open() int64 { return max(c.Max-c.Reserved, 1) }

type vacuumFigures struct {
	Table, Phase   string
	Scanned, Total int64
}

type settingFigures struct {
	Name, Value, Source string
	Pending             bool // a restart is needed for what is in the file
}

// Means says what a setting does to a queue.
func (s settingFigures) Means() string { return settingsShown()[s.Name] }

// settingsShown are the settings of the screen, each with what it means for a queue.
func settingsShown() map[string]string {
	return map[string]string{
		"autovacuum":                            "Without it dead rows stay for ever.",
		"autovacuum_max_workers":                "How many tables of the server are vacuumed at once. If large tables keep all of them busy, the queue's waits.",
		"autovacuum_naptime":                    "How often autovacuum looks for work. The queue's table can need it each time.",
		"autovacuum_vacuum_cost_limit":          "The brake of autovacuum. pgqueue's jobs table has none of its own accord.",
		"default_transaction_isolation":         "pgqueue's own statements set READ COMMITTED themselves; your transactions that enqueue have this one.",
		"default_transaction_read_only":         "If on, nothing can be enqueued or completed.",
		"fsync":                                 "If off, a crash of the machine may cost the whole database.",
		"full_page_writes":                      "If off, a crash may leave torn pages.",
		"hot_standby_feedback":                  "On a standby: its queries hold back vacuum on the primary.",
		"idle_in_transaction_session_timeout":   "Ends sessions that keep a transaction open and do nothing, which hold back vacuum. 0 is never.",
		"lock_timeout":                          "How long a statement waits for a lock. 0 is for ever.",
		"max_connections":                       "Each worker process has one connection for its listener and those of its pool.",
		"max_prepared_transactions":             "Above 0, transactions may be prepared, and forgotten.",
		"max_slot_wal_keep_size":                "How much WAL a slot may keep for a reader that is gone. -1 is: until the disk is full.",
		"max_standby_streaming_delay":           "On a standby: how long it lets a query hold up what comes from the primary.",
		"shared_buffers":                        "Memory for pages. The queue's hot pages should stay in it.",
		"statement_timeout":                     "How long a statement may take, for roles without one of their own. 0 is for ever.",
		"synchronous_commit":                    "If off, the last commits, and so jobs that were enqueued or completed, may be lost in a crash.",
		"synchronous_standby_names":             "Standbys whose answer each commit waits for. A failover to one of them loses nothing.",
		"track_activities":                      "If off, nobody sees which session holds back vacuum.",
		"track_counts":                          "If off, autovacuum does not know what to do.",
		"transaction_timeout":                   "From Postgres 17 on: how long any transaction may take. 0 is for ever.",
		"wal_level":                             "logical lets subscribers decode each change of a queue: leave its tables out of publications.",
		"autovacuum_vacuum_max_threshold":       "From Postgres 18 on: the most dead rows that autovacuum leaves in any table.",
		"autovacuum_freeze_max_age":             "The age in transactions from which on a table is vacuumed even where autovacuum is off.",
		"tcp_keepalives_idle":                   "How soon the server notices that a client's machine is gone. Its transaction ends only then.",
		"client_connection_check_interval":      "How often a running statement looks whether its client is still there. 0 is never.",
		"idle_session_timeout":                  "Ends idle sessions. It must be 0 for workers: their listener is idle for hours.",
		"autovacuum_vacuum_insert_scale_factor": "The share of new rows from which on a table that is only inserted into is vacuumed.",
	}
}

// settingNames are the names of settingsShown.
func settingNames() []string {
	var names []string
	for name := range settingsShown() {
		names = append(names, name)
	}
	return names
}

// readDatabase reads all figures, one after the other. The error is that of a server which could not be reached, or of ctx.
func readDatabase(ctx context.Context, pool databasePool, schema string) (*databaseFigures, error) {
	r := &figureReader{pool: pool, texts: statementsOf(schema)}
	f := &databaseFigures{Server: readFigures[serverFigures](ctx, r, "server")}
	if role := f.Server.First().Role; role != "" {
		r.role = pgx.Identifier{role}.Sanitize()
	}
	f.Tables = readFigures[tableFigures](ctx, r, "tables", schema)
	f.Partitions = readFigures[partitionFigures](ctx, r, "partitions", schema)
	f.Holders = readFigures[holderFigures](ctx, r, "holders")
	f.Hidden = readFigures[hiddenFigures](ctx, r, "hidden")
	f.Slots = readFigures[slotFigures](ctx, r, "slots")
	f.Standbys = readFigures[standbyFigures](ctx, r, "standbys")
	f.Notify = readFigures[notifyFigures](ctx, r, "notify")
	f.Connections = readFigures[connectionFigures](ctx, r, "connections")
	f.Vacuuming = readFigures[vacuumFigures](ctx, r, "vacuuming", schema)
	f.Settings = readFigures[settingFigures](ctx, r, "settings", settingNames())
	if hidden := f.Hidden.First(); hidden.Sessions > 0 && !hidden.Monitor {
		f.HiddenNote = strings.TrimSuffix(r.notVisible(), ".")
	}
	return f, r.err
}

// Ahead is how many days, today not counted, have a partition already.
func (f *databaseFigures) Ahead() int {
	n := 0
	for _, p := range f.Partitions.Rows {
		if p.Distance > 0 {
			n++
		}
	}
	return n
}

// Listed is how many days are listed.
func (f *databaseFigures) Listed() int64 { return int64(len(f.Partitions.Rows)) }

// HistorySize is what the listed days take.
func (f *databaseFigures) HistorySize() (size int64) {
	for _, p := range f.Partitions.Rows {
		size += p.Size
	}
	return size
}

// TablesSize is what the listed tables take.
func (f *databaseFigures) TablesSize() (size int64) {
	for _, t := range f.Tables.Rows {
		size += t.Total
	}
	return size
}

// DeadJobs are the dead rows of the jobs table.
func (f *databaseFigures) DeadJobs() (jobs tableFigures) {
	for _, t := range f.Tables.Rows {
		if t.Name == "jobs" {
			jobs = t
		}
	}
	return jobs
}

// Oldest is who holds back vacuum most; the zero value where nobody does.
func (f *databaseFigures) Oldest() holderFigures { return f.Holders.First() }
