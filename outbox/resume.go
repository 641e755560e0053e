package outbox

import (
	"context"
	"encoding"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Resume gives a failed or dead row a whole budget and makes it due now. key has a value for each column of [Table].Key: a
// string, a number, a [fmt.Stringer] such as a uuid, [16]byte as a uuid, or a time. It returns false if there is no such row
// that has failed or died. It waits for the row if another session has locked it.
func (q *Queue[P, R]) Resume(ctx context.Context, key ...any) (bool, error) {
	given, err := q.oneKey(key)
	if err != nil {
		return false, q.wrap("resume", err)
	}
	resumed := false
	err = q.do(ctx, "resume", given, func(rows pgx.Rows) error {
		resumed = rows.Next()
		return nil
	})
	return resumed && err == nil, q.wrap("resume", err)
}

// oneKey is the key of one row as a statement's parameters.
func (q *Queue[P, R]) oneKey(key []any) (args, error) {
	if len(key) != len(q.table.Key) {
		return nil, fmt.Errorf("the key has %d values, and the table's has %d columns", len(key), len(q.table.Key))
	}
	given := args{}
	for i, part := range key {
		text, err := textOf(part)
		if err != nil {
			return nil, fmt.Errorf("key column %q: %w", q.table.Key[i].Name, err)
		}
		given["one_"+keyArg(i)] = text
	}
	return given, nil
}

// textOf writes a key's value as Postgres reads it.
func textOf(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case [16]byte:
		return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:]), nil
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, bool:
		return fmt.Sprint(v), nil
	case fmt.Stringer:
		return v.String(), nil
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		return string(text), err
	}
	return "", fmt.Errorf("a value of type %T cannot be written as text", value)
}

// ResumeWhere does the same for all failed and dead rows for which condition holds, an SQL expression over t with the
// parameters args: "t.channel = $1 AND t.status = 'dead'". An empty condition means all of them. Rows that other sessions have
// locked are left out. It works in batches of a thousand, each a transaction of its own, and returns how many rows it resumed,
// also with an error.
//
// The condition is a part of the statement: write it in code, and pass values as args.
func (q *Queue[P, R]) ResumeWhere(ctx context.Context, condition string, args ...any) (resumed int64, err error) {
	if strings.TrimSpace(condition) == "" {
		condition = "true"
	}
	sql := strings.Replace(q.sql["resume_where"].SQL, "{condition}", condition, 1)
	for {
		var n int64
		rows, err := q.pool.Query(ctx, sql, slices.Concat(q.fresh, args)...)
		if err == nil {
			for rows.Next() {
				n++
			}
			rows.Close()
			err = rows.Err()
		}
		if err != nil {
			return resumed, q.wrap("resume", err)
		}
		resumed += n
		if n == 0 {
			return resumed, nil
		}
	}
}
