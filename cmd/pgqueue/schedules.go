package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/schedule"
)

// schedulesCommand is the group about schedules.
func (a *app) schedulesCommand() *cobra.Command {
	group := &cobra.Command{Use: "schedules", Short: "Show and change what is enqueued by the clock", Aliases: []string{"schedule"}}
	group.AddCommand(
		a.schedulesListCommand(), a.schedulesShowCommand(), a.schedulesPutCommand(), a.schedulesSetSpecCommand(), a.schedulesTriggerCommand(), a.schedulesPreviewCommand(),
		a.schedulesChangeCommand("enable", "Let schedules run again, beginning with the next tick", "enabled", pgqueue.ActionScheduleEnable,
			func(ctx context.Context, s *session, tx pgx.Tx, name string) error {
				return s.editor.Enable(ctx, tx, name)
			}),
		a.schedulesChangeCommand("disable", "Let schedules rest until they are enabled", "disabled", pgqueue.ActionScheduleDisable,
			func(ctx context.Context, s *session, tx pgx.Tx, name string) error {
				return s.editor.Disable(ctx, tx, name)
			}),
		a.schedulesChangeCommand("delete", "Remove schedules; those in a program's code come back with its next start", "deleted", pgqueue.ActionScheduleDelete,
			func(ctx context.Context, s *session, tx pgx.Tx, name string) error {
				return s.editor.Delete(ctx, tx, name)
			}),
	)
	return group
}

// scheduleState is one word for how a schedule is.
func scheduleState(s *schedule.Stored) string {
	switch {
	case !s.RetiredAt.IsZero():
		return "retired"
	case !s.Enabled:
		return "disabled"
	case s.Ended:
		return "ended"
	case s.Failures > 0:
		return "failing"
	}
	return "enabled"
}

func (a *app) schedulesListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "All schedules, with their next and last tick", Args: cobra.NoArgs, Aliases: []string{"ls"},
		Example: `  pgqueue schedules list`,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx := command.Context()
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.close()
			now, err := (&databaseClock{pool: s.pool}).now(ctx)
			if err != nil {
				return err
			}
			var all []schedule.Stored
			for filter := (schedule.ListFilter{Limit: 1_000}); ; {
				page, err := s.editor.List(ctx, s.pool, filter)
				if err != nil {
					return err
				}
				all = append(all, page...)
				if len(page) < filter.Limit {
					break
				}
				filter.After = page[len(page)-1].Name
			}
			if a.flags.json {
				lines := make([]scheduleLine, len(all))
				for n := range all {
					lines[n] = newScheduleLine(&all[n])
				}
				return a.writeJSON(lines)
			}
			if len(all) == 0 {
				a.notef("there is no schedule")
			}
			rows := make([][]string, len(all))
			for n := range all {
				stored := &all[n]
				rows[n] = []string{
					stored.Name, scheduleState(stored), stored.Spec, stored.TimeZone, timeText(stored.NextRunAt, now), timeText(stored.LastRunAt, now),
					stored.Kind, stored.Queue, shortened(stored.LastError, 60),
				}
			}
			return a.writeTable([]string{"SCHEDULE", "STATE", "SPEC", "ZONE", "NEXT", "LAST", "KIND", "QUEUE", "ERROR"}, rows)
		},
	}
}

func (a *app) schedulesShowCommand() *cobra.Command {
	var ticks int
	command := &cobra.Command{
		Use: "show SCHEDULE", Short: "One schedule, its next ticks and its last ones", Args: cobra.ExactArgs(1),
		Example: `  pgqueue schedules show invoices --ticks 20`,
		RunE: func(command *cobra.Command, args []string) error {
			if ticks < 1 || ticks > 1_000 {
				return usage("--ticks is from 1 to 1000, not %d", ticks)
			}
			ctx := command.Context()
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.close()
			stored, err := s.editor.Get(ctx, s.pool, args[0])
			if err != nil {
				return err
			}
			past, err := s.editor.Ticks(ctx, s.pool, args[0], time.Time{}, ticks)
			if err != nil {
				return err
			}
			next, err := nextTicks(&stored, 5)
			if err != nil {
				return err
			}
			now, err := (&databaseClock{pool: s.pool}).now(ctx)
			if err != nil {
				return err
			}
			if a.flags.json {
				return a.writeJSON(newScheduleDetail(&stored, next, past))
			}
			return a.writeSchedule(&stored, next, past, now)
		},
	}
	command.Flags().IntVar(&ticks, "ticks", 10, "how many of the last ticks are shown, at most 1000")
	return command
}

// nextTicks are the next ticks of a stored schedule, the one that is noted first.
func nextTicks(stored *schedule.Stored, n int) ([]time.Time, error) {
	if stored.NextRunAt.IsZero() || !stored.Enabled || stored.Ended {
		return nil, nil
	}
	after, err := schedule.Preview(stored.Spec, stored.TimeZone, stored.NextRunAt, n-1)
	return append([]time.Time{stored.NextRunAt}, after...), err
}

