package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// queuesCommand is the group about queues.
func (a *app) queuesCommand() *cobra.Command {
	group := &cobra.Command{Use: "queues", Short: "Show queues, pause and resume them", Aliases: []string{"queue"}}
	group.AddCommand(a.queuesListCommand(), a.queuesPauseCommand(), a.queuesResumeCommand(), a.queuesHistoryCommand(), a.queuesPurgeCommand())
	return group
}

// queueLine is a queue as JSON.
type queueLine struct {
	Queue              string      `json:"queue"`
	Ready              [4]countNum `json:"ready"` // by priority, 1 first
	OldestReadySeconds float64     `json:"oldest_ready_seconds"`
	Scheduled          countNum    `json:"scheduled"`
	Retrying           countNum    `json:"retrying"`
	Running            countNum    `json:"running"`
	Expired            countNum    `json:"expired"`
	Failed             countNum    `json:"failed"`
	Dead               countNum    `json:"dead"`
	PausedAt           *time.Time  `json:"paused_at,omitempty"`
	PausedUntil        *time.Time  `json:"paused_until,omitempty"`
	PausedReason       string      `json:"paused_reason,omitempty"`
	History            string      `json:"history"`
}

// countNum is a count as JSON: n, and whether it is a lower bound.
type countNum struct {
	N    int  `json:"n"`
	More bool `json:"more,omitempty"`
}

func newCount(c pgqueue.Count) countNum { return countNum{N: c.N, More: c.More} }

// countText is a count for people.
func countText(c pgqueue.Count) string {
	if c.More {
		return grouped(c.N) + "+"
	}
	return grouped(c.N)
}

// sumOf adds counts.
func sumOf(counts ...pgqueue.Count) (sum pgqueue.Count) {
	for _, c := range counts {
		sum.N += c.N
		sum.More = sum.More || c.More
	}
	return sum
}

// timeOrNil is a time for JSON; zero is left out.
func timeOrNil(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return new(at.UTC())
}

func newQueueLine(q *pgqueue.QueueStats) queueLine {
	line := queueLine{
		Queue: q.Queue, OldestReadySeconds: q.OldestReady.Seconds(), Scheduled: newCount(q.Scheduled), Retrying: newCount(q.Retrying),
		Running: newCount(q.Running), Expired: newCount(q.Expired), Failed: newCount(q.Failed), Dead: newCount(q.Dead),
		PausedAt: timeOrNil(q.PausedAt), PausedUntil: timeOrNil(q.PausedUntil), PausedReason: q.PausedReason, History: string(q.History),
	}
	for n := range q.Ready {
		line.Ready[n] = newCount(q.Ready[n])
	}
	return line
}

func (a *app) queuesListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list [QUEUE...]", Short: "What queues hold, and whether they are paused", Aliases: []string{"ls"},
		Long: `What queues hold: all that have a job, a failure or a setting, or those that are named. Counts stop at 10,000 of a kind and
say so with a plus. OLDEST is for how long the first ready job has been due: the lag.`,
		Args: cobra.ArbitraryArgs,
		Example: `  pgqueue queues list
  pgqueue queues list mail billing --json`,
		RunE: func(command *cobra.Command, args []string) error {
			ctx := command.Context()
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.close()
			queues, err := s.inspector.Queues(ctx, args...)
			if err != nil {
				return err
			}
			if a.flags.json {
				lines := make([]queueLine, len(queues))
				for n := range queues {
					lines[n] = newQueueLine(&queues[n])
				}
				return a.writeJSON(lines)
			}
			if len(queues) == 0 {
				a.notef("no queue has a job, a failure or a setting")
			}
			rows := make([][]string, len(queues))
			for n := range queues {
				rows[n] = queueRow(&queues[n])
			}
			return a.writeTable([]string{"QUEUE", "READY", "OLDEST", "RUNNING", "EXPIRED", "RETRYING", "SCHEDULED", "FAILED", "DEAD", "HISTORY", "PAUSED"}, rows)
		},
	}
}

func queueRow(q *pgqueue.QueueStats) []string {
	oldest := "-"
	if sumOf(q.Ready[:]...).N > 0 {
		oldest = span(q.OldestReady)
	}
	return []string{
		q.Queue, countText(sumOf(q.Ready[:]...)), oldest, countText(q.Running), countText(q.Expired), countText(q.Retrying), countText(q.Scheduled),
		countText(q.Failed), countText(q.Dead), string(q.History), pauseText(q.PausedAt, q.PausedUntil, q.PausedReason),
	}
}

// pauseText says since when something is paused, until when and why; "-" for what is not.
func pauseText(since, until time.Time, reason string) string {
	if since.IsZero() {
		return "-"
	}
	text := "since " + since.UTC().Format("2006-01-02 15:04:05Z")
	if !until.IsZero() {
		text += " until " + until.UTC().Format("2006-01-02 15:04:05Z")
	}
	if reason != "" {
		text += ": " + reason
	}
	return text
}

