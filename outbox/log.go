package outbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// What a trigger of the application's raises, and the detail of a constraint, quote what is in the row. So an error that
// a row can bring about is logged with its SQLSTATE and the name of the constraint, and its text at debug level.

// ofServer tells the classes of errors that come from the server, the connection or the statement, and not from a row: nobody raises
// them, and their texts say what an operator needs. The others, also the codes that an application has made up, are a row's.
func ofServer(code string) bool {
	if len(code) != 5 {
		return true
	}
	switch code[:2] {
	case "08", // connection
		"0A", "25", "26", "2D", "3B", "3D", "3F", "40", "42", // feature, transaction and session, catalog, rollback, syntax and rights
		"28",                                     // authentication
		"53", "55", "57", "58", "F0", "HV", "XX": // resources, locks, operators, system, configuration, foreign data, internal
		return true
	}
	return false
}

// raised tells an error that a RAISE in PL/pgSQL has made, whatever code it was given.
func raised(e *pgconn.PgError) bool { return e.Routine == "exec_stmt_raise" }

// brief is an error as it may be logged at any level.
func brief(err error) slog.Attr {
	var fromServer *pgconn.PgError
	if !errors.As(err, &fromServer) || ofServer(fromServer.Code) && !raised(fromServer) {
		return slog.Any("error", err)
	}
	return slog.String("error", sqlSummary(fromServer))
}

// sqlSummary is what can be said of an error of the database without its texts.
func sqlSummary(e *pgconn.PgError) string {
	text := "SQLSTATE " + e.Code
	if e.ConstraintName != "" {
		text += ", constraint " + e.ConstraintName
	}
	return text
}

// why is sqlSummary of any error.
func why(err error) string {
	var fromServer *pgconn.PgError
	if !errors.As(err, &fromServer) {
		return ""
	}
	return sqlSummary(fromServer)
}

// refusal logs the whole text of what a row brought about, for debugging.
func (q *Queue[P, R]) refusal(ctx context.Context, row string, err error) {
	q.log.DebugContext(ctx, "outbox: text of a refusal", "row", row, "error", err)
}

// A thousand rows that refuse a write are no thousand lines: of one message complaintBurst come at once, then one each
// complaintEvery, and the next one says how many were not logged.
const (
	complaintBurst = 20
	complaintEvery = 10 * time.Second
)

// complaints bounds what is logged about single rows.
type complaints struct {
	mu sync.Mutex
	of map[string]*complaint
}

type complaint struct {
	left    int
	filled  time.Time
	dropped int
}

// next says whether the next message of a sort may be logged, and, if there were any, how many before it were not.
func (c *complaints) next(sort string, now time.Time) (ok bool, suppressed slog.Attr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]*complaint{}
	}
	one := c.of[sort]
	if one == nil {
		one = &complaint{left: complaintBurst, filled: now}
		c.of[sort] = one
	}
	if refill := int(now.Sub(one.filled) / complaintEvery); refill > 0 {
		one.left, one.filled = min(one.left+refill, complaintBurst), now
	}
	if one.left == 0 {
		one.dropped++
		return false, suppressed
	}
	one.left--
	if one.dropped > 0 {
		suppressed = slog.Int("suppressed", one.dropped)
		one.dropped = 0
	}
	return true, suppressed
}