func (a *app) schedulesSetSpecCommand() *cobra.Command {
	var zone string
	command := &cobra.Command{
		Use: "set-spec SCHEDULE SPEC", Short: "Change when a schedule runs", Args: cobra.ExactArgs(2),
		Long: `Change when a schedule runs, and nothing else. It keeps the change until the program that registered it says something else than before. Without
--time-zone the zone stays.`,
		Example: `  pgqueue schedules set-spec invoices "30 2 1 * *" --time-zone Europe/Copenhagen
  pgqueue schedules set-spec rates "@every 10m"`,
		RunE: func(command *cobra.Command, args []string) error {
			ctx := command.Context()
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.close()
			name, spec := args[0], args[1]
			if !command.Flags().Changed("time-zone") {
				stored, err := s.editor.Get(ctx, s.pool, name)
				if err != nil {
					return err
				}
				zone = stored.TimeZone
			}
			entry := pgqueue.AuditEntry{Action: pgqueue.ActionSchedulePut, Subject: name, Detail: "spec " + spec + " " + zone}
			if err := s.inspector.Record(ctx, entry, func(tx pgx.Tx) error { return s.editor.SetSpec(ctx, tx, name, spec, zone) }); err != nil {
				return err
			}
			return a.writeDone(map[string]any{"schedule": name, "done": "changed", "spec": spec, "time_zone": zone}, "schedule %s: %s %s\n",
				visible(name), visible(spec), visible(zone))
		},
	}
	command.Flags().StringVar(&zone, "time-zone", "", "IANA zone in which the fields are meant (default: as it is)")
	return command
}

func (a *app) schedulesTriggerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "trigger SCHEDULE", Short: "Enqueue a job of a schedule now, beside its ticks", Args: cobra.ExactArgs(1), Aliases: []string{"run"},
		Example: `  pgqueue schedules trigger invoices`,
		RunE: func(command *cobra.Command, args []string) error {
			ctx := command.Context()
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.close()
			var enqueued pgqueue.Enqueued
			err = s.inspector.RecordResult(ctx, func(tx pgx.Tx) (pgqueue.AuditEntry, error) {
				var err error
				enqueued, err = s.editor.TriggerNow(ctx, tx, args[0])
				return pgqueue.AuditEntry{Action: pgqueue.ActionScheduleTrigger, Subject: args[0], Jobs: []int64{enqueued.ID}}, err
			})
			if err != nil {
				return err
			}
			return a.writeDone(map[string]any{"schedule": args[0], "done": "triggered", "job": enqueued.ID}, "schedule %s: job %d\n", visible(args[0]), enqueued.ID)
		},
	}
}

func (a *app) schedulesPreviewCommand() *cobra.Command {
	var zone string
	var n int
	command := &cobra.Command{
		Use: "preview SPEC", Short: "List the next ticks of a cron expression; needs no database", Args: cobra.ExactArgs(1),
		Example: `  pgqueue schedules preview "30 2 1 * *" --time-zone Europe/Copenhagen -n 12`,
		RunE: func(_ *cobra.Command, args []string) error {
			if n < 1 || n > 10_000 {
				return usage("-n is from 1 to 10000, not %d", n)
			}
			if _, err := schedule.Parse(args[0]); err != nil {
				return usage("spec: %w", err)
			}
			location, err := schedule.LoadZone(zone)
			if err != nil {
				return usage("--time-zone: %w", err)
			}
			ticks, err := schedule.Preview(args[0], zone, time.Now(), n)
			if err != nil {
				return err
			}
			if a.flags.json {
				lines := make([]time.Time, len(ticks))
				for n, at := range ticks {
					lines[n] = at.UTC()
				}
				return a.writeJSON(lines)
			}
			if len(ticks) == 0 {
				a.notef("it has no tick from now on")
			}
			for _, at := range ticks {
				if err := a.printf("%s  %s\n", at.UTC().Format("2006-01-02 15:04:05Z"), at.In(location).Format("Mon 2006-01-02 15:04:05 MST")); err != nil {
					return err
				}
			}
			return nil
		},
	}
	command.Flags().StringVar(&zone, "time-zone", "UTC", "IANA zone in which the fields are meant")
	command.Flags().IntVarP(&n, "number", "n", 5, "how many ticks")
	return command
}

// schedulesChangeCommand makes a command that does one thing to each of some schedules.
func (a *app) schedulesChangeCommand(name, short, done string, action pgqueue.Action, do func(context.Context, *session, pgx.Tx, string) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " SCHEDULE...", Short: short, Args: cobra.MinimumNArgs(1),
		Example: fmt.Sprintf("  pgqueue schedules %s invoices", name),
		RunE: func(command *cobra.Command, names []string) error {
			ctx := command.Context()
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.close()
			check := func(name string) error {
				if _, err := s.editor.Get(ctx, s.pool, name); !errors.Is(err, schedule.ErrNoSchedule) {
					return err
				}
				return nil // told when it is its turn
			}
			return a.eachNamed(ctx, "schedule", names, check, func(name string) error {
				entry := pgqueue.AuditEntry{Action: action, Subject: name}
				if err := s.inspector.Record(ctx, entry, func(tx pgx.Tx) error { return do(ctx, s, tx, name) }); err != nil {
					return err
				}
				return a.writeDone(map[string]any{"schedule": name, "done": done}, "schedule %s: %s\n", visible(name), done)
			})
		},
	}
}
