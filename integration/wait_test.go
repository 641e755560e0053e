package integration

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// patience is how long a test waits for what must happen. It is reached only by a test that fails, and far below the
// polls of tests about notifications.
const patience = 60 * time.Second

// never is a poll interval that no test lives to see.
const never = 10 * time.Minute

// receive waits for a value.
func receive[T any](t testing.TB, from <-chan T, what string) (value T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case value = <-from:
	case <-timer.C:
		t.Fatalf("not within %s: %s", patience, what)
	}
	return value
}

// until polls where nothing tells when it happens, and returns the first value that is good.
func until[T any](t testing.TB, what string, get func() T, good func(T) bool) T {
	t.Helper()
	timer, tick := time.NewTimer(patience), time.NewTicker(20*time.Millisecond)
	defer timer.Stop()
	defer tick.Stop()
	for {
		value := get()
		if good(value) {
			return value
		}
		select {
		case <-tick.C:
		case <-timer.C:
			t.Fatalf("not within %s: %s; it is %v", patience, what, value)
		}
	}
}

// one returns the row of a query that has one row with one column.
func one[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (value T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := pool.QueryRow(ctx, sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// column returns all rows of a query with one column.
func column[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) []T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	rows, err := pool.Query(ctx, sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return values
}

// untilSQL polls until a condition in SQL is true.
func untilSQL(t testing.TB, pool *pgxpool.Pool, what, sql string, args ...any) {
	t.Helper()
	until(t, what, func() bool { return one[bool](t, pool, sql, args...) }, func(ok bool) bool { return ok })
}

// execute runs a statement.
func execute(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := pool.Exec(ctx, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// pass lets time pass: a stimulus, never a wait for a result.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// quiet waits until there was no activity for d.
func quiet(t *testing.T, activity <-chan struct{}, d time.Duration) {
	t.Helper()
	timer, limit := time.NewTimer(d), time.NewTimer(patience)
	defer timer.Stop()
	defer limit.Stop()
	for {
		select {
		case <-activity:
			timer.Reset(d)
		case <-timer.C:
			return
		case <-limit.C:
			t.Fatalf("the worker did not become idle within %s", patience)
		}
	}
}
