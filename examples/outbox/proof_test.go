package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// killedPID is the process that was killed in these tests, livingPID the other one.
const killedPID, livingPID = 11, 12

// story makes up a run of so many notifications in which everything went right, one send after the other, with one that
// the kill interrupted.
func story(notifications int) (*run, []row, []account) {
	start := time.Now()
	r := &run{opts: options{notifications: notifications, timeout: time.Second, seed: 1}, out: new(bytes.Buffer)}
	r.killed = casualty{process: &process{pid: killedPID}, at: start.Add(time.Hour)}
	var rows []row
	var log []account
	interrupted := false
	for id := int64(1); id <= int64(notifications); id++ {
		f := fateOf(1, id)
		a := account{key: fmt.Sprint("key-", id), notification: id, provider: providers[id%3]}
		d := row{notification: id, provider: a.provider, status: f.end()}
		for at := start; ; at = at.Add(time.Minute) {
			s := &send{worker: livingPID, attempt: len(a.sends) + 1, begun: at, ended: at.Add(10 * time.Millisecond), answer: f.at(len(a.sends))}
			s.unanswered = s.answer == hang || s.answer == lose
			if a.receipt != "" {
				s.answer = again
			}
			a.sends = append(a.sends, s)
			if s.answer == accept || s.answer == lose {
				a.receipt, a.accepted = "receipt", 1
			}
			if s.answer == accept && !interrupted {
				interrupted = true
				s.worker, s.unanswered, s.begun, s.ended = killedPID, true, r.killed.at.Add(-time.Millisecond), r.killed.at.Add(time.Millisecond)
				at = r.killed.at
				continue
			}
			if s.answer == accept || s.answer == again || s.answer == refuse || len(a.sends) == 5 {
				break
			}
		}
		d.attempts, d.receipt = len(a.sends), a.receipt
		switch d.status {
		case "failed":
			d.code, d.failures = "refused", 1
		case "dead":
			d.failures = 5
		}
		rows, log = append(rows, d), append(log, a)
	}
	return r, rows, log
}

// find returns the first notification of the story that meets this answer first.
func find(log []account, first answer) int {
	for i, a := range log {
		if a.sends[0].answer == first && a.sends[0].worker == livingPID {
			return i
		}
	}
	panic("no notification meets " + first)
}

func TestProofHoldsForARunThatWentWell(t *testing.T) {
	r, rows, log := story(500)
	found, err := r.compare(rows, log)
	if err != nil {
		t.Fatal(err)
	}
	if found.delivered+found.failed+found.dead != 500 || found.failed == 0 || found.dead == 0 || found.interrupts != 1 || found.repeated < 2 {
		t.Errorf("%+v", found)
	}
}

// The proof must be able to fail: each of these is one thing gone wrong.
func TestProofSeesWhatIsWrong(t *testing.T) {
	for says, spoil := range map[string]func(r *run, rows []row, log []account){
		"was sent while attempt 1": func(r *run, rows []row, log []account) { // by two at once
			a := log[find(log, breakDown)]
			a.sends[1].begun = a.sends[0].begun.Add(time.Millisecond)
		},
		"and it was sent again": func(r *run, rows []row, log []account) { // although somebody alive had the answer
			log[find(log, lose)].sends[0].answer, log[find(log, lose)].sends[0].unanswered = accept, false
		},
		"was sent after attempt 1": func(r *run, rows []row, log []account) { log[find(log, breakDown)].sends[1].attempt = 1 },
		"accepted it 2 times":      func(r *run, rows []row, log []account) { log[find(log, accept)].accepted = 2 },
		"accepted it 0 times":      func(r *run, rows []row, log []account) { log[find(log, accept)].accepted = 0 },
		"the provider gave":        func(r *run, rows []row, log []account) { rows[find(log, accept)].receipt = "another" },
		"was not refused":          func(r *run, rows []row, log []account) { rows[find(log, refuse)].code = "provider_down" },
		"is dead after 4 failures": func(r *run, rows []row, log []account) {
			for i := range rows {
				if rows[i].status == "dead" {
					rows[i].failures = 4
				}
			}
		},
		"the provider has accepted it": func(r *run, rows []row, log []account) {
			i := find(log, accept)
			rows[i].status, rows[i].failures = "dead", 5
		},
		"is processing at the end": func(r *run, rows []row, log []account) { rows[find(log, accept)].status = "processing" },
		"is missing at the end":    func(r *run, rows []row, log []account) { rows[find(log, accept)].status = "missing" },
		"instead of":               func(r *run, rows []row, log []account) { log[find(log, accept)].provider = "pigeon" },
		"in 1 claims":              func(r *run, rows []row, log []account) { rows[find(log, breakDown)].attempts = 1 },
		"and should be failed":     func(r *run, rows []row, log []account) { rows[find(log, refuse)].status = "delivered" },
		"does not exist":           func(r *run, rows []row, log []account) { log[find(log, accept)].notification = 9999 },
		"two idempotency keys":     func(r *run, rows []row, log []account) { log[1].notification = log[0].notification },
		"not 501":                  func(r *run, rows []row, log []account) { r.opts.notifications++ },
		"has interrupted nothing":  func(r *run, rows []row, log []account) { r.killed.process.pid = 13 },
	} {
		t.Run(says, func(t *testing.T) {
			r, rows, log := story(500)
			spoil(r, rows, log)
			if _, err := r.compare(rows, log); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("got %v", err)
			}
		})
	}
}
