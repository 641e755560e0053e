package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed schema.sql
var schemaSQL string

// result is what a run found.
type result struct {
	notifications, delivered, failed, dead int

	sends      int           // requests
	limited    int           // of these, rate limited
	repeated   int           // messages that the provider was sent again although it had accepted them
	interrupts int           // sends that the kill interrupted
	recovered  time.Duration // from the kill until the last of them was sent again
	took       time.Duration
}

// String is the last line of a run that held everything it promises.
func (r result) String() string {
	return fmt.Sprintf("outbox ok notifications=%d delivered=%d failed=%d dead=%d sends=%d rate_limited=%d repeated=%d doubled=0 lost=0 interrupted=%d recovered_s=%.1f seconds=%.1f",
		r.notifications, r.delivered, r.failed, r.dead, r.sends, r.limited, r.repeated, r.interrupts, r.recovered.Seconds(), r.took.Seconds())
}

// row is a delivery as the table has it at the end.
type row struct {
	notification       int64
	provider, status   string
	attempts, failures int
	receipt, code      string
}

// prove compares the table with the provider's log.
func (r *run) prove(ctx context.Context, took time.Duration) (result, error) {
	rows, err := r.rows(ctx)
	if err != nil {
		return result{}, err
	}
	found, err := r.compare(rows, r.providers.log())
	if err != nil {
		return result{}, err
	}
	found.took = took
	fmt.Fprintf(r.out, "proof      %d delivered + %d failed + %d dead = %d notifications; the provider's log agrees with every row\n",
		found.delivered, found.failed, found.dead, found.notifications)
	fmt.Fprintf(r.out, "           %d sends, %d of them repeated what the provider had (an answer was lost, or a process), none by two at once\n",
		found.sends, found.repeated)
	fmt.Fprintf(r.out, "recovery   %d sends were interrupted by the kill; the last of them was sent again %.1f s later\n", found.interrupts, found.recovered.Seconds())
	return found, nil
}

func (r *run) rows(ctx context.Context) ([]row, error) {
	rows, err := r.pool.Query(ctx, `
		SELECT n.id, coalesce(d.provider, ''), coalesce(d.status, 'missing'), coalesce(d.attempts, 0), coalesce(d.failures, 0),
		       coalesce(d.receipt, ''), coalesce(d.error_code, '')
		FROM notify.notifications n
		LEFT JOIN notify.deliveries d ON d.notification_id = n.id
		ORDER BY n.id`)
	if err != nil {
		return nil, fmt.Errorf("read the deliveries: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(from pgx.CollectableRow) (d row, err error) {
		err = from.Scan(&d.notification, &d.provider, &d.status, &d.attempts, &d.failures, &d.receipt, &d.code)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the deliveries: %w", err)
	}
	return all, nil
}

// compare says what does not add up, joined.
func (r *run) compare(rows []row, log []account) (found result, err error) {
	var wrong []error
	complain := func(when bool, format string, args ...any) {
		if when {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	byNotification := make(map[int64]account, len(log))
	for _, a := range log {
		_, twice := byNotification[a.notification]
		complain(twice, "notification %d was sent under two idempotency keys", a.notification)
		byNotification[a.notification] = a
	}
	found.notifications = len(rows)
	for _, d := range rows {
		a := byNotification[d.notification]
		delete(byNotification, d.notification)
		switch d.status {
		case "delivered":
			found.delivered++
			complain(a.accepted != 1, "notification %d is delivered, but the provider accepted it %d times", d.notification, a.accepted)
			complain(d.receipt == "" || d.receipt != a.receipt, "notification %d has receipt %q, the provider gave %q", d.notification, d.receipt, a.receipt)
		case "failed":
			found.failed++
			complain(d.code != "refused" || a.sends[len(a.sends)-1].answer != refuse, "notification %d is failed (%s), but was not refused", d.notification, d.code)
		case "dead":
			found.dead++
			complain(d.failures != 5, "notification %d is dead after %d failures", d.notification, d.failures)
			complain(a.accepted != 0, "notification %d is dead, but the provider has accepted it", d.notification)
		default:
			complain(true, "notification %d is %s at the end", d.notification, d.status)
		}
		complain(d.provider != a.provider, "notification %d went to %q instead of %q", d.notification, a.provider, d.provider)
		complain(len(a.sends) > d.attempts, "notification %d was sent %d times in %d claims", d.notification, len(a.sends), d.attempts)
		want := fateOf(r.opts.seed, d.notification).end()
		complain(d.status != want, "notification %d is %s and should be %s", d.notification, d.status, want)
		wrong = append(wrong, r.examine(a, &found)...)
	}
	for notification := range byNotification {
		complain(true, "notification %d was sent and does not exist: its transaction was rolled back", notification)
	}
	complain(found.notifications != r.opts.notifications, "there are %d notifications, not %d", found.notifications, r.opts.notifications)
	complain(found.interrupts == 0, "the kill has interrupted nothing")
	if len(wrong) > 0 {
		return result{}, errors.Join(append([]error{fmt.Errorf("%d things do not add up", len(wrong))}, wrong[:min(10, len(wrong))]...)...)
	}
	return found, nil
}

// examine looks at all sends of one message, and says where two claims were at it at once.
func (r *run) examine(a account, found *result) (wrong []error) {
	for i, s := range a.sends {
		found.sends++
		if s.answer == limit {
			found.limited++
		}
		if i == 0 {
			continue
		}
		before := a.sends[i-1]
		if r.died(before) && before.unanswered && !before.ended.Before(r.killed.at) {
			found.interrupts++
			found.recovered = max(found.recovered, s.begun.Sub(r.killed.at))
		}
		if s.attempt <= before.attempt {
			wrong = append(wrong, fmt.Errorf("notification %d: attempt %d was sent after attempt %d", a.notification, s.attempt, before.attempt))
		}
		if r.over(before).After(s.begun) {
			wrong = append(wrong, fmt.Errorf("notification %d: attempt %d of process %d was sent while attempt %d of process %d was under way",
				a.notification, s.attempt, s.worker, before.attempt, before.worker))
		}
		if s.answer == again {
			found.repeated++
			// The provider had it. That is right only if nobody alive knew: the answer was lost, or its process was killed.
			if !before.unanswered && before.answer != lose && !r.hit(before) {
				wrong = append(wrong, fmt.Errorf("notification %d: attempt %d was answered %q by the provider, and it was sent again",
					a.notification, before.attempt, before.answer))
			}
		}
	}
	return wrong
}

// over is when a send was over for its sender: it had the answer, had stopped waiting for one, or was dead. The provider
// notices a little later that a client has gone. Much later means that the client did not keep its timeout.
func (r *run) over(s *send) time.Time {
	const notice = time.Second
	over := s.ended
	if gone := s.begun.Add(r.opts.timeout); s.unanswered && over.After(gone) && over.Before(gone.Add(notice)) {
		over = gone
	}
	if r.died(s) && r.killed.at.Before(over) {
		over = r.killed.at
	}
	return over
}

// died tells whether the sender of s is the process that was killed.
func (r *run) died(s *send) bool { return r.killed.process != nil && s.worker == r.killed.process.pid }

// hit tells whether the kill may have kept the sender of s from hearing the answer, or from reporting it.
func (r *run) hit(s *send) bool {
	const unreported = 2 * time.Second // the longest that a report may have been under way
	return r.died(s) && s.ended.After(r.killed.at.Add(-unreported))
}
