package jobstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// model is what the claims, verdicts and replacements of a run say must be true at its end.
type model struct {
	mu          sync.Mutex
	claims      map[string]int   // how often each claim was handed out
	attempts    map[int64]int    // the highest attempt that was
	generations map[int64]int    // the latest input
	ended       map[int64]string // the terminal outcome that a worker was told
	problems    []string
}

func (m *model) complain(format string, args ...any) {
	m.problems = append(m.problems, fmt.Sprintf(format, args...))
}

func (m *model) claimed(row *jobstore.Row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.claims[row.String()]++; m.claims[row.String()] > 1 {
		m.complain("%s was handed out twice", row)
	}
	m.attempts[row.ID] = max(m.attempts[row.ID], row.Attempt)
}

func (m *model) outcome(row *jobstore.Row, outcome runner.Outcome) {
	state := map[runner.Outcome]string{runner.Succeeded: "succeeded", runner.Failed: "failed", runner.Dead: "dead", runner.Cancelled: "cancelled"}[outcome]
	if state == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := m.ended[row.ID]; before != "" {
		m.complain("%s ended as %s, but had ended as %s", row, state, before)
	}
	m.ended[row.ID] = state
}

// Claimers with leases that run out, reporters of every kind, reapers, replacements and lockers work on the same few
// hundred jobs. At the end every job must have ended exactly once, at its latest input, as its worker was told.
func TestModel(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]option{
		"read committed":  nil,
		"repeatable read": {setting("default_transaction_isolation", "repeatable read")},
		"simple protocol": {mode(pgx.QueryExecModeSimpleProtocol)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, options...)
			runModel(t, f, 300, 2*time.Second)
		})
	}
}

func runModel(t *testing.T, f *fixture, jobs int, length time.Duration) {
	m := &model{claims: map[string]int{}, attempts: map[int64]int{}, generations: map[int64]int{}, ended: map[int64]string{}}
	ids := f.insert(jobs)
	f.exec(`UPDATE %s.jobs SET max_attempts = 1 + id %% 4, priority = 1 + id %% 4`)
	var group sync.WaitGroup
	var stop atomic.Bool
	worker := func(do func(queue *jobstore.Queue) error) {
		queue := f.newQueue()
		group.Go(func() {
			for !stop.Load() {
				if err := do(queue); err != nil {
					m.mu.Lock()
					m.complain("%v", err)
					m.mu.Unlock()
					return
				}
			}
		})
	}
	for range 8 {
		worker(func(queue *jobstore.Queue) error { return m.work(f, queue, false) })
	}
	for range 2 {
		worker(func(queue *jobstore.Queue) error {
			_, err := queue.Recover(f.ctx, 5)
			return err
		})
	}
	worker(func(*jobstore.Queue) error { // new input
		var id int64
		var generation int
		err := f.pool.QueryRow(f.ctx, f.sql(`UPDATE %s.jobs SET generation = generation + 1, failures = 0 WHERE id = $1 RETURNING id, generation`),
			ids[rand.IntN(len(ids))]).Scan(&id, &generation)
		if err == pgx.ErrNoRows || err != nil && isolated(err) {
			return nil
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.generations[id] = generation
		return err
	})
	worker(func(*jobstore.Queue) error { // an application that holds rows
		err := pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(f.ctx, f.sql(`SELECT pg_sleep(0.003) FROM %s.jobs WHERE id = ANY ($1) FOR UPDATE SKIP LOCKED`),
				[]int64{ids[rand.IntN(len(ids))], ids[rand.IntN(len(ids))]})
			return err
		})
		if isolated(err) {
			return nil
		}
		return err
	})
	timer := time.AfterFunc(length, func() { stop.Store(true) })
	defer timer.Stop()
	group.Wait()

	// What is left is worked off by one that always succeeds.
	f.exec(`UPDATE %s.jobs SET run_at = now() WHERE state = 'pending'`)
	f.expire()
	f.queue.AlwaysFull()
	for len(m.problems) == 0 && f.ctx.Err() == nil && query1[bool](f, `SELECT EXISTS (SELECT FROM %s.jobs)`) {
		must(f.queue.Recover(f.ctx, 1000))(t)
		if err := m.work(f, f.queue, true); err != nil {
			t.Fatal(err)
		}
	}
	m.check(t, f, ids)
}

