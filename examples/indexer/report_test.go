package main

import (
	"strings"
	"testing"
	"time"
)

// held is a run that held everything it promises.
func held() (result, evidence) {
	return result{files: 7667, failed: 45, jobsPerSecond: 1234.5, recovered: 31.26},
		evidence{
			appended: 7667, failures: map[string]int{codeParse: 45}, enoughToKill: true, killed: true,
			recovery: recovery{jobs: 66, finished: 66, done: 31 * time.Second},
		}
}

func TestVerdictAcceptsARunThatHeld(t *testing.T) {
	found, facts := held()
	if err := verdict(found, facts); err != nil {
		t.Error(err)
	}
	if got, want := found.String(), "demo ok files=7667 failed=45 jobs_per_s=1234 recovered_s=31.3 doubled=0 lost=0"; got != want {
		t.Errorf("the last line is\n%s, want\n%s", got, want)
	}
	facts.enoughToKill, facts.killed, facts.recovery = false, false, recovery{}
	if err := verdict(found, facts); err != nil {
		t.Errorf("too little to do: %v", err)
	}
}

func TestVerdictNamesWhatDidNotHold(t *testing.T) {
	for want, spoil := range map[string]func(*result, *evidence){
		"doubled=1":                func(r *result, e *evidence) { r.doubled, e.appended = 1, e.appended+1 },
		"lost=2":                   func(r *result, _ *evidence) { r.lost = 2 },
		"3 files are not recorded": func(_ *result, e *evidence) { e.unrecorded = 3 },
		"7666 runs appended":       func(_ *result, e *evidence) { e.appended-- },
		"1 files failed with code panic": func(_ *result, e *evidence) {
			e.failures["panic"] = 1
		},
		`"a.go"`: func(_ *result, e *evidence) { e.parsable = []string{"a.go"} },
		"so none was killed": func(_ *result, e *evidence) {
			e.killed, e.recovery = false, recovery{}
		},
		"left no job behind": func(_ *result, e *evidence) {
			e.recovery = recovery{}
		},
		"only 65 were finished": func(_ *result, e *evidence) { e.recovery.finished-- },
	} {
		t.Run(want, func(t *testing.T) {
			found, facts := held()
			spoil(&found, &facts)
			err := verdict(found, facts)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("got several errors for one fault: %v", err)
			}
		})
	}
}
