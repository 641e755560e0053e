package queuetest_test

import (
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/runner/memqueue"
	"github.com/pgqueue/pgqueue/runner/queuetest"
)

// A harness that leaves something out without saying so must not be taken for one that passes.
func TestIncompleteHarnessIsRefused(t *testing.T) {
	tests := []struct {
		name   string
		change func(h *harness)
		wants  []string
	}{
		{"nothing", func(h *harness) { *h = harness{} }, []string{"Queue is required", "Add is required", "Budget is 0", "Lock is missing"}},
		{"missing and not declared", func(h *harness) { h.Lock = nil }, []string{"Lock is missing", "Without: Locks"}},
		{"declared and not missing", func(h *harness) { h.Without = []queuetest.Capability{queuetest.Results} },
			[]string{"Result is there, although Without declares Results"}},
		{"method missing and not declared", func(h *harness) { h.Queue = plain{h.Queue} }, []string{"Renew is missing", "NextDue is missing"}},
		{"method there and declared missing", func(h *harness) { h.Without = []queuetest.Capability{queuetest.Renewal} },
			[]string{"Renew is there, although Without declares Renewal"}},
		{"small budget", func(h *harness) { h.Budget = 2 }, []string{"Budget is 2, must be at least 3"}},
		{"misspelt capability", func(h *harness) { h.Without = []queuetest.Capability{"Lokcs"} }, []string{`"Lokcs"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h, _ := memory(memqueue.Config{})
			test.change(&h)
			message := record(t, queuetest.Cases[payload, string]()[0], h)
			for _, want := range test.wants {
				if !strings.Contains(message, want) {
					t.Errorf("message %q does not say %q", message, want)
				}
			}
		})
	}
}

// A queue that declares the wrong policy for late successes is caught, whichever way.
func TestWrongPolicyForLateSuccessIsCaught(t *testing.T) {
	for _, c := range queuetest.Cases[payload, string]() {
		if c.Name != "LateSuccess" {
			continue
		}
		refuses, _ := memory(memqueue.Config{RefuseLate: true})
		if record(t, c, refuses) == "" {
			t.Error("a queue that refuses a late success passes as one that accepts it")
		}
		accepts, _ := memory(memqueue.Config{})
		accepts.Without = []queuetest.Capability{queuetest.LateSuccess}
		if record(t, c, accepts) == "" {
			t.Error("a queue that accepts a late success passes as one that refuses it")
		}
		return
	}
	t.Error("there is no case LateSuccess")
}

func TestCaseNamesAreUnique(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range queuetest.Cases[payload, string]() {
		if seen[c.Name] {
			t.Errorf("two cases are named %s", c.Name)
		}
		seen[c.Name] = true
	}
}
