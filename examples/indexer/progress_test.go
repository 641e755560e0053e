package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestProgressLinesFitATerminal(t *testing.T) {
	p := newProgress(&bytes.Buffer{}, 123456)
	victim := &casualty{worker: &workerProcess{id: "w"}, noticed: time.Now()}
	for done := 0; done <= p.total; done += 11111 {
		for _, queue := range []backlog{{live: 70, waiting: 4, running: 66, orphaned: 66}, {live: 66, running: 66, orphaned: 66}} {
			line := p.line(done, queue, victim, 35*time.Second)
			if len(line) > 80 {
				t.Errorf("%d columns: %s", len(line), line)
			}
		}
	}
}

func TestProgressSaysWhatItWaitsFor(t *testing.T) {
	p := newProgress(&bytes.Buffer{}, 100)
	victim := &casualty{worker: &workerProcess{id: "w"}, noticed: time.Now()}
	if line := p.line(90, backlog{live: 10, running: 10, orphaned: 10}, victim, time.Second); !strings.Contains(line, "10 to come back") {
		t.Errorf("only orphans are left: %s", line)
	}
	if line := p.line(90, backlog{live: 10, running: 10, orphaned: 9}, victim, time.Second); !strings.Contains(line, "90/s") {
		t.Errorf("work is left: %s", line)
	}
	if line := p.line(100, backlog{}, victim, time.Second); !strings.Contains(line, "100 %  100 of 100") {
		t.Errorf("all is done: %s", line)
	}
}

func TestProgressElsewhereIsALineNowAndThen(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, 100)
	for done := range 100 {
		p.show(done, backlog{live: 100 - done}, nil)
	}
	p.show(100, backlog{}, nil)
	p.show(100, backlog{}, nil)
	p.end()
	if lines := strings.Count(out.String(), "\n"); lines != 2 || strings.Contains(out.String(), "\r") {
		t.Errorf("want the first line and the last, got:\n%q", out.String())
	}
}
