package integration

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgproxy"
	"github.com/pgqueue/pgqueue/internal/pgserver"
	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// replicas are a primary with pgqueue's tables, a streaming standby, and a proxy in front of the primary.
type replicas struct {
	t                *testing.T
	primary, standby *pgserver.Server
	proxy            *pgproxy.Proxy
	onPrimary        *pgxpool.Pool // direct, of an administrator; so is the next
	onStandby        *pgxpool.Pool
}

// newReplicas starts them. With synchronous, a commit is acknowledged when the standby has it.
func newReplicas(t *testing.T, synchronous bool) *replicas {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	settings := map[string]string{"wal_keep_size": "512MB"}
	stop := func(server *pgserver.Server) {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if t.Failed() {
				t.Logf("server at port %d:\n%s", server.Port(), tail(server.Log()))
			}
			if err := server.StopImmediate(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	r := &replicas{t: t}
	var err error
	if r.primary, err = pgserver.Start(ctx, pgserver.Options{Settings: settings}); err != nil {
		t.Fatal(err)
	}
	stop(r.primary)
	r.onPrimary = poolAt(t, r.primary.URL("postgres")+"&application_name=administrator", func(*pgxpool.Config) {})
	if err := migrations.Up(ctx, r.onPrimary, "", migrations.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		t.Fatal(err)
	}
	execute(t, r.onPrimary, `CREATE TABLE orders (n int PRIMARY KEY)`)
	execute(t, r.onPrimary, `CREATE TABLE effects (n int)`)
	if synchronous {
		execute(t, r.onPrimary, `ALTER SYSTEM SET synchronous_standby_names = '`+pgserver.StandbyName+`'`) // from the restart on
	}
	r.onPrimary.Reset() // StartStandby halts the server
	if r.standby, err = r.primary.StartStandby(ctx, pgserver.Options{Settings: settings}); err != nil {
		t.Fatal(err)
	}
	stop(r.standby)
	r.onStandby = poolAt(t, r.standby.URL("postgres"), func(*pgxpool.Config) {})
	if synchronous {
		execute(t, r.onStandby, `ALTER SYSTEM RESET synchronous_standby_names`) // it has no standby of its own
		execute(t, r.onStandby, `SELECT pg_reload_conf()`)
	}
	want := "async"
	if synchronous {
		want = "sync"
	}
	untilSQL(t, r.onPrimary, "the standby streams", `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = $1)`, want)
	r.proxy = startProxy(t, r.primary.URL("postgres"))
	return r
}

// tail is the end of a log.
func tail(text string) string { return text[max(0, len(text)-4000):] }

// pool is one of a service that connects through the proxy.
func (r *replicas) pool(change func(*pgxpool.Config)) *pgxpool.Pool {
	r.t.Helper()
	return poolAt(r.t, throughProxy(r.t, r.primary.URL("postgres"), r.proxy), change)
}

// moveProxy has new connections go to the standby; those that exist stay.
func (r *replicas) moveProxy() {
	r.proxy.Retarget("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.standby.Port())))
}

// kill ends the primary with SIGKILL.
func (r *replicas) kill() {
	r.t.Helper()
	process, err := os.FindProcess(r.primary.PID())
	if err != nil {
		r.t.Fatal(err)
	}
	ended := r.primary.Done()
	if err := process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	receive(r.t, ended, "the end of the primary")
}

// promote makes the standby the primary and returns when that is done.
func (r *replicas) promote() time.Time {
	r.t.Helper()
	// Not awaited in the statement: its snapshot may be in the way of what is still to be replayed, and then each waits for the other.
	if !one[bool](r.t, r.onStandby, `SELECT pg_promote(false)`) {
		r.t.Fatal("the standby was not promoted")
	}
	untilSQL(r.t, r.onStandby, "the standby is the primary", `SELECT NOT pg_is_in_recovery()`)
	return time.Now()
}

// orders writes orders, each with its job in one transaction, until it is stopped: what a service with customers does.
type orders struct {
	pool   *pgxpool.Pool
	client *pgqueue.Client
	stop   func()

	mutex sync.Mutex
	next  int
	acked []int // whose commit was answered
}

// takeOrders begins. Errors are an outage to it: it goes on with the next order.
func takeOrders(t *testing.T, pool *pgxpool.Pool) *orders {
	t.Helper()
	o := &orders{pool: pool, client: newClient(t, pool, "")}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				o.take(ctx)
				pass(5 * time.Millisecond) // a customer
			}
		})
	}
	o.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(o.stop)
	return o
}

func (o *orders) take(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	o.mutex.Lock()
	o.next++
	n := o.next
	o.mutex.Unlock()
	err := pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO orders VALUES ($1)`, n); err != nil {
			return err
		}
		_, err := o.client.Enqueue(ctx, tx, noteJob{n})
		return err
	})
	if err == nil {
		o.mutex.Lock()
		defer o.mutex.Unlock()
		o.acked = append(o.acked, n)
	}
}

// answered are the orders that customers believe in.
func (o *orders) answered() []int {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return append([]int(nil), o.acked...)
}

// effectsMux has a handler whose effect commits with the success of its job.
func effectsMux() (*pgqueue.Mux, <-chan noted) {
	mux, ran := pgqueue.NewMux(), make(chan noted, 1_000_000)
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[noteJob]) error {
		ran <- noted{job.Args.N, job.Queue, job.Attempt}
		_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ($1)`, job.Args.N)
		return err
	})
	return mux, ran
}

// requireAll checks on the new primary that every answered order is there, and that the job of each order there has had its effect
// exactly once.
func (r *replicas) requireAll(answered []int) {
	r.t.Helper()
	untilSQL(r.t, r.onStandby, "every job is done", `SELECT NOT EXISTS (SELECT FROM pgqueue.jobs)`)
	if lost := column[int](r.t, r.onStandby, `SELECT n FROM unnest($1::int[]) n EXCEPT SELECT n FROM orders`, answered); len(lost) != 0 {
		r.t.Errorf("%d of %d answered orders are lost: %v", len(lost), len(answered), lost[:min(10, len(lost))])
	}
	if wrong := column[int](r.t, r.onStandby, `SELECT n FROM (SELECT n, count(*) AS times FROM effects GROUP BY n) e FULL JOIN orders USING (n)
		WHERE e.times IS DISTINCT FROM 1 OR orders.n IS NULL`); len(wrong) != 0 {
		r.t.Errorf("%d orders did not have their effect exactly once: %v", len(wrong), wrong[:min(10, len(wrong))])
	}
	if bad := one[int](r.t, r.onStandby, `SELECT count(*) FROM pgqueue.history WHERE state <> 'succeeded'`); bad != 0 {
		r.t.Errorf("%d jobs did not succeed", bad)
	}
}

func port(server *pgserver.Server) string { return strconv.Itoa(server.Port()) }
