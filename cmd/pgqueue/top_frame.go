package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// topOrder is the order of the queues.
type topOrder int

const (
	byLag topOrder = iota
	byDepth
	byRate
	byName
	topOrders
)

func (o topOrder) next() topOrder { return (o + 1) % topOrders }

func (o topOrder) String() string {
	return [...]string{"lag", "depth", "rate", "name"}[o]
}

// topLayout is how a look is drawn. height 0 draws everything; trouble is why the last look failed.
type topLayout struct {
	width, height int
	order         topOrder
	interval      time.Duration
	trouble       string
}

// topFrame draws a look as lines of at most width characters, no more of them than height. A nil report is drawn while there is none.
func topFrame(report *topReport, layout topLayout) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if layout.trouble != "" {
		add("! %s", ends(visible(layout.trouble), layout.width-2))
	}
	if report == nil {
		if layout.trouble == "" {
			add("looking …")
		}
		return fitted(lines, layout)
	}
	total := report.Activity.Total
	add("pgqueue  %s/%s  %s", visible(report.Database), visible(report.Schema), report.At.UTC().Format("2006-01-02 15:04:05Z"))
	window := span(report.Activity.Until.Sub(report.Activity.Since))
	add("ended    %s/s  %s succeeded, %s failed, %s dead, %s cancelled in %s  %s", rate(total.PerSecond), grouped(total.Succeeded), grouped(total.Failed),
		grouped(total.Dead), grouped(total.Cancelled), window, sparkline(total.Series))
	add("wait     p50 %s  p95 %s  max %s     run  p50 %s  p95 %s  max %s", span(total.Wait.P50), span(total.Wait.P95), span(total.Wait.Max),
		span(total.Run.P50), span(total.Run.P95), span(total.Run.Max))
	var ready, running, retrying, failed, dead pgqueue.Count
	for n := range report.Queues {
		q := &report.Queues[n]
		ready, running, retrying = sumOf(ready, sumOf(q.Ready[:]...)), sumOf(running, q.Running), sumOf(retrying, q.Retrying)
		failed, dead = sumOf(failed, q.Failed), sumOf(dead, q.Dead)
	}
	add("now      %s ready, %s running, %s retrying, %s failed, %s dead", countText(ready), countText(running), countText(retrying), countText(failed), countText(dead))
	add("")
	workers := topWorkers(report)
	queues := topQueues(report, layout.order, layout.nameWidth())
	if layout.height > 0 { // the workers get what they need, up to a third, and the queues the rest
		room := max(layout.height-len(lines)-3, 4) // two empty lines and the line of keys
		forWorkers := min(len(workers), max(room/3, 2))
		forQueues := min(len(queues), room-forWorkers)
		workers, queues = shorter(workers, min(len(workers), room-forQueues)), shorter(queues, forQueues)
	}
	lines = append(lines, queues...)
	add("")
	lines = append(lines, workers...)
	if layout.height > 0 {
		add("")
		add("q quit  s order: %s  blank look now  every %s", layout.order, layout.interval)
	}
	return fitted(lines, layout)
}

// shorter is a table of so many lines, the last of which says what is missing.
func shorter(lines []string, most int) []string {
	if len(lines) <= most || most < 2 {
		return lines[:min(len(lines), max(most, 0))]
	}
	return append(lines[:most-1:most-1], fmt.Sprintf("… and %d more", len(lines)-most+1))
}

// nameWidth is how long the name of a queue may be, so that on a narrow terminal the numbers behind it are seen.
func (l *topLayout) nameWidth() int {
	const longest, shortest, numbers = 40, 10, 28
	if l.width == 0 || l.height == 0 {
		return longest
	}
	return min(max(l.width-numbers, shortest), longest)
}

// ends is a text that fits: where it is too long, its beginning and its end, since that is where an error says why.
func ends(text string, most int) string {
	all := []rune(text)
	if most < 10 || len(all) <= most {
		return text
	}
	head := most / 3
	return string(all[:head]) + "…" + string(all[len(all)-(most-head-1):])
}

