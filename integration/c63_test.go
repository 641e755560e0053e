package integration

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// slowClaims is a pgx.QueryTracer that holds back the answer of each claim that follows a round's start: what commits
// meanwhile is not in the answer, and only its hint tells of it.
type slowClaims struct {
	delay    time.Duration
	answered chan string   // gets the queue when its claim has been answered and is being held back
	activity chan struct{} // gets a token at each claim's start and end
}

type claimKey struct{}

// TraceQueryStart implements pgx.QueryTracer.
func (c *slowClaims) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(data.SQL, "SET state = 'running', attempt = ") {
		return ctx
	}
	queue := ""
	for _, arg := range data.Args { // the first text; a mode of execution may precede it
		if name, ok := arg.(string); ok {
			queue = name
			break
		}
	}
	c.activity <- struct{}{}
	return context.WithValue(ctx, claimKey{}, queue)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (c *slowClaims) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	queue, ok := ctx.Value(claimKey{}).(string)
	if !ok {
		return
	}
	c.answered <- queue
	pass(c.delay)
	c.activity <- struct{}{}
}

// A hint that arrives while a claim is under way, for the same queue and for another one, leads to another claim.
func TestC63_HintDuringAClaim(t *testing.T) {
	t.Parallel()
	rounds, delay := 10, 300*time.Millisecond
	if full() {
		rounds = 500
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	s := newService(t)
	claims := &slowClaims{delay: delay, answered: make(chan string, 100_000), activity: make(chan struct{}, 100_000)}
	pool := poolAt(t, s.db.URL, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.Tracer = 6, claims })
	mux, ran := newNotes()
	events := newListenerEvents()
	serve(t, newClient(t, pool, s.db.Schema), mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"a": {Poll: never}, "b": {Poll: never}}, Observer: events, ListenerConn: s.directly(),
	})
	receive(t, events.connected, "the listener's connection")

	for round := range rounds {
		// Idle, and no merged hint of the last round is still to come.
		quiet(t, claims.activity, delay+pgqueue.DefaultHintWindow+200*time.Millisecond)
		for len(claims.answered) > 0 {
			<-claims.answered
		}
		// A hint with nothing behind it begins a claim of A, which finds nothing.
		execute(t, s.pool, "SELECT pg_notify('pgqueue', 'a')")
		if queue := receive(t, claims.answered, "a claim of A"); queue != "a" {
			t.Fatalf("round %d: a hint for A woke %q", round, queue)
		}
		offset := time.Duration(random.Int64N(int64(delay)))
		pass(offset)
		err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
			for _, queue := range []string{"a", "b"} {
				if _, err := s.client.Enqueue(t.Context(), tx, noteJob{round}, pgqueue.OnQueue(queue)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		committed := time.Now()
		missing := map[string]bool{"a": true, "b": true}
		for len(missing) > 0 {
			select {
			case got := <-ran:
				if got.N != round {
					t.Fatalf("round %d: job %d ran", round, got.N)
				}
				delete(missing, got.Queue)
			case <-time.After(patience):
				t.Fatalf("round %d, offset %s: no start of %v within %s", round, offset, missing, time.Since(committed))
			}
		}
	}
}
