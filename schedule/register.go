package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// keepUp registers, says at intervals that this program has its schedules, retires what no program of this source has, and deletes old
// ticks, until ctx ends. Nothing that fails here keeps ticks from being enqueued.
func (s *Scheduler) keepUp(ctx context.Context) {
	every := max(s.config.RetireAfter/4, 25*time.Millisecond)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var cleaned time.Time // on the clock of this process, which only paces it
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := s.upkeep(ctx); err != nil && ctx.Err() == nil {
			s.config.Logger.Log(ctx, s.gate.pace("upkeep"), "schedule: registering schedules failed; it is tried again", "error", err)
		} else if err == nil {
			s.gate.clear("upkeep")
		}
		if time.Since(cleaned) >= cleanEvery {
			cleaned = time.Now()
			if err := s.clean(ctx); err != nil && ctx.Err() == nil {
				s.config.Logger.Log(ctx, s.gate.pace("clean"), "schedule: deleting old ticks failed", "error", err)
			}
		}
		timer.Reset(every)
	}
}

// upkeep is one round.
func (s *Scheduler) upkeep(ctx context.Context) error {
	if s.config.Source == "" {
		return nil
	}
	var failed error
	if !s.registered.Load() {
		if failed = s.register(ctx); failed == nil {
			s.registered.Store(true)
		}
	}
	if err := s.see(ctx); err != nil {
		failed = errors.Join(failed, s.explained(err))
	}
	return failed
}

// register writes what of this program's schedules is new or says something else than the program said last. Each is a statement of its
// own: one that somebody has locked is left for the next round, and the others are not kept from being registered.
func (s *Scheduler) register(ctx context.Context) error {
	if len(s.entries) == 0 {
		return nil
	}
	there, err := s.definitions(ctx)
	if err != nil {
		return s.explained(err)
	}
	var problems error
	for _, e := range s.entries {
		definition, err := e.definition(s.client)
		if err != nil {
			return fmt.Errorf("register %q: %w", e.Name, err)
		}
		known, ok := there[e.Name]
		if ok && known == (registration{source: s.config.Source, definition: definition}) {
			continue
		}
		if ok && known.source != s.config.Source {
			s.config.Logger.WarnContext(ctx, "schedule: takes over a schedule", "schedule", e.Name, "from", known.source, "source", s.config.Source)
		}
		if err := s.registerOne(ctx, e, definition); err != nil {
			problems = errors.Join(problems, fmt.Errorf("register %q: %w", e.Name, s.explained(err)))
		}
	}
	return problems
}

func (s *Scheduler) registerOne(ctx context.Context, e entry, definition string) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	payload, err := e.sealed(ctx, s.client)
	if err != nil {
		return err
	}
	_, err = s.store.exec(ctx, s.client.Pool(), "register", e.Jitter, e.CatchUpLimit, e.Priority, e.MaxAttempts, e.Dynamic, e.Name, e.Spec, e.Zone,
		e.CatchUp, e.Queue, e.Kind, e.Key, s.config.Source, definition, payload, e.Metadata, e.Tags)
	return err
}

// registration is who registered a schedule last, and with what.
type registration struct{ source, definition string }

func (s *Scheduler) definitions(ctx context.Context) (map[string]registration, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	rows, err := s.client.Pool().Query(ctx, s.store.texts["registered"], s.names)
	if err != nil {
		return nil, fmt.Errorf("registered: %w", err)
	}
	there := map[string]registration{}
	var (
		name, source string
		definition   *string
	)
	_, err = pgx.ForEachRow(rows, []any{&name, &source, &definition}, func() error {
		known := registration{source: source}
		if definition != nil {
			known.definition = *definition
		}
		there[name] = known
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("registered: %w", err)
	}
	return there, nil
}

// see says that this program has its schedules, and retires those of its source that none has any more.
func (s *Scheduler) see(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	if len(s.names) > 0 {
		// Written by whichever process comes first after a quarter of the time, for all of them.
		if _, err := s.store.exec(ctx, s.client.Pool(), "see", s.names, (s.config.RetireAfter / 4).Microseconds()); err != nil {
			return err
		}
	}
	retired, err := s.store.strings(ctx, s.client.Pool(), "retire", s.config.Source, s.names, s.config.RetireAfter.Microseconds())
	if err != nil {
		return err
	}
	for _, name := range retired {
		s.config.Logger.InfoContext(ctx, "schedule: retired, since no program has it any more", "schedule", name, "source", s.config.Source)
	}
	return nil
}

// clean deletes old ticks, a bounded number in each statement, and schedules that were retired long ago.
func (s *Scheduler) clean(ctx context.Context) error {
	for range 100 {
		deleted, err := s.cleanOnce(ctx, "forget", keptTicks, int64(s.config.KeepTicks/time.Second), forgetBatch)
		if err != nil {
			return err
		}
		if deleted < forgetBatch {
			break
		}
	}
	_, err := s.cleanOnce(ctx, "bury", int64(buryAfter/time.Second))
	return err
}

func (s *Scheduler) cleanOnce(ctx context.Context, statement string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	deleted, err := s.store.exec(ctx, s.client.Pool(), statement, args...)
	if err != nil {
		return 0, s.explained(err)
	}
	return deleted, nil
}
