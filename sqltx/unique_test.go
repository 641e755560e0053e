package sqltx_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/sqltx"
)

// Rules hold through database/sql too, in the caller's transaction, which a duplicate leaves usable.
func TestUniqueThroughDatabaseSQL(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		database := pgqueuetest.New(t)
		config, err := pgx.ParseConfig(database.URL)
		if err != nil {
			t.Fatal(err)
		}
		config.DefaultQueryExecMode = mode
		db := stdlib.OpenDB(*config)
		t.Cleanup(func() { _ = db.Close() })
		client := database.Client(t)
		jobs := []pgqueue.NewJob{
			{Args: sendWelcome{1}, Options: []pgqueue.EnqueueOption{pgqueue.WithIdempotencyKey(`a "quoted" \ key, {}`, time.Hour)}},
			{Args: sendWelcome{2}, Options: []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{}), pgqueue.OnQueue("second")}},
			{Args: sendWelcome{3}, Options: []pgqueue.EnqueueOption{pgqueue.WithKey("k"), pgqueue.WithDebounce(time.Hour, 2*time.Hour)}},
			{Args: sendWelcome{4}, Options: []pgqueue.EnqueueOption{pgqueue.WithThrottle(100 * 365 * 24 * time.Hour)}},
		}
		for _, want := range []string{
			"[inserted inserted inserted inserted]", "[duplicate pending duplicate pending replaced duplicate pending]",
		} {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			many, err := client.EnqueueMany(t.Context(), sqltx.On(tx), jobs)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, one := range many {
				if got = append(got, one.Outcome.String()); one.State != "" {
					got = append(got, string(one.State))
				}
			}
			if fmt.Sprint(got) != want {
				t.Errorf("%v: %v, want %s", mode, got, want)
			}
			if _, err := tx.ExecContext(t.Context(), "SELECT 1"); err != nil {
				t.Error(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		pgqueuetest.RequireEnqueued[sendWelcome](t, database.Pool, pgqueuetest.WithArgs(sendWelcome{3}))
	}
}
