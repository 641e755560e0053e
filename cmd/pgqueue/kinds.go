package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// kindsCommand is the group about kinds of jobs.
func (a *app) kindsCommand() *cobra.Command {
	group := &cobra.Command{Use: "kinds", Short: "Pause and resume kinds of jobs", Aliases: []string{"kind"}}
	group.AddCommand(a.kindsPausedCommand(), a.kindsPauseCommand(), a.kindsResumeCommand())
	return group
}

func (a *app) kindsPausedCommand() *cobra.Command {
	return &cobra.Command{
		Use: "paused", Short: "Which kinds are paused", Args: cobra.NoArgs, Aliases: []string{"list", "ls"},
		Example: `  pgqueue kinds paused`,
		RunE: func(command *cobra.Command, _ []string) error {
			s, err := a.connect(command.Context())
			if err != nil {
				return err
			}
			defer s.close()
			paused, err := s.inspector.PausedKinds(command.Context())
			if err != nil {
				return err
			}
			if a.flags.json {
				type line struct {
					Kind   string     `json:"kind"`
					Queue  string     `json:"queue,omitempty"` // absent: in all queues
					Since  *time.Time `json:"since"`
					Until  *time.Time `json:"until,omitempty"`
					Reason string     `json:"reason,omitempty"`
				}
				lines := make([]line, len(paused))
				for n, p := range paused {
					lines[n] = line{p.Kind, p.Queue, timeOrNil(p.Since), timeOrNil(p.Until), p.Reason}
				}
				return a.writeJSON(lines)
			}
			if len(paused) == 0 {
				a.notef("no kind is paused")
			}
			rows := make([][]string, len(paused))
			for n, p := range paused {
				queue := p.Queue
				if queue == "" {
					queue = "(all)"
				}
				rows[n] = []string{p.Kind, queue, pauseText(p.Since, p.Until, p.Reason)}
			}
			return a.writeTable([]string{"KIND", "QUEUE", "PAUSED"}, rows)
		},
	}
}

func (a *app) kindsPauseCommand() *cobra.Command {
	var pause pgqueue.KindPause
	var until string
	command := &cobra.Command{
		Use: "pause KIND", Short: "Claim no more jobs of a kind, in one queue or in all", Args: cobra.ExactArgs(1),
		Example: `  pgqueue kinds pause send --reason "wrong template"
  pgqueue kinds pause send --queue mail --until +1h`,
		RunE: func(command *cobra.Command, args []string) error {
			pause.Kind = args[0]
			if err := checkUntil(until); err != nil {
				return err
			}
			s, err := a.connect(command.Context())
			if err != nil {
				return err
			}
			defer s.close()
			if pause.Until, err = pauseEnd(command.Context(), s, until); err != nil {
				return err
			}
			if err := s.inspector.PauseKind(command.Context(), pause); err != nil {
				return err
			}
			name := "kind " + visible(pause.Kind)
			held, known, err := s.pauseOf(command.Context(), pause.Queue, pause.Kind)
			if err != nil {
				return answered(err, name+": paused"+inQueue(pause.Queue))
			}
			return a.paused(map[string]any{"kind": pause.Kind, "queue": pause.Queue}, name, inQueue(pause.Queue), pause.Until, held, known)
		},
	}
	command.Flags().StringVar(&pause.Queue, "queue", "", "in this queue alone (default: in all)")
	command.Flags().StringVar(&until, "until", "", "when the pause ends by itself: +30m, or a time (default: when somebody resumes the kind)")
	command.Flags().StringVar(&pause.Reason, "reason", "", "why, for those who wonder")
	return command
}

func (a *app) kindsResumeCommand() *cobra.Command {
	var queue string
	command := &cobra.Command{
		Use: "resume KIND", Short: "End the pause of a kind", Args: cobra.ExactArgs(1), Aliases: []string{"unpause"},
		Long:    "End the pause of a kind. One that was paused in a queue by name is resumed with that --queue.",
		Example: `  pgqueue kinds resume send --queue mail`,
		RunE: func(command *cobra.Command, args []string) error {
			s, err := a.connect(command.Context())
			if err != nil {
				return err
			}
			defer s.close()
			held, known, err := s.pauseOf(command.Context(), queue, args[0])
			if err != nil {
				return err
			}
			done := "was not paused"
			if held != nil || !known {
				done = "resumed"
				if err := s.inspector.ResumeKind(command.Context(), args[0], queue); err != nil {
					return err
				}
			}
			return a.writeDone(map[string]any{"kind": args[0], "queue": queue, "done": done}, "kind %s: %s%s\n", visible(args[0]), done, inQueue(queue))
		},
	}
	command.Flags().StringVar(&queue, "queue", "", "the queue in which it is paused (default: the pause in all queues)")
	return command
}

func inQueue(queue string) string {
	if queue == "" {
		return " in all queues"
	}
	return " in queue " + visible(queue)
}
