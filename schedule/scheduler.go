package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// Scheduler enqueues what is due. Any number of processes may run one each on the same database; each tick is enqueued once. A Scheduler
// is made by [New]; its methods are safe for concurrent use.
type Scheduler struct {
	client    *pgqueue.Client
	config    Config
	store     *store
	entries   []entry
	names     []string            // of entries
	functions map[string]argsFunc // of those with a function
	dynamic   []string            // their names
	observers observers
	gate      logGate

	running    atomic.Bool
	registered atomic.Bool

	mutex   sync.Mutex
	inHand  map[string]bool // under way here, or held by a function that does not return
	failing map[string]failure
	turn    uint64         // of the attempts so far
	stuck   sync.WaitGroup // functions that have outlived their attempt
	stuckIn map[string]bool

	slots, trials chan struct{} // of attempts; trials are for those that failed the last time
	finished      chan struct{} // an attempt has ended and something may have changed

	hook func(*attempt) // of tests
}

// New makes a scheduler that enqueues through client and its pool. It sends no SQL. What is wrong with the configuration is a
// [*ConfigError] that names the field, such as "schedules[2].spec".
func New(client *pgqueue.Client, config Config) (*Scheduler, error) {
	return newScheduler(client, config, databaseNow)
}

func newScheduler(client *pgqueue.Client, config Config, now string) (*Scheduler, error) {
	if client == nil {
		return nil, fmt.Errorf("new scheduler: %w", invalid("client", "must not be nil"))
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("new scheduler: %w", err)
	}
	s := &Scheduler{
		client: client, config: config, store: newStore(client.Schema(), now), observers: newObservers(config.Observer),
		names: []string{}, functions: map[string]argsFunc{}, dynamic: []string{},
		inHand: map[string]bool{}, failing: map[string]failure{}, stuckIn: map[string]bool{},
		slots: make(chan struct{}, config.Concurrency), trials: make(chan struct{}, max(1, config.Concurrency/2)),
		finished: make(chan struct{}, 1),
	}
	if s.entries, err = newEntries(client, config.Schedules); err != nil {
		return nil, fmt.Errorf("new scheduler: %w", err)
	}
	for _, one := range config.Schedules {
		s.names = append(s.names, one.Name)
		if one.ArgsFunc != nil {
			s.functions[one.Name] = one.ArgsFunc
			s.dynamic = append(s.dynamic, one.Name)
		}
	}
	return s, nil
}

// failure is what this process knows of a schedule that has failed here and not succeeded since.
type failure struct {
	written bool   // it stands in the row, which says from now on whether the schedule counts as failing
	turn    uint64 // of its latest attempt
}

// order puts what is due into the order in which it gets slots, and tells which get only those of trials: what failed the last time, as the
// row says, or this process where it could not write that down. Who was tried longest ago comes first, so that those which keep failing
// do not keep others from being tried that were mended.
func (s *Scheduler) order(found dueNow) (names []string, trials map[string]bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	names, trials = slices.Clone(found.names), map[string]bool{}
	for _, name := range names {
		if here, ok := s.failing[name]; found.failing[name] || ok && !here.written {
			trials[name] = true
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case !trials[a] && !trials[b]:
			return 0
		case trials[a] && trials[b]:
			return cmp.Compare(s.failing[a].turn, s.failing[b].turn)
		case trials[a]:
			return 1
		}
		return -1
	})
	return names, trials
}

// begin takes a schedule into hand and a slot, if both are free. starved says that only the slot was missing.
func (s *Scheduler) begin(name string, trial bool) (release func(), starved bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.inHand[name] {
		return nil, false
	}
	if trial {
		select {
		case s.trials <- struct{}{}:
		default:
			return nil, true
		}
	}
	select {
	case s.slots <- struct{}{}:
	default:
		if trial {
			<-s.trials
		}
		return nil, true
	}
	s.inHand[name] = true
	return func() {
		<-s.slots
		if trial {
			<-s.trials
		}
	}, false
}

// attend makes one attempt at a schedule and gives the slot back. It returns what became of it.
func (s *Scheduler) attend(ctx context.Context, name string, release func()) (outcome, []TickEvent, error) {
	a := &attempt{Scheduler: s, name: name}
	if s.hook != nil {
		s.hook(a)
	}
	o, err := a.run(ctx)
	if o == failed {
		s.noteFailure(name, false)
	}
	a.settle(ctx, o, err)
	release()
	s.letGo(name, a.running)
	return o, a.events, err
}

// letGo gives the schedule free for the next attempt: at once, or when a function has returned that ignores its context.
func (s *Scheduler) letGo(name string, running *call) {
	if running == nil {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		delete(s.inHand, name)
		return
	}
	s.config.Logger.Error("schedule: a function has not returned within its time; its schedule waits for it here", "schedule", name)
	s.mutex.Lock()
	s.stuckIn[name] = true
	s.mutex.Unlock()
	s.stuck.Go(func() {
		<-running.done
		s.mutex.Lock()
		defer s.mutex.Unlock()
		delete(s.stuckIn, name)
		delete(s.inHand, name)
	})
}

// noteFailure notes a failure, and whether it was written down.
func (s *Scheduler) noteFailure(name string, written bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.turn++
	s.failing[name] = failure{written: written, turn: s.turn}
}

// forgive notes a success, and tells whether it ends a row of failures.
func (s *Scheduler) forgive(name string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, was := s.failing[name]
	delete(s.failing, name)
	return was
}

// handful lists what is in hand.
func (s *Scheduler) handful() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	names := make([]string, 0, len(s.inHand))
	for name := range s.inHand {
		names = append(names, name)
	}
	return names
}

// look asks the database what is due.
func (s *Scheduler) look(ctx context.Context) (dueNow, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	found, err := s.store.due(ctx, s.client.Pool(), s.dynamic, s.handful(), dueLimit)
	if err != nil {
		return dueNow{}, s.explained(err)
	}
	return found, nil
}

// explained says what can be said better than Postgres does.
func (s *Scheduler) explained(err error) error {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		switch server.Code {
		case "3F000", "42P01", "42703", "42883": // no such schema, table, column, function
			return fmt.Errorf("schema %q: %w; run migrations.Up: %w", s.client.Schema(), pgqueue.ErrSchema, err)
		case "42501":
			return fmt.Errorf("schema %q: the role may not do this; docs/schedules.md has the GRANTs of a scheduler: %w", s.client.Schema(), err)
		}
	}
	return err
}

// hopeless tells errors that waiting does not mend.
func hopeless(err error) bool {
	var server *pgconn.PgError
	return errors.Is(err, pgqueue.ErrSchema) || errors.As(err, &server) && server.Code == "42501"
}
