package main

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/schedule"
)

func (a *app) schedulesPutCommand() *cobra.Command {
	var s schedule.Schedule
	var kind, queue, key, payload, catchUp string
	var priority, maxAttempts int
	var tags []string
	var jitter dayDuration
	command := &cobra.Command{
		Use: "put SCHEDULE", Short: "Make a schedule, or change all that is said of one", Args: cobra.ExactArgs(1),
		Long: `Make a schedule, or change all of one that has this name but whether it is enabled. What is not given has its default. One that a
program has in its code keeps the change until that program says something else than before.`,
		Example: `  pgqueue schedules put nightly-report --spec "0 3 * * *" --time-zone Europe/Copenhagen --kind report --payload '{"full": true}'
  pgqueue schedules put rates --spec "@every 10m" --kind fetch_rates --key rates --catch-up skip`,
		RunE: func(command *cobra.Command, args []string) error {
			ctx := command.Context()
			if !json.Valid([]byte(payload)) {
				return usage("--payload is no JSON")
			}
			if command.Flags().Changed("catch-up-limit") && (schedule.CatchUp(catchUp) != schedule.All || s.CatchUpLimit < 1) {
				return usage("--catch-up-limit is a number from 1 on, and belongs to --catch-up all")
			}
			s.Name, s.Args = args[0], pgqueue.Raw{Name: kind, Payload: json.RawMessage(payload)}
			s.CatchUp, s.Jitter = schedule.CatchUp(catchUp), time.Duration(jitter)
			for _, option := range []struct {
				flag string
				make func() pgqueue.EnqueueOption
			}{
				{"queue", func() pgqueue.EnqueueOption { return pgqueue.OnQueue(queue) }},
				{"key", func() pgqueue.EnqueueOption { return pgqueue.WithKey(key) }},
				{"priority", func() pgqueue.EnqueueOption { return pgqueue.WithPriority(priority) }},
				{"max-attempts", func() pgqueue.EnqueueOption { return pgqueue.WithMaxAttempts(maxAttempts) }},
				{"tag", func() pgqueue.EnqueueOption { return pgqueue.WithTags(tags...) }},
			} {
				if command.Flags().Changed(option.flag) {
					s.Options = append(s.Options, option.make())
				}
			}
			session, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer session.close()
			var inserted bool
			entry := pgqueue.AuditEntry{Action: pgqueue.ActionSchedulePut, Subject: s.Name, Kind: kind, Detail: "spec " + s.Spec + " " + s.TimeZone}
			if err := session.inspector.Record(ctx, entry, func(tx pgx.Tx) (err error) {
				inserted, err = session.editor.Put(ctx, tx, s)
				return err
			}); err != nil {
				return err
			}
			done := "changed"
			if inserted {
				done = "made"
			}
			return a.writeDone(map[string]any{"schedule": s.Name, "done": done}, "schedule %s: %s\n", visible(s.Name), done)
		},
	}
	flags := command.Flags()
	flags.StringVar(&s.Spec, "spec", "", "cron expression, @every DURATION, or an instant: see docs/schedules.md")
	flags.StringVar(&s.TimeZone, "time-zone", "UTC", "IANA zone in which the fields are meant")
	flags.StringVar(&kind, "kind", "", "kind of the jobs")
	flags.StringVar(&payload, "payload", "{}", "arguments of the jobs, JSON")
	flags.StringVar(&queue, "queue", "", "queue of the jobs (default: default)")
	flags.StringVar(&key, "key", "", "key of the jobs: at most one is live at a time")
	flags.IntVar(&priority, "priority", 1, "priority of the jobs, from 1 to 4")
	flags.IntVar(&maxAttempts, "max-attempts", 0, "how many attempts may fail (default: the client's)")
	flags.StringArrayVar(&tags, "tag", nil, "tag of the jobs; may be repeated")
	flags.StringVar(&catchUp, "catch-up", string(schedule.Latest), "what becomes of ticks that were missed: latest, all or skip")
	flags.IntVar(&s.CatchUpLimit, "catch-up-limit", 0, "how many missed ticks are made up for at most, with --catch-up all (default 100)")
	flags.Var(&jitter, "jitter", "make each job due up to this much later than its tick")
	for _, name := range []string{"spec", "kind"} {
		_ = command.MarkFlagRequired(name) // fails for a flag that there is not
	}
	return command
}
