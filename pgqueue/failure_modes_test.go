package pgqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// modeArgs is full of what quoting and encoding get wrong, under the kind of the handler that it is for.
type modeArgs struct {
	kind string
	N    int64  `json:"n"`
	Text string `json:"text"`
}

func (a modeArgs) Kind() string { return a.kind }

func newModeArgs(kind string) modeArgs {
	return modeArgs{kind: kind, N: 9007199254740993, Text: "a'b\"c\\ $1 😀 \u2028 {}"}
}

// The kinds of the flow, one for each form of handler and each end of a job.
type (
	modePlain  struct{ modeArgs }
	modeTx     struct{ modeArgs }
	modeBatch  struct{ modeArgs }
	modeResult struct{ modeArgs }
	modeOwn    struct{ modeArgs }
)

func (modePlain) Kind() string  { return "plain" }
func (modeTx) Kind() string     { return "tx" }
func (modeBatch) Kind() string  { return "batch" }
func (modeResult) Kind() string { return "result" }
func (modeOwn) Kind() string    { return "own" }

// modeMux has all forms of handlers, and every end but success by kind.
func modeMux(pool *pgxpool.Pool, saw func(kind string, args modeArgs)) *pgqueue.Mux {
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[modePlain]) error {
		saw(job.Kind, job.Args.modeArgs)
		return nil
	})
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[modeTx]) error {
		saw(job.Kind, job.Args.modeArgs)
		_, err := tx.Exec(ctx, "SELECT 1")
		return err
	})
	pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[modeBatch]) []error {
		for _, job := range jobs {
			saw(job.Kind, job.Args.modeArgs)
		}
		return nil
	})
	pgqueue.HandleResult(mux, func(_ context.Context, job *pgqueue.Job[modeResult]) (modeArgs, error) {
		saw(job.Kind, job.Args.modeArgs)
		return job.Args.modeArgs, nil
	})
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[modeOwn]) error {
		saw(job.Kind, job.Args.modeArgs)
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return job.CompleteTx(ctx, tx) })
	})
	for kind, err := range map[string]error{
		"fails": pgqueue.Coded("broken", runner.Safef("it's \\ broken")), "never": pgqueue.Permanent(errors.New("never")),
		"snoozes": pgqueue.Snooze(time.Hour), "cancels": pgqueue.Cancel(errors.New("not wanted")),
	} {
		mux.HandleFunc(kind, func(context.Context, *pgqueue.AnyJob) error { return err })
	}
	return mux
}

