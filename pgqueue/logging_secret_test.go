package pgqueue_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// Two secrets: what handlers say in errors and panics, and what is in payloads, keys, tags and metadata.
const (
	secretText    = "hunter2-said-the-error"
	secretPayload = "swordfish-in-the-payload"
)

// leaky is a job whose every part but its kind is secret.
type leaky struct {
	Do     string `json:"do"`
	Secret string `json:"secret"`
}

func (leaky) Kind() string { return "leaky" }

// leakyBatch and leakyTx are its kinds for the other handlers.
type leakyBatch struct{ leaky }

func (leakyBatch) Kind() string { return "leaky_batch" }

type leakyTx struct{ leaky }

func (leakyTx) Kind() string { return "leaky_tx" }

// loudError panics when asked for its text.
type loudError struct{}

func (loudError) Error() string { panic(secretText) }

// leak does what a job says, always to its harm.
func leak(args leaky) error {
	text := fmt.Errorf("cannot log in as %s with %s", args.Secret, secretText)
	switch args.Do {
	case "permanent":
		return pgqueue.Permanent(text)
	case "cancel":
		return pgqueue.Cancel(text)
	case "later":
		return pgqueue.RetryAfter(time.Hour, runner.Coded("later", text))
	case "panic":
		panic(text.Error())
	case "panic error":
		panic(text)
	case "loud":
		return loudError{}
	}
	return text
}

// leakingObserver is an observer that panics with what it should not say.
type leakingObserver struct{}

func (leakingObserver) VerdictDone(runner.VerdictEvent) { panic(secretText) }
func (leakingObserver) HintSent(string)                 { panic(secretText) }

// safeBuffer is a buffer for a logger.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(text)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// leakLogs works off jobs that fail in all ways, and returns what was logged from a level on.
func leakLogs(t *testing.T, level slog.Level, store bool) string {
	t.Helper()
	db := pgqueuetest.New(t)
	logs := &safeBuffer{}
	client := newClient(t, db.Pool, pgqueue.WithLogger(slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: level}))),
		pgqueue.WithObserver(leakingObserver{}),
		pgqueue.WithEnqueueMiddleware(func(next pgqueue.EnqueueFunc) pgqueue.EnqueueFunc {
			return func(ctx context.Context, q pgqueue.Querier, jobs []pgqueue.NewJob) ([]pgqueue.Enqueued, error) {
				if jobs[0].Queue() == "refused" {
					panic(secretText)
				}
				return next(ctx, q, jobs)
			}
		}))
	mux := pgqueue.NewMux()
	backoff := pgqueue.KindBackoff(runner.Exponential{Base: time.Hour, Max: time.Hour})
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[leaky]) error { return leak(job.Args) }, backoff)
	pgqueue.HandleTx(mux, func(_ context.Context, _ pgx.Tx, job *pgqueue.Job[leakyTx]) error { return leak(job.Args.leaky) }, backoff)
	pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[leakyBatch]) []error {
		errs := make([]error, len(jobs))
		for i, job := range jobs {
			errs[i] = leak(job.Args.leaky)
		}
		return errs
	}, backoff, pgqueue.KindCollect(-1), pgqueue.KindBatch(1))
	n := 0
	add := func(args pgqueue.Args) {
		n++
		enqueue(t, client, db.Pool, args, pgqueue.WithKey(fmt.Sprint(secretPayload, n)), pgqueue.WithTags(secretPayload),
			pgqueue.WithMetadata(map[string]string{"secret": secretPayload}))
	}
	for _, do := range []string{"fail", "permanent", "cancel", "later", "panic", "panic error", "loud"} {
		args := leaky{Do: do, Secret: secretPayload}
		add(args)
		add(leakyBatch{args})
		add(leakyTx{args})
	}
	add(pgqueue.Raw{Name: "leaky", Payload: []byte(`{"do":["` + secretPayload + `"]}`)}) // undecodable
	add(pgqueue.Raw{Name: "leaky", Payload: []byte(`{"secret":` + "17" + `}`)})
	if _, err := client.Enqueue(context.Background(), db.Pool, leaky{}, pgqueue.OnQueue("refused")); err == nil {
		t.Error("the middleware's panic is no error")
	}
	drain(t, client, mux, pgqueue.WorkerConfig{StoreErrorText: store})
	if rest := one[int](t, db.Pool, "SELECT count(*) FROM "+pgx.Identifier{db.Schema}.Sanitize()+".jobs WHERE run_at <= now()"); rest != 0 {
		t.Errorf("%d jobs have not run", rest)
	}
	return logs.String()
}

func TestLogsHoldNoSecret(t *testing.T) {
	t.Parallel()
	logs := leakLogs(t, slog.LevelInfo, false)
	for _, secret := range []string{secretText, secretPayload, "hunter2", "swordfish"} {
		if at := strings.Index(logs, secret); at >= 0 {
			t.Errorf("the log holds %q: …%s…", secret, logs[max(0, at-300):min(len(logs), at+100)])
		}
	}
	// What the operator needs is there.
	for _, wanted := range []string{`msg="runner: attempt failed"`, `msg="runner: handler panicked"`, `msg="runner: task cancelled by its handler"`,
		"code=later", "code=undecodable", "kind=leaky_batch", "kind=leaky_tx", "queue=default", `message=*errors.errorString`,
		`msg="runner: observer panicked"`, `msg="pgqueue: a panic in the middleware of an enqueue"`, `msg="pgqueue: an observer panicked"`} {
		if !strings.Contains(logs, wanted) {
			t.Errorf("the log does not hold %s", wanted)
		}
	}
}

func TestLogsHoldTheTextForDebugging(t *testing.T) {
	t.Parallel()
	texts := 0
	for line := range strings.SplitSeq(leakLogs(t, slog.LevelDebug, false), "\n") {
		if !strings.Contains(line, secretText) {
			continue
		}
		texts++
		if !strings.Contains(line, "level=DEBUG") {
			t.Errorf("a text above debug level: %s", line)
		}
	}
	if want := 3 * 5; texts < want { // not those of cancellations and of the error that cannot say its text
		t.Errorf("%d texts at debug level, want at least %d", texts, want)
	}
}

func TestLogsHoldTheTextWhereItIsStored(t *testing.T) {
	t.Parallel()
	logs := leakLogs(t, slog.LevelInfo, true)
	if !strings.Contains(logs, "cannot log in as "+secretPayload+" with "+secretText) {
		t.Error("the log does not hold the text that StoreErrorText stores")
	}
}