func (a *app) queuesPauseCommand() *cobra.Command {
	var until, reason string
	command := &cobra.Command{
		Use: "pause QUEUE...", Short: "Claim nothing more from queues", Args: cobra.MinimumNArgs(1),
		Long: `Claim nothing more from queues, everywhere, until they are resumed or until a time. What runs goes on, and enqueueing does too. A pause
that lasts longer than the one asked for stays as it is.`,
		Example: `  pgqueue queues pause mail --reason "the relay is down"
  pgqueue queues pause mail --until +30m`,
		RunE: func(command *cobra.Command, queues []string) error {
			if err := checkUntil(until); err != nil {
				return err
			}
			ctx := command.Context()
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.close()
			at, err := pauseEnd(ctx, s, until)
			if err != nil {
				return err
			}
			return a.eachQueue(ctx, s, queues, func(queue string) error {
				if until == "" {
					err = s.inspector.PauseQueue(ctx, queue, reason)
				} else {
					err = s.inspector.PauseQueueUntil(ctx, queue, at, reason)
				}
				if err != nil {
					return err
				}
				held, known, err := s.pauseOf(ctx, queue, "")
				if err != nil {
					return answered(err, "queue "+visible(queue)+": paused")
				}
				return a.paused(map[string]any{"queue": queue}, "queue "+visible(queue), "", at, held, known)
			})
		},
	}
	command.Flags().StringVar(&until, "until", "", "when the pause ends by itself: +30m, or a time (default: when somebody resumes the queue)")
	command.Flags().StringVar(&reason, "reason", "", "why, for those who wonder")
	return command
}

func (a *app) queuesResumeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "resume QUEUE...", Short: "End the pause of queues", Args: cobra.MinimumNArgs(1), Aliases: []string{"unpause"},
		Example: `  pgqueue queues resume mail`,
		RunE: func(command *cobra.Command, queues []string) error {
			ctx := command.Context()
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.close()
			return a.eachQueue(ctx, s, queues, func(queue string) error {
				held, known, err := s.pauseOf(ctx, queue, "")
				if err != nil {
					return err
				}
				done := "was not paused"
				if held != nil || !known {
					done = "resumed"
					if err := s.inspector.ResumeQueue(ctx, queue); err != nil {
						return err
					}
				}
				return a.writeDone(map[string]any{"queue": queue, "done": done}, "queue %s: %s\n", visible(queue), done)
			})
		},
	}
}

func (a *app) queuesHistoryCommand() *cobra.Command {
	return &cobra.Command{
		Use: "history full|slim|off QUEUE...", Short: "Set what queues keep of their successes", Args: cobra.MinimumNArgs(2),
		Long:      "Set what queues keep of their successes: all of them, all but the payload, or nothing. What failed is always kept in full.",
		ValidArgs: []string{string(pgqueue.HistoryFull), string(pgqueue.HistorySlim), string(pgqueue.HistoryOff)},
		Example:   `  pgqueue queues history slim thumbnails`,
		RunE: func(command *cobra.Command, args []string) error {
			history := pgqueue.History(args[0])
			switch history {
			case pgqueue.HistoryFull, pgqueue.HistorySlim, pgqueue.HistoryOff:
			default:
				return usage("history is full, slim or off, not %q", visible(args[0]))
			}
			ctx := command.Context()
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.close()
			return a.eachQueue(ctx, s, args[1:], func(queue string) error {
				if err := s.inspector.SetHistory(ctx, queue, history); err != nil {
					return err
				}
				done := "history " + string(history)
				return a.writeDone(map[string]any{"queue": queue, "done": done}, "queue %s: %s\n", visible(queue), done)
			})
		},
	}
}

func (a *app) queuesPurgeCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "purge QUEUE", Short: "Delete what has ended in a queue: history, with failed and dead jobs", Args: cobra.ExactArgs(1),
		Long: `Delete the jobs of a queue that have ended, in batches, with a count before. It is

  pgqueue jobs delete --all-matching --queue QUEUE --state succeeded,cancelled,failed,dead

whose filters narrow it further. Old history goes by itself where workers run.`,
		Example: `  pgqueue queues purge mail --dry-run
  pgqueue queues purge mail --yes`,
	}
	(&bulkFlags{}).add(command, deleteAction())
	_ = command.Flags().MarkHidden("all-matching") // fails for a flag that there is not
	command.RunE = func(command *cobra.Command, args []string) error {
		words := []string{"jobs", "delete", "--all-matching", "--queue=" + args[0], "--state=succeeded,cancelled,failed,dead"}
		command.Flags().Visit(func(flag *pflag.Flag) { words = append(words, "--"+flag.Name+"="+flag.Value.String()) })
		root := a.root()
		root.SetArgs(words)
		return root.ExecuteContext(command.Context())
	}
	return command
}

// eachQueue does something to each of some queues.
func (a *app) eachQueue(ctx context.Context, s *session, queues []string, do func(queue string) error) error {
	return a.eachNamed(ctx, "queue", queues, func(queue string) error { return queueName(s, queue) }, do)
}
