package pgqueue_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/codec"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// planted is what no table may hold, of payloads, results, progress and messages.
const planted = "planted-4111-1111-1111-1111"

// plantedSafe is marked as safe by its author: it may be logged, and is encoded where it is stored like everything else.
const plantedSafe = "card-of-somebody-declined"

// sealedArgs are the arguments of the kinds of these tests.
type sealedArgs struct {
	Do     string `json:"do"`
	Secret string `json:"secret"`
}

func (sealedArgs) Kind() string { return "sealed" }

type sealedBatch struct{ sealedArgs }

func (sealedBatch) Kind() string { return "sealed_batch" }

type sealedTx struct{ sealedArgs }

func (sealedTx) Kind() string { return "sealed_tx" }

// key is a key of a ring for tests.
func key(id string) codec.Key {
	return codec.Key{ID: id, Secret: bytes.Repeat([]byte(id)[:1], codec.KeySize)}
}

func aesGCM(t testing.TB, ids ...string) *codec.AES {
	t.Helper()
	keys := make([]codec.Key, len(ids))
	for i, id := range ids {
		keys[i] = key(id)
	}
	made, err := codec.AESGCM(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// wire notes what is sent to Postgres.
type wire struct{ text safeBuffer }

func (w *wire) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	fmt.Fprintf(&w.text, "%s %s\n", data.SQL, flat(data.Args))
	return ctx
}
func (w *wire) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (w *wire) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (w *wire) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	fmt.Fprintf(&w.text, "%s %s\n", data.SQL, flat(data.Args))
}
func (w *wire) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// flat writes arguments with what their pointers point at.
func flat(args []any) string {
	var b strings.Builder
	for _, arg := range args {
		if texts, ok := arg.([]*string); ok {
			for _, text := range texts {
				if text != nil {
					b.WriteString(*text + " ")
				}
			}
			continue
		}
		fmt.Fprintf(&b, "%s ", arg)
	}
	return b.String()
}

// secretLife has jobs with a secret do everything that jobs do, and returns what all tables hold, what was sent, and what was logged.
func secretLife(t *testing.T, options ...pgqueue.ClientOption) (tables map[string]string, sent, logs string) {
	t.Helper()
	db := pgqueuetest.New(t)
	record, log := &wire{}, &safeBuffer{}
	pool := poolLike(t, db.Pool, func(c *pgxpool.Config) { c.ConnConfig.Tracer = record })
	client := newClient(t, pool, append([]pgqueue.ClientOption{
		pgqueue.WithLogger(slog.New(slog.NewTextHandler(log, nil)))}, options...)...)

	wrong := fmt.Errorf("cannot charge %s", planted)
	do := func(args sealedArgs) error {
		if args.Secret != planted {
			t.Errorf("a handler was given %q", args.Secret)
		}
		switch args.Do {
		case "fail":
			return wrong
		case "safe":
			return pgqueue.Permanent(runner.Coded("declined", runner.Safe(errors.New(plantedSafe))))
		case "panic":
			panic(wrong)
		case "cancel":
			return pgqueue.Cancel(wrong)
		}
		return nil
	}
	mux := pgqueue.NewMux()
	later := pgqueue.KindBackoff(runner.Exponential{Base: time.Hour, Max: time.Hour})
	pgqueue.HandleResult(mux, func(_ context.Context, job *pgqueue.Job[sealedArgs]) (map[string]string, error) {
		if err := job.SetProgress(map[string]string{"at": planted}); err != nil {
			t.Error(err)
		}
		if job.Args.Do == "odd" { // refused, by Go or by Postgres
			return map[string]string{"card": planted, "nul": "\x00"}, nil
		}
		return map[string]string{"card": planted}, do(job.Args)
	}, later)
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[sealedTx]) error {
		if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
			return err
		}
		if err := job.SetResult(planted); err != nil {
			t.Error(err)
		}
		return do(job.Args.sealedArgs)
	}, later)
	pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[sealedBatch]) []error {
		errs := make([]error, len(jobs))
		for i, job := range jobs {
			if err := job.SetResult([]string{planted}); err != nil {
				t.Error(err)
			}
			errs[i] = do(job.Args.sealedArgs)
		}
		return errs
	}, later, pgqueue.KindCollect(-1))

	var many []pgqueue.NewJob
	for _, what := range []string{"succeed", "fail", "safe", "panic", "cancel", "odd"} {
		args := sealedArgs{Do: what, Secret: planted}
		many = append(many, pgqueue.NewJob{Args: args}, pgqueue.NewJob{Args: sealedBatch{args}}, pgqueue.NewJob{Args: sealedTx{args}})
		enqueue(t, client, pool, args, pgqueue.WithKey(what))
		enqueue(t, client, pool, args, pgqueue.WithKey(what)) // replaces it
	}
	enqueue(t, client, pool, sealedArgs{Do: "waits", Secret: planted}, pgqueue.WithDelay(time.Hour))
	enqueue(t, client, pool, sealedArgs{Do: "unique", Secret: planted}, pgqueue.WithUnique(pgqueue.Unique{Keep: time.Hour}))
	if _, err := client.EnqueueMany(testContext(t), pool, many); err != nil {
		t.Fatal(err)
	}
	if _, err := client.EnqueueCopy(testContext(t), pool, many); err != nil {
		t.Fatal(err)
	}
	config := pgqueue.WorkerConfig{StoreErrorText: true}
	drain(t, client, mux, config)
	ended := one[int64](t, pool, "SELECT min(id) FROM pgqueue.history WHERE state = 'failed'")
	if err := client.Retry(testContext(t), pool, ended); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "UPDATE pgqueue.jobs SET run_at = now() WHERE error_count > 0 AND id % 2 = 0") // a second attempt
	drain(t, client, mux, config)
	tx := begin(t, pool, pgx.TxOptions{})
	enqueue(t, client, tx, sealedArgs{Do: "fail", Secret: planted})
	if _, err := client.DrainTx(testContext(t), tx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}, StoreErrorText: true}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}

	tables = map[string]string{}
	rows, err := db.Pool.Query(testContext(t), `SELECT relname FROM pg_class WHERE relnamespace = 'pgqueue'::regnamespace AND relkind IN ('r', 'p')`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		tables[name] = one[string](t, db.Pool, "SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM "+pgx.Identifier{"pgqueue", name}.Sanitize()+" t")
	}
	return tables, record.text.String(), log.String()
}

