package schedule

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// patience is how long a test waits for what must happen. Only a test that fails waits so long.
const patience = 60 * time.Second

// full tells whether the failure cases run at the sizes of their text.
func full() bool { return os.Getenv("PGQUEUE_TEST_FULL") != "" }

type invoices struct {
	Month string `json:"month,omitempty"`
}

func (invoices) Kind() string { return "invoices" }

// world is a database with a clock that the test moves: the statements of its schedulers read it in the place of the server's.
type world struct {
	t      testing.TB
	db     *pgqueuetest.DB
	client *pgqueue.Client
	editor *Editor
}

// movable reads the clock of the test.
const movable = "(SELECT c.now FROM public.test_clock c)"

func newWorld(t testing.TB, now string) *world {
	t.Helper()
	db := pgqueuetest.New(t)
	w := &world{t: t, db: db, client: db.Client(t)}
	w.exec("CREATE TABLE public.test_clock (now timestamptz NOT NULL)")
	w.exec("INSERT INTO public.test_clock VALUES ($1::timestamptz)", now)
	w.editor = &Editor{client: w.client, store: newStore(db.Schema, movable)}
	return w
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Pool.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// setClock moves the database's clock, forward or back.
func (w *world) setClock(now time.Time) { w.exec("UPDATE public.test_clock SET now = $1", now) }

func (w *world) scheduler(config Config) *Scheduler {
	w.t.Helper()
	return newTestScheduler(w.t, w.client, config, movable)
}

func newTestScheduler(t testing.TB, client *pgqueue.Client, config Config, now string) *Scheduler {
	t.Helper()
	if config.Source == "" {
		config.Source = "test"
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s, err := newScheduler(client, config, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tick calls Tick once and wants no failure.
func tick(t testing.TB, s *Scheduler) TickResult {
	t.Helper()
	result, err := s.Tick(t.Context())
	if err != nil || len(result.Failed) > 0 {
		t.Fatalf("tick: %v %v", err, result.Failed)
	}
	slices.SortFunc(result.Ticks, func(a, b TickEvent) int { return a.At.Compare(b.At) })
	return result
}

// start runs a scheduler until the end of the test, or until stop is called.
func start(t testing.TB, s *Scheduler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := receive(t, done, "the scheduler to stop"); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

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

// until polls where SQL is the only evidence.
func until(t testing.TB, what string, good func() bool) {
	t.Helper()
	timer, pause := time.NewTimer(patience), time.NewTicker(20*time.Millisecond)
	defer timer.Stop()
	defer pause.Stop()
	for !good() {
		select {
		case <-pause.C:
		case <-timer.C:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// value reads one value.
func value[T any](w *world, sql string, args ...any) (found T) {
	w.t.Helper()
	rows, err := w.db.Pool.Query(w.t.Context(), sql, args...)
	if err == nil {
		found, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	}
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return found
}

// ticksInDatabase lists the ticks of a schedule that became a job, oldest first, and checks that there is one job for each.
func (w *world) ticksInDatabase(name string) []time.Time {
	w.t.Helper()
	rows, err := w.db.Pool.Query(w.t.Context(), `SELECT k.tick FROM pgqueue.schedule_ticks k WHERE k.name = $1 AND k.job_id IS NOT NULL ORDER BY k.tick`, name)
	var found []time.Time
	if err == nil {
		found, err = pgx.CollectRows(rows, pgx.RowTo[time.Time])
	}
	if err != nil {
		w.t.Fatal(err)
	}
	jobs := value[[]string](w, `SELECT coalesce(array_agg(j.metadata->>'tick' ORDER BY (j.metadata->>'tick')::timestamptz), '{}') FROM pgqueue.jobs j
		WHERE j.metadata->>'schedule' = $1 AND j.metadata ? 'tick'`, name)
	of := make([]string, len(found))
	for i, at := range found {
		of[i] = at.UTC().Format(time.RFC3339)
	}
	if !slices.Equal(jobs, of) {
		w.t.Errorf("schedule %s: jobs of %v, ticks %v", name, jobs, of)
	}
	return found
}

func (w *world) stored(name string) Stored {
	w.t.Helper()
	found, err := w.editor.Get(w.t.Context(), w.db.Pool, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

func at(text string) time.Time {
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return parsed.UTC()
}

func texts(ticks []time.Time) []string {
	all := make([]string, len(ticks))
	for i, tick := range ticks {
		all[i] = tick.UTC().Format(time.RFC3339)
	}
	return all
}

func events(all []TickEvent) []string {
	words := make([]string, len(all))
	for i, e := range all {
		words[i] = e.At.Format(time.RFC3339)
		if e.Skipped {
			words[i] += " skipped"
		}
	}
	return words
}

func wantTexts(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// counter is an observer.
type counter struct {
	mutex  sync.Mutex
	ticked map[string]int
	failed map[string][]error
	late   map[string]time.Duration
}

func (c *counter) ScheduleTicked(e TickEvent) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.ticked == nil {
		c.ticked, c.late = map[string]int{}, map[string]time.Duration{}
	}
	c.ticked[e.Schedule]++
	c.late[e.Schedule] = max(c.late[e.Schedule], e.Late)
}

func (c *counter) ScheduleFailed(e ErrorEvent) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.failed == nil {
		c.failed = map[string][]error{}
	}
	c.failed[e.Schedule] = append(c.failed[e.Schedule], e.Err)
}

func (c *counter) ticks(name string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.ticked[name]
}

func (c *counter) errors(name string) []error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.failed[name])
}