// Every statement of the library works in every mode of pgx, and what it stores is the same in all of them.
func TestC13_TheWholeFlowInEveryExecMode(t *testing.T) {
	t.Parallel()
	modes := everyMode(t)
	stories := make([]string, len(modes))
	t.Run("modes", func(t *testing.T) {
		for i, mode := range modes {
			t.Run(mode.String(), func(t *testing.T) {
				t.Parallel()
				db := pgqueuetest.New(t, pgqueuetest.WithPoolConfig(func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
				stories[i] = wholeFlow(t, db.Pool, db.Schema)
			})
		}
	})
	for i, story := range stories {
		if story == "" || story != stories[0] {
			t.Errorf("%s:\n%s\nwant, as in %s:\n%s", modes[i], story, modes[0], stories[0])
		}
	}
}

// wholeFlow does with a queue whatever can be done, in an order that has one result, and returns all that is stored then.
func wholeFlow(t *testing.T, pool *pgxpool.Pool, schema string) string {
	t.Helper()
	ctx := testContext(t)
	client := quietClient(t, pool, pgqueue.WithSchema(schema))
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	status, err := migrations.Status(ctx, pool, schema)
	check(err)
	if !status.Current() {
		t.Fatalf("the migrations: %+v", status)
	}
	at := one[time.Time](t, pool, "SELECT '2020-02-03 04:05:06.000789Z'::timestamptz")
	options := []pgqueue.EnqueueOption{
		pgqueue.WithTags("a,b", `"`, `\`, "NULL"), pgqueue.WithMetadata(map[string]any{"tenant": "it's"}), pgqueue.WithRunAt(at), pgqueue.WithPriority(2),
	}
	var many []pgqueue.NewJob
	ids := map[string]int64{}
	kinds := []string{"plain", "tx", "batch", "result", "own", "fails", "never", "snoozes", "cancels"}
	for i, kind := range kinds {
		args := newModeArgs(kind)
		keyed := append(options[:len(options):len(options)], pgqueue.WithKey("k\\' "+kind), pgqueue.WithRevision("1"))
		ids[kind] = enqueue(t, client, pool, args, keyed...).ID
		many = append(many, pgqueue.NewJob{Args: args, Options: options}, pgqueue.NewJob{Args: args, Options: keyed}, // one new, one the same
			pgqueue.NewJob{Args: args, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("waits"), pgqueue.WithKey(fmt.Sprint(i)), pgqueue.WithDelay(time.Hour)}})
	}
	_, err = client.EnqueueMany(ctx, pool, many)
	check(err)
	tx := begin(t, pool, pgx.TxOptions{})
	_, err = client.EnqueueCopy(ctx, tx, []pgqueue.NewJob{{Args: newModeArgs("plain"), Options: options}})
	check(err)
	check(tx.Commit(ctx))

	check(client.SetHistory(ctx, pool, "waits", pgqueue.HistorySlim))
	check(client.PauseQueue(ctx, pool, "default", "it's \\ over"))
	saw := map[string]int{}
	mux := modeMux(pool, func(kind string, args modeArgs) { // one at a time: one worker
		if args.kind = kind; args != newModeArgs(kind) {
			t.Errorf("%s ran with %+v", kind, args)
		}
		saw[kind]++
	})
	config := pgqueue.WorkerConfig{ID: "w", Queues: pgqueue.Queues{"default": {Workers: 2, Backoff: runner.Exponential{Base: time.Hour, Max: time.Hour, Factor: 1}}}}
	config.Queues["default"] = pgqueue.QueueConfig{Workers: 1, Backoff: config.Queues["default"].Backoff}
	if result := drain(t, client, mux, config); result.Claimed != 0 {
		t.Errorf("%d jobs of a paused queue ran", result.Claimed)
	}
	check(client.ResumeQueue(ctx, pool, "default"))
	stale := enqueue(t, client, pool, newModeArgs("plain"), pgqueue.OnQueue("default"), pgqueue.WithRunAt(at)).ID
	exec(t, pool, `UPDATE `+pgx.Identifier{schema, "jobs"}.Sanitize()+` SET state = 'running', attempt = 1, claimed_generation = 1,
		claimed_at = now() - interval '1 hour', lease_expires_at = now() - interval '1 minute' WHERE id = $1`, stale)
	if result := drain(t, client, mux, config); result.Recovered.Requeued != 1 || result.Claimed != 2*len(kinds)+2 {
		t.Errorf("drained %+v, want %d jobs and one of a dead worker", result, 2*len(kinds)+2)
	}
	for kind, want := range map[string]int{"plain": 4, "tx": 2, "batch": 2, "result": 2, "own": 2} {
		if saw[kind] != want {
			t.Errorf("%d jobs of %s ran, want %d", saw[kind], kind, want)
		}
	}
	check(client.Retry(ctx, pool, ids["never"]))
	if state, err := client.Cancel(ctx, pool, ids["snoozes"]); err != nil || state != pgqueue.JobCancelled {
		t.Errorf("cancel: %s, %v", state, err)
	}
	if state, err := client.SetMaxAttempts(ctx, pool, ids["fails"], 1); err != nil || state != pgqueue.JobDead {
		t.Errorf("set max attempts: %s, %v", state, err)
	}
	var result modeArgs
	if err := json.Unmarshal(get(t, client, pool, ids["result"]).Result, &result); err != nil || result.N != newModeArgs("").N || result.Text != newModeArgs("").Text {
		t.Errorf("the result is %+v, %v", result, err)
	}
	stats, err := client.Stats(ctx)
	check(err)
	for i := range stats {
		stats[i].OldestReady, stats[i].PausedAt = 0, time.Time{}
	}
	const columns = `format('%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s', id, queue, kind, state, key, revision, payload, metadata, array_to_json(tags), priority,
		attempt, failures, max_attempts, errors -> -1 ->> 'message')`
	story := one[string](t, pool, `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
		SELECT `+columns+` AS line FROM `+pgx.Identifier{schema, "jobs"}.Sanitize()+` UNION ALL
		SELECT `+columns+` || '|' || coalesce(result::text, '-') FROM `+pgx.Identifier{schema, "history"}.Sanitize()+`) j`)
	return fmt.Sprintf("%s\n%+v", story, stats)
}
