package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pause is a pause that holds. A zero Until: until somebody ends it.
type pause struct {
	Since, Until time.Time
	Reason       string
}

// pauseOf reads the pause of a queue, of a kind, or of a kind in a queue; nil if there is none. known is false where the role may act and not
// look, as an operator who is no watcher: then what was asked for is all there is to tell.
func (s *session) pauseOf(ctx context.Context, queue, kind string) (held *pause, known bool, err error) {
	var found pause
	var until *time.Time
	// The view has NULL where the tables have an empty name: all queues, or the queue itself.
	err = s.pool.QueryRow(ctx, `SELECT p.paused_at, p.paused_until, coalesce(p.reason, '') FROM `+pgx.Identifier{s.schema, "paused"}.Sanitize()+` p
		WHERE p.queue IS NOT DISTINCT FROM nullif($1::text, '') AND p.kind IS NOT DISTINCT FROM nullif($2::text, '')`, queue, kind).
		Scan(&found.Since, &until, &found.Reason)
	if _, refused := errors.AsType[*pgconn.PgError](err); refused {
		return nil, false, nil
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, true, nil
	case err != nil:
		return nil, false, err
	case until != nil:
		found.Until = *until
	}
	return &found, true, nil
}

// checkUntil refuses, before anything is sent, an end that is no time of the future.
func checkUntil(text string) error {
	if distance, ok := parseDistance(text); ok && distance <= 0 {
		return untilPassed(text)
	}
	return nil
}

func untilPassed(text string) error {
	return usage("--until must be in the future, such as +30m, not %q: a pause that has ended pauses nothing", visible(text))
}

// pauseEnd is when a pause is to end, on the database's clock; zero without a text.
func pauseEnd(ctx context.Context, s *session, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	clock := &databaseClock{pool: s.pool}
	at, err := clock.resolve(ctx, "until", text)
	if err != nil {
		return time.Time{}, err
	}
	now, err := clock.now(ctx)
	if err == nil && !at.After(now) {
		err = untilPassed(text)
	}
	return at, err
}

// paused reports what a pause has come to: what holds may be a longer pause that was there before, which stays as it is. about names the
// queue or the kind, and where says in which queues, if it is a kind.
func (a *app) paused(about map[string]any, name, where string, until time.Time, held *pause, known bool) error {
	const slack = time.Millisecond // Postgres rounds to microseconds
	about["done"] = "paused"
	switch {
	case !known:
		held = &pause{Until: until}
	case held == nil:
		about["done"] = "not paused"
		return a.writeDone(about, "%s: not paused%s: the pause has ended already, or somebody has ended it\n", name, where)
	case !until.IsZero() && (held.Until.IsZero() || held.Until.Sub(until) > slack):
		about["done"] = "stays paused"
	}
	text := ""
	if !held.Until.IsZero() {
		about["paused_until"] = held.Until.UTC()
		text = " until " + held.Until.UTC().Format("2006-01-02 15:04:05Z")
	}
	if held.Reason != "" {
		about["reason"] = held.Reason
	}
	if about["done"] == "stays paused" {
		if text == "" {
			text = " until somebody resumes it"
		}
		if held.Reason != "" {
			text += ": " + visible(held.Reason)
		}
	}
	return a.writeDone(about, "%s: %s%s%s\n", name, about["done"], where, text)
}
