package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// topCommand shows rates, depth, ages and workers, again and again.
func (a *app) topCommand() *cobra.Command {
	var interval time.Duration
	var window time.Duration
	var once bool
	command := &cobra.Command{
		Use: "top", Short: "Watch rates, depth, ages and workers live", Args: cobra.NoArgs,
		Long: `Watch what the queues do: how much ends a second, how long jobs wait and run, what is ready, running, failed and dead, and which worker processes
there are. On a terminal it redraws; keys: q quits, s changes the order of the queues, blank looks at once. Elsewhere, and with --json, it writes one
report an interval. Each look is three bounded reads, whatever the tables hold.`,
		Example: `  pgqueue top
  pgqueue top --once --json`,
		RunE: func(command *cobra.Command, _ []string) error {
			if interval < 200*time.Millisecond {
				return usage("--interval is at least 200ms, not %s", interval)
			}
			if window <= 0 {
				return usage("--window must be longer than nothing, such as 1m, not %s", window)
			}
			ctx := command.Context()
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.close()
			look := func(ctx context.Context) (*topReport, error) { return readTop(ctx, s, window) }
			switch {
			case once:
				report, err := look(ctx)
				if err != nil {
					return err
				}
				return a.writeTop(report)
			case a.flags.json || !isTerminal(a.in) || !isTerminal(a.out):
				return a.topLines(ctx, interval, look)
			default:
				return a.topScreen(ctx, interval, look)
			}
		},
	}
	command.Flags().DurationVar(&interval, "interval", 2*time.Second, "how often to look")
	command.Flags().DurationVar(&window, "window", time.Minute, "over how long rates and percentiles are taken, at most 24h")
	command.Flags().BoolVar(&once, "once", false, "look once")
	return command
}

// topReport is one look.
type topReport struct {
	At       time.Time // by the database's clock
	Database string
	Schema   string
	Activity *pgqueue.Activity
	Queues   []pgqueue.QueueStats
	Workers  []pgqueue.WorkerReport
}

// readTop looks once. Each part is bounded by itself.
func readTop(ctx context.Context, s *session, window time.Duration) (*topReport, error) {
	report := &topReport{Database: s.pool.Config().ConnConfig.Database, Schema: s.schema}
	var err error
	if report.Activity, err = s.inspector.Activity(ctx, window); err != nil {
		return nil, err
	}
	report.At = report.Activity.Until
	if report.Queues, err = s.inspector.Queues(ctx); err != nil {
		return nil, err
	}
	report.Workers, err = s.inspector.Workers(ctx)
	return report, err
}

// writeTop writes one look where nothing is redrawn.
func (a *app) writeTop(report *topReport) error {
	if a.flags.json {
		return a.writeJSON(newTopLine(report))
	}
	return a.printf("%s", topFrame(report, topLayout{width: 120}))
}

// topLines writes one look an interval, until ctx ends or the first error.
func (a *app) topLines(ctx context.Context, interval time.Duration, look func(context.Context) (*topReport, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		report, err := look(ctx)
		if ctx.Err() != nil {
			return nil // stopping is how it ends
		}
		if err != nil {
			return err
		}
		if err := a.writeTop(report); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// The terminal's words, of ECMA-48 and xterm: another screen and back, no cursor, home, clear to the end of line and screen.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	cursorHome  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// topScreen redraws the terminal until q, Ctrl-C or the end of ctx. A database that cannot be reached is shown, and tried again.
func (a *app) topScreen(ctx context.Context, interval time.Duration, look func(context.Context) (*topReport, error)) error {
	in, isFile := a.in.(*os.File)
	out, outIsFile := a.out.(*os.File)
	if !isFile || !outIsFile {
		return a.topLines(ctx, interval, look)
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(in.Fd()), before) }() // what more could be done
	if err := a.printf(enterScreen); err != nil {
		return err
	}
	defer func() { _ = a.printf(leaveScreen) }()

	keys := readKeys(a.in)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var report *topReport
	layout := topLayout{interval: interval}
	for {
		bounded, cancel := context.WithTimeout(ctx, max(interval, 5*time.Second))
		latest, err := look(bounded)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if layout.trouble = ""; err != nil {
			layout.trouble = a.secrets.hide(err.Error())
		} else {
			report = latest
		}
		for drawn := false; !drawn; {
			if layout.width, layout.height, err = term.GetSize(int(out.Fd())); err != nil {
				layout.width, layout.height = 80, 24
			}
			if err := a.printf("%s", onScreen(topFrame(report, layout))); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
				drawn = true
			case key, ok := <-keys:
				switch {
				case !ok || key == 'q' || key == 'Q' || key == 3: // Ctrl-C is a byte in raw mode
					return nil
				case key == 's':
					layout.order = layout.order.next()
				case key == ' ':
					drawn = true
				}
			}
		}
	}
}

// readKeys gives the bytes of a terminal. Its goroutine ends with the input or with the program: a read from a terminal cannot be interrupted.
func readKeys(in interface{ Read([]byte) (int, error) }) <-chan byte {
	keys := make(chan byte)
	go func() {
		defer close(keys)
		var buffer [1]byte
		for {
			n, err := in.Read(buffer[:])
			if n == 1 {
				keys <- buffer[0]
			}
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
		}
	}()
	return keys
}
