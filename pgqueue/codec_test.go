package pgqueue_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/codec"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// fakeCodec does what its functions say; by default it turns bytes around.
type fakeCodec struct {
	name           string
	encode, decode func(ctx context.Context, data []byte) ([]byte, error)
}

func (f *fakeCodec) Name() string {
	if f.name == "" {
		return "fake"
	}
	return f.name
}

func (f *fakeCodec) Encode(ctx context.Context, plain []byte, _ pgqueue.CodecContext) ([]byte, string, error) {
	data, err := turn(ctx, plain, f.encode)
	return data, "", err
}

func (f *fakeCodec) Decode(ctx context.Context, encoded []byte, _ string, _ pgqueue.CodecContext) ([]byte, error) {
	return turn(ctx, encoded, f.decode)
}

func turn(ctx context.Context, data []byte, by func(context.Context, []byte) ([]byte, error)) ([]byte, error) {
	if by != nil {
		return by(ctx, data)
	}
	turned := make([]byte, len(data))
	for i, b := range data {
		turned[len(data)-1-i] = b
	}
	return turned, nil
}

// localFake is the same without a goroutine of its own.
type localFake struct{ *fakeCodec }

func (localFake) Local() {}

func TestCodecSettings(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	for name, options := range map[string][]pgqueue.ClientOption{
		"strict without": {pgqueue.WithStrictCodec()},
		"nil":            {pgqueue.WithCodec(nil)},
		"nil pointer":    {pgqueue.WithCodec((*codec.AES)(nil))},
		"twice":          {pgqueue.WithCodec(codec.Gzip(1)), pgqueue.WithCodec(codec.Gzip(2))},
		"odd name":       {pgqueue.WithCodec(&fakeCodec{name: `"`})},
		"nine": {pgqueue.WithCodec(&fakeCodec{name: "1"}, &fakeCodec{name: "2"}, &fakeCodec{name: "3"}, &fakeCodec{name: "4"},
			&fakeCodec{name: "5"}, &fakeCodec{name: "6"}, &fakeCodec{name: "7"}, &fakeCodec{name: "8"}, &fakeCodec{name: "9"})},
	} {
		if _, err := pgqueue.NewClient(db.Pool, options...); !errors.Is(err, pgqueue.ErrInvalid) || !strings.Contains(err.Error(), "codec") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := pgqueue.NewInspector(db.Pool, pgqueue.InspectorConfig{Codecs: []pgqueue.Codec{nil}}); !errors.Is(err, pgqueue.ErrInvalid) {
		t.Errorf("error %v", err)
	}
}

// Whatever a codec does, the enqueue returns an error that says so, in time, and sends nothing.
func TestCodecThatFailsAnEnqueue(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool, counter := counted(t, db)
	release := make(chan struct{})
	defer close(release)
	errAway := errors.New("the key service is away")
	for name, c := range map[string]struct {
		encode func(context.Context, []byte) ([]byte, error)
		says   string
	}{
		"error": {func(context.Context, []byte) ([]byte, error) { return nil, errAway }, errAway.Error()},
		"panic": {func(context.Context, []byte) ([]byte, error) { panic(planted) }, "panicked"},
		"blocks": {func(context.Context, []byte) ([]byte, error) {
			<-release
			return nil, nil
		}, "does not answer"},
		"large": {func(context.Context, []byte) ([]byte, error) { return make([]byte, 800<<10), nil }, "too large"},
	} {
		for _, local := range []bool{false, true} {
			if local && name == "blocks" {
				continue // which it has promised not to do
			}
			var with pgqueue.Codec = &fakeCodec{encode: c.encode}
			if local {
				with = localFake{&fakeCodec{encode: c.encode}}
			}
			client := newClient(t, pool, pgqueue.WithCodec(with))
			before := counter.n.Load()
			patient := func() context.Context {
				if name != "blocks" {
					return testContext(t)
				}
				ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
				t.Cleanup(cancel)
				return ctx
			}
			_, one := client.Enqueue(patient(), pool, greet{})
			_, many := client.EnqueueMany(patient(), pool, []pgqueue.NewJob{{Args: greet{}}, {Args: greet{}}})
			_, copied := client.EnqueueCopy(patient(), pool, []pgqueue.NewJob{{Args: greet{}}})
			for way, err := range map[string]error{"one": one, "many": many, "copied": copied} {
				if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), planted) {
					t.Errorf("%s, %s, local %t: error %v", name, way, local, err)
				}
				var failed *pgqueue.CodecError
				if name == "large" {
					if !errors.Is(err, pgqueue.ErrInvalid) {
						t.Errorf("%s: error %v", way, err)
					}
				} else if !errors.As(err, &failed) || failed.Field != pgqueue.FieldPayload || failed.Codec != "fake" || failed.Decoding {
					t.Errorf("%s, %s: error %#v", name, way, err)
				}
				if name == "error" && !errors.Is(err, errAway) {
					t.Errorf("%s: the codec's error is lost in %v", way, err)
				}
			}
			if n := counter.n.Load() - before; n != 0 {
				t.Errorf("%s: %d statements were sent", name, n)
			}
		}
	}
}