func topQueues(report *topReport, order topOrder, nameWidth int) []string {
	type row struct {
		stats    *pgqueue.QueueStats
		activity pgqueue.QueueActivity
		ready    pgqueue.Count
	}
	rows := make([]row, len(report.Queues))
	for n := range report.Queues {
		q := &report.Queues[n]
		rows[n] = row{q, report.Activity.Queue(q.Queue), sumOf(q.Ready[:]...)}
	}
	slices.SortStableFunc(rows, func(x, y row) int {
		switch order {
		case byDepth:
			return cmp.Or(cmp.Compare(y.ready.N, x.ready.N), cmp.Compare(x.stats.Queue, y.stats.Queue))
		case byRate:
			return cmp.Or(cmp.Compare(y.activity.PerSecond, x.activity.PerSecond), cmp.Compare(x.stats.Queue, y.stats.Queue))
		case byName:
			return cmp.Compare(x.stats.Queue, y.stats.Queue)
		}
		return cmp.Or(cmp.Compare(y.stats.OldestReady, x.stats.OldestReady), cmp.Compare(y.ready.N, x.ready.N), cmp.Compare(x.stats.Queue, y.stats.Queue))
	})
	cells := [][]string{{"QUEUE", "READY", "OLDEST", "RUNNING", "EXPIRED", "RETRYING", "FAILED", "DEAD", "ENDED/S", "WAIT P95", "RUN P95", ""}}
	for _, r := range rows {
		q, oldest, paused := r.stats, "-", ""
		if r.ready.N > 0 {
			oldest = span(q.OldestReady)
		}
		if !q.PausedAt.IsZero() {
			paused = "paused"
		}
		cells = append(cells, []string{
			shortened(visible(q.Queue), nameWidth), countText(r.ready), oldest, countText(q.Running), countText(q.Expired), countText(q.Retrying), countText(q.Failed),
			countText(q.Dead), rate(r.activity.PerSecond), span(r.activity.Wait.P95), span(r.activity.Run.P95), paused,
		})
	}
	return columns(cells)
}

func topWorkers(report *topReport) []string {
	if len(report.Workers) == 0 {
		return []string{"no worker process has reported itself within the last hour"}
	}
	cells := [][]string{{"WORKER", "STATE", "HOST", "PID", "SEEN", "QUEUES (BUSY/SLOTS)"}}
	for n := range report.Workers {
		w := &report.Workers[n]
		cells = append(cells, []string{shortened(visible(w.ID), 40), workerState(w), shortened(visible(w.Host), 30), fmt.Sprint(w.PID), distance(w.SeenAt, report.At), visible(busyText(w))})
	}
	return columns(cells)
}

// columns are rows as lines with their cells in columns.
func columns(rows [][]string) []string {
	widths := map[int]int{}
	for _, row := range rows {
		for n, cell := range row {
			widths[n] = max(widths[n], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		var line strings.Builder
		for n, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[n]-utf8.RuneCountInString(cell)+2))
		}
		lines[i] = strings.TrimRight(line.String(), " ")
	}
	return lines
}

// fitted are lines as a text that fits.
func fitted(lines []string, layout topLayout) string {
	if layout.height > 0 && len(lines) > layout.height {
		lines = lines[:layout.height]
	}
	for n, line := range lines {
		if layout.width > 0 && layout.height > 0 {
			lines[n] = shortened(line, layout.width)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// onScreen is a frame as a raw terminal wants it: drawn over the one before, without a flicker.
func onScreen(frame string) string {
	return cursorHome + strings.ReplaceAll(strings.TrimSuffix(frame, "\n"), "\n", clearLine+"\r\n") + clearLine + clearBelow
}

// rate is so many a second.
func rate(perSecond float64) string {
	switch {
	case perSecond >= 100:
		return grouped(int(perSecond + 0.5))
	case perSecond > 0 && perSecond < 0.1:
		return fmt.Sprintf("%.3f", perSecond)
	}
	return fmt.Sprintf("%.1f", perSecond)
}

// sparkline draws how many jobs ended in each part of the window.
func sparkline(series []pgqueue.ActivityBucket) string {
	const bars = "▁▂▃▄▅▆▇█"
	most := 0
	for _, bucket := range series {
		most = max(most, bucket.Done+bucket.Bad)
	}
	if most == 0 {
		return ""
	}
	var line strings.Builder
	for _, bucket := range series {
		line.WriteRune([]rune(bars)[(bucket.Done+bucket.Bad)*7/most])
	}
	return line.String()
}
