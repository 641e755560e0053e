package sqltx_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/sqltx"
)

type greet struct {
	Name string `json:"name"`
}

func (greet) Kind() string { return "greet" }

func open(t *testing.T) (*pgqueuetest.DB, *pgqueue.Client, *sql.DB) {
	t.Helper()
	database := pgqueuetest.New(t)
	config := database.Pool.Config().ConnConfig
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	return database, database.Client(t), db
}

func begin(t *testing.T, db *sql.DB, options *sql.TxOptions) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestTheJobExistsExactlyWhenTheDataDoes(t *testing.T) {
	database, client, db := open(t)
	must[pgconn.CommandTag](t)(database.Pool.Exec(t.Context(), "CREATE TABLE users (name text)"))
	for _, commit := range []bool{false, true} {
		tx := begin(t, db, nil)
		must[sql.Result](t)(tx.ExecContext(t.Context(), "INSERT INTO users VALUES ('ada')"))
		enqueued := must[pgqueue.Enqueued](t)(client.Enqueue(t.Context(), sqltx.On(tx), greet{"ada"}))
		if enqueued.ID == 0 || enqueued.Outcome != pgqueue.Inserted {
			t.Fatalf("%+v", enqueued)
		}
		if commit {
			must[any](t)(nil, tx.Commit())
			job := pgqueuetest.RequireEnqueued[greet](t, database.Pool)
			if job.ID != enqueued.ID || job.Args.Name != "ada" {
				t.Fatalf("job %d %+v", job.ID, job.Args)
			}
		} else {
			must[any](t)(nil, tx.Rollback())
			pgqueuetest.RequireNotEnqueued[greet](t, database.Pool)
		}
	}
}