// isolated tells the errors that the test's own statements may see in REPEATABLE READ.
func isolated(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "40001"
}

// work claims once and reports in one batch.
func (m *model) work(f *fixture, queue *jobstore.Queue, succeedAll bool) error {
	request := runner.ClaimRequest{Limit: 1 + rand.IntN(12), Lease: time.Minute, Classes: []runner.Class{1, 2, 3, 4}}
	rand.Shuffle(4, func(i, j int) { request.Classes[i], request.Classes[j] = request.Classes[j], request.Classes[i] })
	if rand.IntN(3) == 0 && !succeedAll {
		request.Lease = time.Millisecond // will be taken away
	}
	tasks, err := queue.Claim(f.ctx, request)
	if err != nil {
		return err
	}
	var verdicts []verdict
	for _, task := range tasks {
		m.claimed(task.Payload)
		v := verdict{Token: task.Token, Decision: runner.Succeed}
		if kind := rand.IntN(20); !succeedAll {
			switch {
			case kind < 2:
				continue // the process dies
			case kind < 6:
				v.Decision, v.Failure = runner.Retry, &runner.Failure{Code: "broken"}
			case kind < 7:
				v.Decision, v.Failure = runner.Fail, &runner.Failure{Code: "broken"}
			case kind < 9:
				v.Decision = runner.Snooze
			case kind < 11:
				v.Decision = runner.Release
			case kind < 14:
				result := json.RawMessage(`{"ok": true}`)
				v.Result = &result
			}
		}
		verdicts = append(verdicts, v)
	}
	if _, err := queue.Renew(f.ctx, tokens(tasks), request.Lease); err != nil {
		return err
	}
	for len(verdicts) > 0 {
		outcomes, err := queue.Report(f.ctx, verdicts)
		if err != nil {
			return err
		}
		var again []verdict
		for i, outcome := range outcomes {
			if outcome == runner.Busy {
				again = append(again, verdicts[i])
				continue
			}
			m.outcome(verdicts[i].Token.(*jobstore.Row), outcome)
		}
		verdicts = again
	}
	return nil
}

func tokens(tasks []runner.Task[*jobstore.Row]) []runner.Token {
	all := make([]runner.Token, len(tasks))
	for i, task := range tasks {
		all[i] = task.Token
	}
	return all
}

// check compares the database with the model.
func (m *model) check(t *testing.T, f *fixture, ids []int64) {
	for _, problem := range m.problems {
		t.Error(problem)
	}
	found := map[int64]bool{}
	rows := must(f.pool.Query(f.ctx, f.sql(`SELECT id, state, attempt, generation, failures, max_attempts, errors IS NOT NULL AND jsonb_array_length(errors) > 10 FROM %s.history`)))(t)
	var id int64
	var state string
	var attempt, generation, failures, budget int
	var tooMany bool
	must(pgx.ForEachRow(rows, []any{&id, &state, &attempt, &generation, &failures, &budget, &tooMany}, func() error {
		if found[id] {
			t.Errorf("job %d has ended twice", id)
		}
		found[id] = true
		if told := m.ended[id]; told != "" && told != state {
			t.Errorf("job %d is %s, its worker was told %s", id, state, told)
		}
		if state != "dead" && m.ended[id] == "" {
			t.Errorf("job %d is %s, nobody was told", id, state)
		}
		if attempt != m.attempts[id] {
			t.Errorf("job %d ended at attempt %d, the last claim was %d", id, attempt, m.attempts[id])
		}
		if want := max(m.generations[id], 1); generation != want {
			t.Errorf("job %d ended with input %d, the latest is %d", id, generation, want)
		}
		if state == "dead" && failures != budget || state == "succeeded" && failures > budget || tooMany {
			t.Errorf("job %d is %s after %d of %d failures", id, state, failures, budget)
		}
		return nil
	}))(t)
	if len(found) != len(ids) {
		t.Errorf("%d of %d jobs have ended", len(found), len(ids))
	}
}