// What looks like an encoded value is refused, with a codec and without: otherwise it would not come back as it went.
func TestReservedMemberIsRefused(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	for _, options := range [][]pgqueue.ClientOption{nil, {pgqueue.WithCodec(aesGCM(t, "k1"))}} {
		client := newClient(t, db.Pool, options...)
		for _, payload := range []string{`{"$pgqueue": {"codec": ["gzip"], "data": ""}}`, `{"a": 1, "\u0024pgqueue": 2}`} {
			_, err := client.Enqueue(testContext(t), db.Pool, rawJob(payload))
			requireInvalid(t, err, "payload.$pgqueue")
			_, err = client.EncodePayload(testContext(t), "greet", []byte(payload))
			requireInvalid(t, err, "payload.$pgqueue")
		}
		mux := pgqueue.NewMux()
		pgqueue.HandleResult(mux, func(context.Context, *pgqueue.Job[greet]) (map[string]int, error) {
			return map[string]int{"$pgqueue": 1}, nil
		})
		id := enqueue(t, client, db.Pool, greet{}, pgqueue.WithMaxAttempts(1)).ID
		drain(t, client, mux, pgqueue.WorkerConfig{})
		got, err := client.Get(testContext(t), db.Pool, id)
		if err != nil || got.State != pgqueue.JobDead || got.Failed[0].Code != pgqueue.CodeResultRejected || !strings.Contains(got.Failed[0].Message, "$pgqueue") {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// A codec can be introduced, and its keys changed, while jobs are pending: what is there already is run.
func TestCodecIsIntroducedWhileJobsArePending(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	enqueue(t, newClient(t, db.Pool), db.Pool, greet{Name: "plain"})
	enqueue(t, newClient(t, db.Pool, pgqueue.WithCodec(codec.Gzip(1))), db.Pool, greet{Name: strings.Repeat("zipped", 100)})
	enqueue(t, newClient(t, db.Pool, pgqueue.WithCodec(aesGCM(t, "k1"))), db.Pool, greet{Name: "old key"})
	enqueue(t, newClient(t, db.Pool, pgqueue.WithCodec(aesGCM(t, "r2", "k1"), &fakeCodec{})), db.Pool, greet{Name: "turned"})
	exec(t, db.Pool, `SELECT pgqueue.enqueue('greet', '{"name": "from psql"}')`)

	client := newClient(t, db.Pool, pgqueue.WithCodec(&fakeCodec{}, codec.Gzip(1), aesGCM(t, "r2", "k1")))
	mux := pgqueue.NewMux()
	var names []string
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[greet]) error {
		names = append(names, job.Args.Name)
		return nil
	})
	drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1}}})
	if got := strings.Join(names, ", "); got != "plain, "+strings.Repeat("zipped", 100)+", old key, turned, from psql" {
		t.Errorf("run: %s", got)
	}
}

