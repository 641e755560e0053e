package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func itoa(id int64) string { return strconv.FormatInt(id, 10) }

// aReport is a look at many queues and workers, with names that try to reach the terminal.
func aReport(queues, workers int) *topReport {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	report := &topReport{At: at, Database: "shop", Schema: "pgqueue", Activity: &pgqueue.Activity{Since: at.Add(-time.Minute), Until: at}}
	report.Activity.Total = pgqueue.QueueActivity{Succeeded: 1200, PerSecond: 20, Series: []pgqueue.ActivityBucket{{Done: 1}, {Done: 8}, {Bad: 4}}}
	for n := range queues {
		report.Queues = append(report.Queues, pgqueue.QueueStats{
			Queue: fmt.Sprintf("q%03d\x1b[2J", n), OldestReady: time.Duration(n) * time.Second, Ready: [4]pgqueue.Count{{N: 1000 - n}},
		})
		report.Activity.Queues = append(report.Activity.Queues, pgqueue.QueueActivity{Queue: report.Queues[n].Queue, PerSecond: float64(n % 7)})
	}
	for n := range workers {
		report.Workers = append(report.Workers, pgqueue.WorkerReport{
			ID: fmt.Sprintf("w%d\x07", n), Alive: true, SeenAt: at, Queues: map[string]pgqueue.WorkerQueue{"q000": {Workers: 10, InFlight: 4}},
		})
	}
	return report
}

func TestTopFrameFitsTheTerminal(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {40, 10}, {200, 60}, {20, 5}} {
		for _, many := range [][2]int{{0, 0}, {1, 1}, {500, 40}} {
			frame := topFrame(aReport(many[0], many[1]), topLayout{width: size[0], height: size[1], interval: time.Second})
			lines := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
			if len(lines) > size[1] {
				t.Errorf("%v with %v: %d lines", size, many, len(lines))
			}
			for _, line := range lines {
				if utf8.RuneCountInString(line) > size[0] || strings.ContainsFunc(line, hidden) {
					t.Errorf("%v with %v: the line %q", size, many, line)
				}
			}
		}
	}
}

func TestTopFrameSaysWhatMattersFirst(t *testing.T) {
	frame := topFrame(aReport(500, 40), topLayout{width: 120, height: 24})
	if !containsAll(frame, "20.0/s", "1,200 succeeded", "▁█▄", "and 4", "w0", "4/10") {
		t.Errorf("the frame is\n%s", frame)
	}
	for order, first := range map[topOrder]string{byLag: "q499", byDepth: "q000", byRate: "q006", byName: "q000"} {
		lines := topQueues(aReport(500, 0), order, 40)
		if !strings.HasPrefix(lines[1], first) {
			t.Errorf("by %s the first queue is %q, want %s", order, lines[1], first)
		}
	}
	if frame := topFrame(nil, topLayout{width: 80, height: 24, trouble: "no connection"}); !strings.HasPrefix(frame, "! no connection") {
		t.Errorf("without a look the frame is %q", frame)
	}
	if frame := topFrame(aReport(1, 1), topLayout{width: 80, height: 24, trouble: "gone"}); !containsAll(frame, "! gone", "q000") {
		t.Errorf("after a failed look the last one stays: %q", frame)
	}
}

func TestTopOnce(t *testing.T) {
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	id := enqueueRaw(t, db, "mail", "send")
	if _, err := db.Client(t).Cancel(t.Context(), db.Pool, id); err != nil {
		t.Fatal(err)
	}
	enqueueRaw(t, db, "mail", "send")
	pg.run("top", "--once").want(exitOK).says("1 cancelled", "1 ready", "mail", "no worker process")
	line := decoded[topLine](pg.run("top", "--once", "--json").want(exitOK))
	if line.Total.Cancelled != 1 || len(line.Queues) != 1 || line.Queues[0].Ready[0].N != 1 || line.Queues[0].Activity.Cancelled != 1 {
		t.Errorf("top says %+v", line)
	}
	pg.run("top", "--interval", "1ms").want(exitUsage)
	pg.run("top", "--once", "--window", "1000h").want(exitUsage)
}

// Where nobody sits at a terminal, top writes one report an interval until it is stopped, which is no failure.
func TestTopWritesReportsUntilItIsStopped(t *testing.T) {
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	reader, writer := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"top", "--json", "--interval", "200ms"}, streams{in: strings.NewReader(""), out: writer, err: io.Discard}, pg.lookup)
		writer.Close()
	}()
	lines := bufio.NewScanner(reader)
	for range 3 {
		if !lines.Scan() {
			t.Fatal("top ended")
		}
		var line topLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.At.IsZero() {
			t.Fatalf("top wrote %q: %v", lines.Text(), err)
		}
	}
	stop()
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	if got := <-code; got != exitOK {
		t.Errorf("top ended with %d", got)
	}
}

// On a narrow terminal the numbers are seen, and of a long error its end.
func TestTopOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	report := &topReport{Activity: &pgqueue.Activity{}, Queues: []pgqueue.QueueStats{{Queue: strings.Repeat("q", 60), Running: pgqueue.Count{N: 777}}}}
	text := topFrame(report, topLayout{width: 40, height: 20, trouble: "list queues: " + strings.Repeat("x", 200) + ": connection refused"})
	if !strings.Contains(text, " 777") || !strings.Contains(text, "connection refused\n") || !strings.Contains(text, "! list queu") {
		t.Errorf("%s", text)
	}
}

// Shells complete what flags with a few values take.
func TestValuesAreCompleted(t *testing.T) {
	t.Parallel()
	c := newCLI(t, nil)
	c.run("__complete", "jobs", "list", "--state", "").want(exitOK).says("pending", "cancelled")
	c.run("__complete", "jobs", "list", "--order", "").want(exitOK).says("next-due")
	c.run("__complete", "doctor", "--fail-on", "").want(exitOK).says("never")
}