// spellings are ways to write a secret down.
func spellings(secret string) []string {
	all := []string{secret, hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret)))}
	for offset := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + secret + "xx"))
		all = append(all, text[4:len(text)-8]) // without what the neighbours have a part in
	}
	return all
}

func TestDumpHoldsNoSecret(t *testing.T) {
	t.Parallel()
	for _, codecs := range [][]pgqueue.Codec{{aesGCM(t, "k1")}, {codec.Gzip(1), aesGCM(t, "k1")}} {
		tables, sent, logs := secretLife(t, pgqueue.WithCodec(codecs...), pgqueue.WithStrictCodec())
		if len(tables["jobs"]) == 0 || len(tables["history"]) == 0 || len(tables["job_progress"]) == 0 || len(tables["unique_keys"]) == 0 {
			t.Fatal("nothing happened")
		}
		tables["what was sent"], tables["what was logged"] = sent, logs
		for name, text := range tables {
			looked := spellings(planted)
			if name != "what was logged" {
				looked = append(looked, spellings(plantedSafe)...)
			}
			for _, spelling := range looked {
				if at := strings.Index(text, spelling); at >= 0 {
					t.Errorf("%s holds %q: …%s…", name, spelling, text[max(0, at-200):min(len(text), at+100)])
				}
			}
		}
		// The codes are readable all the same.
		for _, code := range []string{"declined", "panic", "result_rejected"} {
			if !strings.Contains(tables["jobs"]+tables["history"], code) {
				t.Errorf("no code %s", code)
			}
		}
	}
}

// The test above can find what it looks for: without a codec it is everywhere.
func TestDumpWithoutCodecHoldsTheSecret(t *testing.T) {
	t.Parallel()
	tables, sent, logs := secretLife(t)
	tables["what was sent"], tables["what was logged"] = sent, logs
	for _, name := range []string{"jobs", "history", "job_progress", "what was sent", "what was logged"} {
		if !strings.Contains(tables[name], planted) {
			t.Errorf("%s does not hold the secret", name)
		}
	}
	if !strings.Contains(tables["history"], plantedSafe) {
		t.Error("history does not hold the message of a failure")
	}
	for _, spelling := range spellings(planted)[3:] {
		if !strings.Contains(base64.StdEncoding.EncodeToString([]byte("x"+planted+"xxxx"))+base64.StdEncoding.EncodeToString([]byte("xx"+planted+"xxxx"))+
			base64.StdEncoding.EncodeToString([]byte(planted+"xxxx")), spelling) {
			t.Errorf("%s is no part of base64", spelling)
		}
	}
}

// What the one who has the key reads is what was written.
func TestCodecReadsWhatItWrote(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool, pgqueue.WithCodec(codec.Gzip(512), aesGCM(t, "k1")))
	mux := pgqueue.NewMux()
	pgqueue.HandleResult(mux, func(_ context.Context, job *pgqueue.Job[sealedArgs]) (string, error) {
		if job.Attempt == 1 {
			return "", runner.Safe(errors.New("said " + planted))
		}
		return "the result of " + job.Args.Secret, nil
	}, pgqueue.KindBackoff(runner.Exponential{Base: time.Millisecond, Max: time.Millisecond}))
	long := strings.Repeat(planted+" ", 1000)
	id := enqueue(t, client, db.Pool, sealedArgs{Secret: long}).ID
	if size := one[int](t, db.Pool, "SELECT octet_length(payload::text) FROM pgqueue.jobs WHERE id = $1", id); size > len(long)/4 {
		t.Errorf("%d bytes of %d: not compressed", size, len(long))
	}
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
	awaitState(t, db.Pool, id, "succeeded")
	if err := worker.end(t); err != nil {
		t.Fatal(err)
	}
	got, err := client.Get(testContext(t), db.Pool, id)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got.Payload), long) || string(got.Result) != fmt.Sprintf("%q", "the result of "+long) ||
		len(got.Failed) != 1 || got.Failed[0].Message != "said "+planted || got.Sealed != nil {
		t.Errorf("%.300s", fmt.Sprintf("%+v", got))
	}
}
