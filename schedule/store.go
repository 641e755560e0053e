package schedule

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/pgqueue"
)

//go:embed schedule.sql
var statementFile string

// databaseNow is the one place that says what time it is. Tests of this package put another expression in its place; see store.
const databaseNow = "statement_timestamp()"

// store sends the statements of schedule.sql.
type store struct {
	texts map[string]string
}

// newStore puts the schema and the clock into the statements. now is an expression of SQL: databaseNow, or in tests one that reads a clock
// which can be moved.
func newStore(schema, now string) *store {
	s := &store{texts: map[string]string{}}
	fill := strings.NewReplacer("{schema}", pgx.Identifier{schema}.Sanitize(), "{now}", now)
	for _, section := range strings.Split("\n"+statementFile, "\n-- name: ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		var lines []string
		for line := range strings.SplitSeq(body, "\n") {
			// Comments teach the reader of the file; they need not travel with each call.
			if line, _, _ = strings.Cut(line, "--"); strings.TrimSpace(line) != "" {
				lines = append(lines, strings.TrimRight(line, " "))
			}
		}
		s.texts[strings.TrimSpace(name)] = fill.Replace(strings.TrimSuffix(strings.Join(lines, "\n"), ";"))
	}
	return s
}

// exec runs a statement and reads what it answers, if anything, to the end: [pgqueue.Querier] has no Exec.
func (s *store) exec(ctx context.Context, q pgqueue.Querier, name string, args ...any) (int64, error) {
	rows, err := q.Query(ctx, s.texts[name], args...)
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return rows.CommandTag().RowsAffected(), nil
}

// strings runs a statement that answers with one text a row.
func (s *store) strings(ctx context.Context, q pgqueue.Querier, name string, args ...any) ([]string, error) {
	rows, err := q.Query(ctx, s.texts[name], args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return found, nil
}

// dueNow is what the statement "due" answers.
type dueNow struct {
	names   []string        // those that are well first
	failing map[string]bool // of names: has failed the last time, in whatever process, and was not edited since
	wait    time.Duration   // until the next one, at most maxWait; 0 = there is none
}

// maxWait bounds what need not be exact, since nobody sleeps so long: the year 9999, a common way to say "not now", is more than a
// [time.Duration] holds.
const maxWait = time.Hour

func (s *store) due(ctx context.Context, q pgqueue.Querier, functions, inHand []string, limit int) (dueNow, error) {
	rows, err := q.Query(ctx, s.texts["due"], functions, inHand, limit)
	if err != nil {
		return dueNow{}, fmt.Errorf("due: %w", err)
	}
	var (
		found   = dueNow{failing: map[string]bool{}}
		name    string
		wait    int64
		failing bool
	)
	_, err = pgx.ForEachRow(rows, []any{&name, &wait, &failing}, func() error {
		if name == "" {
			found.wait = time.Duration(max(1, min(wait, maxWait.Microseconds()))) * time.Microsecond
			return nil
		}
		found.names = append(found.names, name)
		if failing {
			found.failing[name] = true
		}
		return nil
	})
	if err != nil {
		return dueNow{}, fmt.Errorf("due: %w", err)
	}
	return found, nil
}

// row is a schedule that a transaction has locked.
type row struct {
	name, spec, zone, kind, queue string
	key                           *string
	priority, maxAttempts         int16
	payload, metadata             string
	tags                          []string
	catchUp                       string
	catchUpLimit                  int
	jitter                        int64 // microseconds
	dynamic                       bool
	failures                      int
	createdAt, updatedAt          time.Time
	lastRunAt, nextRunAt          *time.Time
	now                           time.Time

	stands pgtype.Timestamptz // next_run_at as it stands there, even where it is none that a schedule can have
}

// unreadableError is a row that holds what no scheduler understands: its constraints were dropped, or a newer version wrote it. Of such a row
// the name is known, how often it failed, and its next_run_at, so that the failure can be written down.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string {
	if column, ok := errors.AsType[pgx.ScanArgError](e.err); ok && column.FieldName != "" {
		return fmt.Sprintf("the row cannot be read: %s: %v", column.FieldName, column.Err)
	}
	return "the row cannot be read: " + e.err.Error()
}
func (e *unreadableError) Unwrap() error { return e.err }

// take locks a schedule that is due. nil: it is not, any more, or somebody else has it. With an [*unreadableError] comes what could be read.
func (s *store) take(ctx context.Context, tx pgx.Tx, name string, hasFunction bool, timeout time.Duration) (*row, error) {
	batch := &pgx.Batch{}
	// Idle is what it is while the arguments are made, which has the same bound; the second bound is for who is not there any more.
	batch.Queue(s.texts["bound"], milliseconds(timeout), milliseconds(timeout+idleMargin))
	batch.Queue(s.texts["take"], name, hasFunction)
	results := tx.SendBatch(ctx, batch)
	defer func() { _ = results.Close() }()
	if _, err := results.Exec(); err != nil {
		return nil, fmt.Errorf("bound: %w", err)
	}
	r := &row{name: name}
	rows, err := results.Query()
	if err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return nil, fmt.Errorf("take: %w", err)
		}
		return nil, nil
	}
	// The two that a failure needs come first, and alone: a Scan that fails ends the result.
	values := rows.RawValues()
	fields := rows.FieldDescriptions()
	types := tx.Conn().TypeMap()
	for column, to := range map[string]any{"failures": &r.failures, "next_run_at": &r.stands} {
		i := slices.IndexFunc(fields, func(f pgconn.FieldDescription) bool { return f.Name == column })
		if err := types.Scan(fields[i].DataTypeOID, fields[i].Format, values[i], to); err != nil {
			return nil, fmt.Errorf("take: %s: %w", column, err)
		}
	}
	err = rows.Scan(&r.spec, &r.zone, &r.kind, &r.queue, &r.key, &r.priority, &r.maxAttempts, &r.payload, &r.metadata, &r.tags,
		&r.catchUp, &r.catchUpLimit, &r.jitter, &r.dynamic, &r.failures, &r.createdAt, &r.updatedAt, &r.lastRunAt, &r.nextRunAt, &r.now)
	if err != nil {
		return r, &unreadableError{err}
	}
	return r, nil
}

// idleMargin is how much longer than the client the server waits before it ends an idle transaction of ours.
const idleMargin = 2 * time.Second

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%dms", max(d.Milliseconds(), 1))
}

// mark writes ticks down and answers with those that were not there, in order.
func (s *store) mark(ctx context.Context, tx pgx.Tx, name string, ticks []time.Time) (map[int64]bool, error) {
	rows, err := tx.Query(ctx, s.texts["mark"], name, ticks)
	if err != nil {
		return nil, fmt.Errorf("mark: %w", err)
	}
	marked, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return nil, fmt.Errorf("mark: %w", err)
	}
	fresh := make(map[int64]bool, len(marked))
	for _, tick := range marked {
		fresh[tick.UnixMicro()] = true
	}
	return fresh, nil
}
