package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// databaseClock gives the database's time, asked once a command: "an hour ago" is meant on the clock that wrote the times of jobs.
type databaseClock struct {
	pool *pgxpool.Pool
	at   time.Time
}

func (c *databaseClock) now(ctx context.Context) (time.Time, error) {
	if c.at.IsZero() {
		if err := c.pool.QueryRow(ctx, "SELECT pg_catalog.statement_timestamp()").Scan(&c.at); err != nil {
			return time.Time{}, err
		}
	}
	return c.at, nil
}

// resolve reads a time: "now", a distance from now such as -90m, +2h or -7d, a time in RFC 3339, or a day or time without a zone,
// which is taken as UTC. It asks for the time of the database only where the text depends on it.
func (c *databaseClock) resolve(ctx context.Context, flag, text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	distance, ok := parseDistance(text)
	if !ok {
		return time.Time{}, usage("--%s is a time such as 2026-03-01T14:30:00Z, 2026-03-01 (UTC), -90m, -7d, +2h or now, not %q", flag, visible(text))
	}
	now, err := c.now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return now.Add(distance), nil
}

// parseDistance reads "now", or a duration with a sign, in which d is a day.
func parseDistance(text string) (time.Duration, bool) {
	if text == "now" {
		return 0, true
	}
	if text == "" || text[0] != '-' && text[0] != '+' {
		return 0, false
	}
	return parseDuration(text)
}

// parseDuration reads what time.ParseDuration does, and whole days in front of it: 7d, 1d12h.
func parseDuration(text string) (time.Duration, bool) {
	unsigned := strings.TrimLeft(text, "+-")
	if len(text)-len(unsigned) > 1 {
		return 0, false
	}
	var sum time.Duration
	if days, rest, ok := strings.Cut(unsigned, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, false
		}
		sum, unsigned = time.Duration(n)*24*time.Hour, rest
	}
	if unsigned != "" {
		d, err := time.ParseDuration(unsigned)
		if err != nil || d < 0 {
			return 0, false
		}
		sum += d
	}
	if text[0] == '-' {
		sum = -sum
	}
	return sum, true
}

// dayDuration is the value of a flag: a duration that knows days.
type dayDuration time.Duration

func (d *dayDuration) String() string { return time.Duration(*d).String() }
func (d *dayDuration) Type() string   { return "duration" }
func (d *dayDuration) Set(text string) error {
	parsed, ok := parseDuration(text)
	if text == "" || !ok || parsed < 0 {
		return errors.New("must be a duration such as 90s, 10m, 2h or 7d")
	}
	*d = dayDuration(parsed)
	return nil
}
