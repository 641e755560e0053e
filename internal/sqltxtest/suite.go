// Package sqltxtest is what sqltx promises, as tests that take any driver of database/sql. The core runs them with pgx's driver,
// examples/databasesql, which may have more dependencies, with lib/pq.
package sqltxtest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Run opens databases with open, which gets the URL of one, and runs all tests.
func Run(t *testing.T, open func(testing.TB, string) *sql.DB) {
	for name, test := range map[string]func(*fixture){
		"TheJobExistsExactlyWhenTheDataDoes":    exactlyWhen,
		"EveryOptionTravels":                    everyOption,
		"KeysAnswerAsWithPgx":                   keys,
		"ManyJobsOfSeveralQueues":               many,
		"AJobIsReadBack":                        readBack,
		"WhatPeopleDoToJobs":                    people,
		"TheHintIsHeard":                        hintHeard,
		"HintsOfOneTransactionAreNotHeldBack":   hintsTogether,
		"C15_ASerializationFailureReachesUs":    serialization,
		"BadInputSendsNothing":                  badInput,
		"AFailedTransactionSaysSo":              failedTransaction,
		"ErrorsSayWhatToDo":                     explained,
		"ASavepointTakesTheJobBack":             savepoint,
		"TheSettingsOfTheSessionChangeNothing":  sessionSettings,
		"ABatchThatIsNotReadIsSentWhenItCloses": closedBatch,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := pgqueuetest.New(t)
			db := open(t, database.URL)
			t.Cleanup(func() { _ = db.Close() })
			test(&fixture{TB: t, ctx: t.Context(), database: database, client: database.Client(t), db: db})
		})
	}
}

// levels are those that applications use; the statements have a path of their own in the two stricter ones.
func levels() []sql.IsolationLevel {
	return []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
}

// fixture is one migrated database, and the application's way to it.
type fixture struct {
	testing.TB
	ctx      context.Context
	database *pgqueuetest.DB
	client   *pgqueue.Client
	db       *sql.DB
}

func (f *fixture) begin(level sql.IsolationLevel) *sql.Tx {
	f.Helper()
	tx, err := f.db.BeginTx(f.ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func (f *fixture) exec(on interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, statement string) {
	f.Helper()
	if _, err := on.ExecContext(f.ctx, statement); err != nil {
		f.Fatalf("%s: %v", statement, err)
	}
}

func (f *fixture) commit(tx *sql.Tx) {
	f.Helper()
	if err := tx.Commit(); err != nil {
		f.Fatal(err)
	}
}

// get reads a job through pgx, whatever wrote it.
func (f *fixture) get(id int64) *pgqueue.JobStatus {
	f.Helper()
	return must(f.client.Get(f.ctx, f.database.Pool, id))(f)
}

// must returns the value of a call that may not fail.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// sqlState is what every driver's error has a method for.
func sqlState(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

type greet struct {
	Name string `json:"name"`
}

func (greet) Kind() string { return "greet" }

// tricky is text that means something to somebody on the way.
const tricky = `a"b\c,{NULL} 'é' $1 ? 🐘` + "\n\t"