// An attempt at arguments that cannot be decoded fails, alone, with a text that names the key and quotes nothing; its handler is not
// called.
func TestUndecodablePayloads(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool := db.Pool
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	fmt.Fprintf(w, `"%s"`, strings.Repeat("x", pgqueue.DefaultMaxPayload))
	_ = w.Close()
	sealed := func(kind string, with ...pgqueue.Codec) string {
		text, err := newClient(t, pool, pgqueue.WithCodec(with...)).EncodePayload(testContext(t), kind, []byte(`{"name":"`+planted+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	wrongKey, err := codec.AESGCM(codec.Key{ID: "k1", Secret: bytes.Repeat([]byte("?"), codec.KeySize)})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		payload string
		options []pgqueue.ClientOption
		says    string
	}{
		"no codec":      {sealed("greet", aesGCM(t, "k1")), nil, `with aes256gcm, key "k1": there is no such codec here`},
		"another codec": {sealed("greet", aesGCM(t, "k1")), []pgqueue.ClientOption{pgqueue.WithCodec(codec.Gzip(1))}, "no such codec"},
		"unknown key":   {sealed("greet", aesGCM(t, "k1")), []pgqueue.ClientOption{pgqueue.WithCodec(aesGCM(t, "r2"))}, `key "k1": the key is not known here`},
		"wrong key":     {sealed("greet", wrongKey), []pgqueue.ClientOption{pgqueue.WithCodec(aesGCM(t, "k1"))}, `key "k1": it was changed`},
		"another kind":  {sealed("other", aesGCM(t, "k1")), []pgqueue.ClientOption{pgqueue.WithCodec(aesGCM(t, "k1"))}, "belongs elsewhere"},
		"plaintext":     {`{"name":"` + planted + `"}`, []pgqueue.ClientOption{pgqueue.WithCodec(aesGCM(t, "k1")), pgqueue.WithStrictCodec()}, "the value is not encoded"},
		"only zipped": {sealed("greet", codec.Gzip(1), &fakeCodec{}), []pgqueue.ClientOption{pgqueue.WithCodec(codec.Gzip(1), &fakeCodec{}, aesGCM(t, "k1")),
			pgqueue.WithStrictCodec()}, "the value is not encoded"},
		"malformed": {`{"$pgqueue": {"codec": 1}}`, []pgqueue.ClientOption{pgqueue.WithCodec(aesGCM(t, "k1"))}, "malformed"},
		"bomb": {`{"$pgqueue": {"codec": ["gzip"], "data": "` + base64.StdEncoding.EncodeToString(bomb.Bytes()) + `"}}`,
			[]pgqueue.ClientOption{pgqueue.WithCodec(codec.Gzip(1))}, "too large"},
		"no JSON": {sealed("greet", &fakeCodec{encode: func(context.Context, []byte) ([]byte, error) { return []byte("{"), nil }}),
			[]pgqueue.ClientOption{pgqueue.WithCodec(&fakeCodec{})}, "no JSON"},
		"its own error": {sealed("greet", &fakeCodec{}), []pgqueue.ClientOption{pgqueue.WithCodec(&fakeCodec{
			decode: func(ctx context.Context, data []byte) ([]byte, error) {
				plain, err := turn(ctx, data, nil)
				if bytes.Contains(plain, []byte(planted)) {
					return nil, errors.New("kms 503 " + planted)
				}
				return plain, err
			}})}, "with fake: the codec failed"},
		"panic": {sealed("greet", &fakeCodec{}), []pgqueue.ClientOption{pgqueue.WithCodec(&fakeCodec{
			decode: func(ctx context.Context, data []byte) ([]byte, error) {
				plain, err := turn(ctx, data, nil)
				if bytes.Contains(plain, []byte(planted)) {
					panic(planted)
				}
				return plain, err
			}})}, "panicked"},
	}
	for name, c := range cases {
		client := newClient(t, pool, c.options...)
		mux := pgqueue.NewMux()
		var middle atomic.Int64
		mux.Use(func(next pgqueue.Handler) pgqueue.Handler {
			return pgqueue.HandlerFunc(func(ctx context.Context, job *pgqueue.AnyJob) error {
				err := next.HandleJob(ctx, job)
				var failed *pgqueue.CodecError
				if errors.As(err, &failed) && failed.Decoding {
					middle.Add(1)
				}
				return err
			})
		})
		mux.HandleFunc("greet", func(_ context.Context, job *pgqueue.AnyJob) error {
			t.Errorf("%s: the handler was called with %s", name, job.Args)
			return nil
		})
		ran := 0
		pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[other]) []error {
			ran += len(jobs)
			return nil
		}, pgqueue.KindBatch(3), pgqueue.KindCollect(20*time.Second))
		id := one[int64](t, pool, "INSERT INTO pgqueue.jobs (queue, kind, payload, max_attempts) VALUES ('default', 'greet', $1::text::jsonb, 1) RETURNING id", c.payload)
		batch := one[int64](t, pool, "INSERT INTO pgqueue.jobs (queue, kind, payload, max_attempts) VALUES ('default', 'other', $1::text::jsonb, 1) RETURNING id",
			strings.Replace(c.payload, `"data"`, `"daten"`, 1))
		enqueue(t, client, pool, other{})
		enqueue(t, client, pool, other{})
		drain(t, client, mux, pgqueue.WorkerConfig{StoreErrorText: true})
		reader := newClient(t, pool, pgqueue.WithCodec(aesGCM(t, "k1", "r2"), &fakeCodec{}, codec.Gzip(1)))
		for _, id := range []int64{id, batch} {
			got, err := reader.Get(testContext(t), pool, id)
			if err != nil {
				t.Fatal(err)
			}
			if got.State != pgqueue.JobDead || len(got.Failed) != 1 || got.Failed[0].Code != runner.CodeUndecodable {
				t.Errorf("%s: %+v", name, got)
				continue
			}
			if message := got.Failed[0].Message; got.Kind == "greet" && !strings.Contains(message, c.says) || strings.Contains(message, planted) {
				t.Errorf("%s: message %q, want %q", name, message, c.says)
			}
		}
		if ran != 2 || middle.Load() != 2 {
			t.Errorf("%s: %d jobs of the batch have run, and the middleware has seen %d errors", name, ran, middle.Load())
		}
	}
}

