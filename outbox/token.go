package outbox

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/runner"
)

// claimToken is one claim of one row: what every later write is fenced with.
type claimToken struct {
	table       *string  // the queue's, so that a token of another is noticed
	key         []string // as text
	attempts    int64
	attemptedAt pgtype.Timestamptz // to the microsecond, as the database stored it
	random      string             // of the token column, where there is one
	createdAt   pgtype.Timestamptz
	due         pgtype.Timestamptz // when it was
	idempotency string             // where the description has an expression for it

	// settling says that a transaction of the handler's is about to end the claim, or has: a renewal finds nothing then, and
	// that is no loss.
	settling atomic.Bool
}

var _ runner.Token = (*claimToken)(nil)

// String names the row and the attempt.
func (t *claimToken) String() string {
	return *t.table + "/" + t.row() + "#" + strconv.FormatInt(t.attempts, 10)
}

// row is the key as one text: the same for each claim, and different for different rows.
func (t *claimToken) row() string {
	if len(t.key) == 1 {
		return t.key[0]
	}
	return keyText(t.key)
}

// keyText joins the parts of a key so that no other key gives the same text.
func keyText(key []string) string {
	if len(key) == 1 {
		return key[0]
	}
	escaped := make([]string, len(key))
	for i, part := range key {
		escaped[i] = strings.ReplaceAll(strings.ReplaceAll(part, `\`, `\\`), ",", `\,`)
	}
	return strings.Join(escaped, ",")
}

// IdempotencyKey is the same text for every delivery of one row, and another one for every other row, also for one that is
// made again under the key of a deleted one: hand it to the receiver, so that it can tell a row that is delivered twice. It
// is table, key and creation time, or what [Table].IdempotencyKey says. It is empty for a token of another queue.
func IdempotencyKey(token runner.Token) string {
	t, ok := token.(*claimToken)
	if !ok || t == nil {
		return ""
	}
	if t.idempotency != "" {
		return t.idempotency
	}
	return *t.table + "/" + t.row() + "/" + strconv.FormatInt(micros(t.createdAt), 10)
}

// Key is the key of the row that token claims, as Postgres writes it, in the order of [Table].Key; nil for a token of another
// queue.
func Key(token runner.Token) []string {
	t, ok := token.(*claimToken)
	if !ok || t == nil {
		return nil
	}
	return append([]string(nil), t.key...)
}

// micros is a time in microseconds since 1970; infinities are beyond all others.
func micros(t pgtype.Timestamptz) int64 {
	switch {
	case t.InfinityModifier == pgtype.Infinity:
		return 1<<63 - 1
	case t.InfinityModifier == pgtype.NegativeInfinity:
		return -1 << 63
	case !t.Valid:
		return 0
	}
	return t.Time.UnixMicro()
}

// finite is a time for people: infinities and NULL become the zero time.
func finite(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time
}

// asToken checks that a token is of this queue.
func (q *Queue[P, R]) asToken(token runner.Token) (*claimToken, bool) {
	t, ok := token.(*claimToken)
	return t, ok && t != nil && t.table == &q.full
}
