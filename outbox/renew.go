package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/runner"
)

// Renew extends the leases of tokens to lease from now. Locked rows are not waited for and not refused: nobody else can take
// them either.
func (q *Renewing[P, R]) Renew(ctx context.Context, tokens []runner.Token, lease time.Duration) ([]runner.Renewal, error) {
	if lease < time.Millisecond {
		return nil, q.wrap("renewal", errors.New("the lease must be at least a millisecond"))
	}
	unique := make([]*claimToken, 0, len(tokens))
	seen := make(map[*claimToken]bool, len(tokens))
	for i, token := range tokens {
		t, ok := q.asToken(token)
		if !ok {
			return nil, q.wrap("renewal", fmt.Errorf("token %d (%v) is not from this queue", i, token))
		}
		if !seen[t] {
			seen[t] = true
			unique = append(unique, t)
		}
	}
	slices.SortFunc(unique, byKey)
	answers := make(map[*claimToken]runner.Renewal, len(unique))
	for part := range slices.Chunk(unique, maxRows) {
		if err := q.renew(ctx, part, lease, answers); err != nil {
			return nil, q.wrap("renewal", err)
		}
	}
	renewals := make([]runner.Renewal, len(tokens))
	for i, token := range tokens {
		t := token.(*claimToken)
		renewals[i] = answers[t]
		if renewals[i] == runner.Refused && t.settling.Load() {
			renewals[i] = runner.Renewed
		}
	}
	return renewals, nil
}

// renew renews one part and puts an answer for each of it into answers.
func (q *Renewing[P, R]) renew(ctx context.Context, part []*claimToken, lease time.Duration, answers map[*claimToken]runner.Renewal) error {
	given := q.claimed(part)
	given["lease_us"] = lease.Microseconds()
	var renewed []int64
	err := q.do(ctx, "renew", given, func(rows pgx.Rows) (err error) {
		renewed, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	if err != nil {
		return err
	}
	for _, at := range renewed {
		answers[part[at-1]] = runner.Renewed
	}
	var left []*claimToken
	for _, t := range part {
		if answers[t] == 0 {
			left = append(left, t)
		}
	}
	if len(left) == 0 {
		return nil
	}
	found, err := q.look(ctx, left)
	if err != nil {
		return err
	}
	for i, t := range left {
		answers[t] = runner.Refused
		if found[i] {
			answers[t] = runner.Locked
		}
	}
	return nil
}