// What a codec says of its failure is in the log, for debugging, and nowhere else.
func TestTheWordsOfACodecAreLoggedForDebugging(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	for level, want := range map[slog.Level]bool{slog.LevelDebug: true, slog.LevelInfo: false} {
		logs := &safeBuffer{}
		client := newClient(t, db.Pool, pgqueue.WithLogger(slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: level}))),
			pgqueue.WithCodec(&fakeCodec{decode: func(context.Context, []byte) ([]byte, error) { return nil, errors.New("kms 503") }}))
		mux := pgqueue.NewMux()
		pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[greet]) error { return nil })
		enqueue(t, client, db.Pool, greet{}, pgqueue.WithMaxAttempts(1))
		drain(t, client, mux, pgqueue.WorkerConfig{})
		if text := logs.String(); strings.Contains(text, "kms 503") != want || !strings.Contains(text, "the codec failed") {
			t.Errorf("%s: logged %s", level, text)
		}
	}
	// A codec of AES without keys is no panic.
	if _, err := newClient(t, db.Pool, pgqueue.WithCodec(&codec.AES{})).Enqueue(testContext(t), db.Pool, greet{}); err == nil || !strings.Contains(err.Error(), "make the codec with AESGCM") {
		t.Errorf("error %v", err)
	}
}

// A codec may say what is to become of a job that it cannot decode now.
func TestCodecThatPauses(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool, pgqueue.WithCodec(&fakeCodec{
		decode: func(context.Context, []byte) ([]byte, error) { return nil, pgqueue.Snooze(time.Hour) }}))
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[greet]) error { return nil })
	id := enqueue(t, client, db.Pool, greet{}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	job(t, db.Pool, id).requireState(t, "pending", 1, 0)
}