func TestEveryOptionTravels(t *testing.T) {
	database, client, db := open(t)
	at := time.Date(2031, 2, 3, 4, 5, 6, 789000, time.FixedZone("", 5*3600+45*60))
	tricky := `a"b\c,{NULL} 'é' 🐘`
	options := []pgqueue.EnqueueOption{
		pgqueue.OnQueue(tricky), pgqueue.WithKey(tricky), pgqueue.WithRevision("r1"), pgqueue.WithRunAt(at), pgqueue.WithPriority(3),
		pgqueue.WithTags(tricky, "NULL", "{}"), pgqueue.WithMetadata(map[string]string{"k": tricky}), pgqueue.WithMaxAttempts(7),
	}
	for i, keyed := range []bool{true, false} {
		tx := begin(t, db, nil)
		chosen := options
		if !keyed { // the statement for one job without a key takes its array as a parameter of its own
			chosen = append(append([]pgqueue.EnqueueOption{}, options[:1]...), options[3:]...)
		}
		enqueued := must[pgqueue.Enqueued](t)(client.Enqueue(t.Context(), sqltx.On(tx), greet{tricky}, chosen...))
		must[any](t)(nil, tx.Commit())
		got := must[*pgqueue.JobStatus](t)(client.Get(t.Context(), database.Pool, enqueued.ID))
		var args greet
		must[any](t)(nil, json.Unmarshal(got.Payload, &args))
		if got.Queue != tricky || !got.RunAt.Equal(at) || got.Priority != 3 || got.MaxAttempts != 7 || args.Name != tricky ||
			fmt.Sprint(got.Tags) != fmt.Sprint([]string{tricky, "NULL", "{}"}) || keyed && (got.Key != tricky || got.Revision != "r1") {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

func TestKeysAnswerAsWithPgx(t *testing.T) {
	_, client, db := open(t)
	tx := begin(t, db, nil)
	on := sqltx.On(tx)
	first := must[pgqueue.Enqueued](t)(client.Enqueue(t.Context(), on, greet{"a"}, pgqueue.WithKey("k"), pgqueue.WithRevision("1")))
	same := must[pgqueue.Enqueued](t)(client.Enqueue(t.Context(), on, greet{"a"}, pgqueue.WithKey("k"), pgqueue.WithRevision("1")))
	replaced := must[pgqueue.Enqueued](t)(client.Enqueue(t.Context(), on, greet{"b"}, pgqueue.WithKey("k"), pgqueue.WithRevision("2")))
	want := []pgqueue.Enqueued{{ID: first.ID, Outcome: pgqueue.Inserted}, {ID: first.ID, Outcome: pgqueue.Same}, {ID: first.ID, Outcome: pgqueue.Replaced}}
	if got := []pgqueue.Enqueued{first, same, replaced}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	must[sql.Result](t)(tx.ExecContext(t.Context(), "SELECT 1")) // the transaction is usable
}

func TestManyJobsOfSeveralQueues(t *testing.T) {
	database, client, db := open(t)
	var jobs []pgqueue.NewJob
	for i := range 300 {
		options := []pgqueue.EnqueueOption{pgqueue.OnQueue(fmt.Sprintf("q%d", i%3)), pgqueue.WithDelay(time.Duration(i) * time.Millisecond)}
		if i%2 == 0 {
			options = append(options, pgqueue.WithKey(fmt.Sprint("key", i)))
		}
		jobs = append(jobs, pgqueue.NewJob{Args: greet{fmt.Sprint(i)}, Options: options})
	}
	tx := begin(t, db, nil)
	enqueued := must[[]pgqueue.Enqueued](t)(client.EnqueueMany(t.Context(), sqltx.On(tx), jobs))
	must[any](t)(nil, tx.Commit())
	for _, i := range []int{0, 1, 2, 299} {
		got := must[*pgqueue.JobStatus](t)(client.Get(t.Context(), database.Pool, enqueued[i].ID))
		if !strings.Contains(string(got.Payload), fmt.Sprintf("%q", fmt.Sprint(i))) || got.Queue != fmt.Sprintf("q%d", i%3) {
			t.Errorf("%d: %s on %s", i, got.Payload, got.Queue)
		}
	}
}

func TestWhatPeopleDoToJobs(t *testing.T) {
	_, client, db := open(t)
	tx := begin(t, db, nil)
	on := sqltx.On(tx)
	job := must[pgqueue.Enqueued](t)(client.Enqueue(t.Context(), on, greet{"a"}))
	must[any](t)(nil, client.PauseQueue(t.Context(), on, "default", "a test"))
	must[any](t)(nil, client.ResumeQueue(t.Context(), on, "default"))
	if state := must[pgqueue.JobState](t)(client.SetMaxAttempts(t.Context(), on, job.ID, 9)); state != pgqueue.JobPending {
		t.Error(state)
	}
	if state := must[pgqueue.JobState](t)(client.Cancel(t.Context(), on, job.ID)); state != pgqueue.JobCancelled {
		t.Error(state)
	}
	if err := client.Retry(t.Context(), on, job.ID); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Error(err)
	}
}

func TestTheHintIsHeard(t *testing.T) {
	database, client, db := open(t)
	conn := must[*pgx.Conn](t)(pgx.ConnectConfig(t.Context(), database.Pool.Config().ConnConfig))
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	must[pgconn.CommandTag](t)(conn.Exec(t.Context(), "LISTEN "+pgx.Identifier{database.Schema}.Sanitize()))
	tx := begin(t, db, nil)
	must[pgqueue.Enqueued](t)(client.Enqueue(t.Context(), sqltx.On(tx), greet{"a"}, pgqueue.OnQueue("mail")))
	must[any](t)(nil, tx.Commit())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if hint := must[*pgconn.Notification](t)(conn.WaitForNotification(ctx)); hint.Payload != "mail" {
		t.Error(hint.Payload)
	}
}

// C15 through database/sql: the error of a conflict reaches the caller's retry loop as the driver made it.
func TestASerializationFailureReachesTheCaller(t *testing.T) {
	database, client, db := open(t)
	tx := begin(t, db, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	must[sql.Result](t)(tx.ExecContext(t.Context(), "SELECT 1"))
	must[pgqueue.Enqueued](t)(client.Enqueue(t.Context(), database.Pool, greet{"a"}, pgqueue.WithKey("k")))
	_, err := client.Enqueue(t.Context(), sqltx.On(tx), greet{"b"}, pgqueue.WithKey("k"))
	var fromServer *pgconn.PgError
	if !errors.As(err, &fromServer) || fromServer.Code != "40001" {
		t.Fatal(err)
	}
}

func TestBadInputSendsNothing(t *testing.T) {
	_, client, db := open(t)
	tx := begin(t, db, nil)
	var invalid *pgqueue.ValidationError
	if _, err := client.Enqueue(t.Context(), sqltx.On(tx), greet{"a\x00"}); !errors.As(err, &invalid) {
		t.Error(err)
	}
	must[pgqueue.Enqueued](t)(client.Enqueue(t.Context(), sqltx.On(tx), greet{"a"})) // the transaction is usable
	for _, on := range []pgqueue.Querier{sqltx.On(nil), sqltx.On((*sql.Tx)(nil))} {
		if _, err := client.Enqueue(t.Context(), on, greet{"a"}); err == nil {
			t.Error("a nil transaction was taken")
		}
	}
}

func TestABatchThatFailsSaysWhy(t *testing.T) {
	_, client, db := open(t)
	tx := begin(t, db, nil)
	must[sql.Result](t)(tx.ExecContext(t.Context(), "SET LOCAL statement_timeout = '1h'"))
	_, _ = tx.ExecContext(t.Context(), "SELECT 1/0") // aborts the transaction
	_, err := client.EnqueueMany(t.Context(), sqltx.On(tx), []pgqueue.NewJob{
		{Args: greet{"a"}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("a")}}, {Args: greet{"b"}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("b")}}})
	var fromServer *pgconn.PgError
	if !errors.As(err, &fromServer) || fromServer.Code != "25P02" {
		t.Fatal(err)
	}
}
