package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress draws a bar: one line that is redrawn on a terminal, and a line now and then elsewhere. One goroutine uses it.
type progress struct {
	out      io.Writer
	total    int
	terminal bool
	every    time.Duration
	started  time.Time
	drawn    time.Time // when last
	last     string
}

// How often the bar is drawn.
const (
	drawOnTerminal = 100 * time.Millisecond
	drawElsewhere  = 3 * time.Second
)

func newProgress(out io.Writer, total int) *progress {
	p := &progress{out: out, total: total, every: drawElsewhere, started: time.Now()}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	if p.terminal {
		p.every = drawOnTerminal
	}
	return p
}

// show draws the bar if it is time to, or if all is done.
func (p *progress) show(done int, queue backlog, victim *casualty) {
	if done < p.total && time.Since(p.drawn) < p.every {
		return
	}
	line := p.line(done, queue, victim, time.Since(p.started))
	if line == p.last {
		return
	}
	p.drawn, p.last = time.Now(), line
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
	} else {
		fmt.Fprintln(p.out, line)
	}
}

// barWidth keeps the whole line below 80 columns.
const barWidth = 20

func (p *progress) line(done int, queue backlog, victim *casualty, elapsed time.Duration) string {
	filled := barWidth
	percent := 100
	if p.total > 0 {
		filled, percent = barWidth*done/p.total, 100*done/p.total
	}
	line := fmt.Sprintf("indexing   [%s%s] %3d %%  %d of %d", strings.Repeat("#", filled), strings.Repeat("-", barWidth-filled), percent, done, p.total)
	switch {
	case done >= p.total:
		return line
	case victim != nil && queue.orphaned > 0 && queue.live == queue.orphaned:
		// Only the killed process's jobs are left: the other one's reaper returns them when their leases have run out.
		return line + fmt.Sprintf(", %d to come back, %.0f s", queue.orphaned, time.Since(victim.noticed).Seconds())
	default:
		return line + fmt.Sprintf(", %.0f/s", float64(done)/max(elapsed.Seconds(), 0.001))
	}
}

// note prints a line above the bar.
func (p *progress) note(format string, args ...any) {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	fmt.Fprintf(p.out, format+"\n", args...)
	p.last = ""
}

// end leaves the bar as it stands.
func (p *progress) end() {
	if p.terminal && p.last != "" {
		fmt.Fprintln(p.out)
	}
}
