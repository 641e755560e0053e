package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// NextDue tells when the next row is due, by reading the first rows of each class. A row that is due but locked, or that
// another worker takes first, makes the answer early.
func (q *Queue[P, R]) NextDue(ctx context.Context) (wait time.Duration, ok bool, err error) {
	given := args{"kinds": q.kinds, "classes": q.classes(), "hold_us": q.config.Hold.Microseconds()}
	var micros *int64
	err = q.do(ctx, "next_due", given, func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&micros}, func() error { return nil })
		return err
	})
	if err != nil || micros == nil {
		return 0, false, q.wrap("look for due rows", err)
	}
	const most = int64(maxDuration / time.Microsecond)
	return time.Duration(min(*micros, most)) * time.Microsecond, true, nil
}