// A message that cannot be encoded is left out; the attempt, its code and all else are stored.
func TestCodecThatFailsAMessage(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	release := make(chan struct{})
	defer close(release)
	for name, fail := range map[string]func(context.Context, []byte) ([]byte, error){
		"error": func(context.Context, []byte) ([]byte, error) { return nil, errors.New("about " + planted) },
		"panic": func(context.Context, []byte) ([]byte, error) { panic(planted) },
		"blocks": func(ctx context.Context, _ []byte) ([]byte, error) {
			<-release
			return nil, ctx.Err()
		},
	} {
		logs := &safeBuffer{}
		client := newClient(t, db.Pool, pgqueue.WithLogger(slog.New(slog.NewTextHandler(logs, nil))), pgqueue.WithCodec(&fakeCodec{
			encode: func(ctx context.Context, data []byte) ([]byte, error) {
				if bytes.Contains(data, []byte(planted)) {
					return fail(ctx, data)
				}
				return turn(ctx, data, nil)
			}}))
		mux := pgqueue.NewMux()
		pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[greet]) error { return runner.Coded("mine", errors.New(planted)) })
		id := enqueue(t, client, db.Pool, greet{}, pgqueue.WithMaxAttempts(1)).ID
		drain(t, client, mux, pgqueue.WorkerConfig{StoreErrorText: true, StorageTimeout: time.Second})
		got, err := client.Get(testContext(t), db.Pool, id)
		if err != nil || got.State != pgqueue.JobDead || got.Failed[0].Code != "mine" || !strings.Contains(got.Failed[0].Message, "left out") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if text := logs.String(); !strings.Contains(text, "could not be encoded and is left out") || strings.Contains(text, planted) {
			t.Errorf("%s: logged %s", name, text)
		}
	}
}

// What StoreErrorText stores is the whole text, also of panics, for who has the key.
func TestCodecStoresTheTextOfErrors(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool, pgqueue.WithCodec(aesGCM(t, "k1")))
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[greet]) error {
		if job.Args.Name == "panic" {
			panic("at " + planted)
		}
		return fmt.Errorf("wrapped: %w", errors.New(planted))
	})
	for name, want := range map[string]string{"error": "wrapped: " + planted, "panic": "at " + planted} {
		for _, store := range []bool{true, false} {
			id := enqueue(t, client, db.Pool, greet{Name: name}, pgqueue.WithMaxAttempts(1)).ID
			drain(t, client, mux, pgqueue.WorkerConfig{StoreErrorText: store})
			got, err := client.Get(testContext(t), db.Pool, id)
			if err != nil || strings.Contains(got.Failed[0].Message, want) != store || got.Failed[0].Message == "" {
				t.Errorf("%s, %t: %+v, %v", name, store, got, err)
			}
		}
	}
}

// A strict client takes no result from somebody without the key.
func TestStrictCodecRefusesAPlaintextResult(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool, pgqueue.WithCodec(aesGCM(t, "k1")), pgqueue.WithStrictCodec())
	mux := pgqueue.NewMux()
	pgqueue.HandleResult(mux, func(context.Context, *pgqueue.Job[greet]) (string, error) { return "mine", nil })
	id := enqueue(t, client, db.Pool, greet{}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	if got, err := pgqueue.AwaitResult[string](testContext(t), client, id); err != nil || got != "mine" {
		t.Fatalf("%q, %v", got, err)
	}
	exec(t, db.Pool, `UPDATE pgqueue.history SET result = '"forged"' WHERE id = $1`, id)
	if got, err := pgqueue.AwaitResult[string](testContext(t), client, id); err == nil || !strings.Contains(err.Error(), "not encoded") {
		t.Errorf("%q, %v", got, err)
	}
	tx := begin(t, db.Pool, pgx.TxOptions{})
	exec(t, tx, `UPDATE pgqueue.history SET result = payload WHERE id = $1`, id) // of the same kind, but another field
	if got, err := client.Get(testContext(t), tx, id); err != nil || !strings.Contains(got.Sealed["result"].Reason, "belongs elsewhere") {
		t.Errorf("%+v, %v", got, err)
	}
}
