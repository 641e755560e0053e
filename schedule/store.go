package schedule

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

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
	names []string
	wait  time.Duration // until the next one; 0 = there is none
}

func (s *store) due(ctx context.Context, q pgqueue.Querier, functions, inHand []string, limit int) (dueNow, error) {
	rows, err := q.Query(ctx, s.texts["due"], functions, inHand, limit)
	if err != nil {
		return dueNow{}, fmt.Errorf("due: %w", err)
	}
	var (
		found dueNow
		name  string
		wait  int64
	)
	_, err = pgx.ForEachRow(rows, []any{&name, &wait}, func() error {
		if name == "" {
			found.wait = max(time.Duration(wait)*time.Microsecond, time.Microsecond)
		} else {
			found.names = append(found.names, name)
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
}

// take locks a schedule that is due. nil: it is not, any more, or somebody else has it.
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
	err := results.QueryRow().Scan(&r.spec, &r.zone, &r.kind, &r.queue, &r.key, &r.priority, &r.maxAttempts, &r.payload, &r.metadata, &r.tags,
		&r.catchUp, &r.catchUpLimit, &r.jitter, &r.dynamic, &r.failures, &r.createdAt, &r.updatedAt, &r.lastRunAt, &r.nextRunAt, &r.now)
	if err == pgx.ErrNoRows {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("take: %w", err)
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
