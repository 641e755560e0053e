package queuetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Case is one rule of the suite.
type Case[P, R any] struct {
	// Name is the name of the subtest.
	Name string
	// Needs are the capabilities without which the rule does not apply.
	Needs []Capability

	test func(e *env[P, R])
}

// Missing returns those of the case's needs that the harness declares missing. The case applies if there are none.
func (c Case[P, R]) Missing(h Harness[P, R]) []Capability { return h.missing(c.Needs) }

// Run runs the case on a harness of its own. It fails tb if the harness is not usable; it does not look at Needs.
func (c Case[P, R]) Run(tb testing.TB, h Harness[P, R]) {
	tb.Helper()
	if err := h.validate(); err != nil {
		tb.Fatal(err)
	}
	c.test(newEnv(tb, h))
}

// Cases lists the whole suite, in the order in which [Run] runs it.
func Cases[P, R any]() []Case[P, R] {
	return slices.Concat(
		claimCases[P, R](),
		orderCases[P, R](),
		verdictCases[P, R](),
		budgetCases[P, R](),
		resultCases[P, R](),
		batchCases[P, R](),
		leaseCases[P, R](),
		staleCases[P, R](),
		revisionCases[P, R](),
		lockCases[P, R](),
		renewCases[P, R](),
		scheduleCases[P, R](),
		confirmCases[P, R](),
		runnerCases[P, R](),
	)
}

// Run runs the suite: each case is a subtest with a harness of its own, which open makes empty and which is told to
// clean up through its tb. At the end it logs how many cases applied, and which capabilities the others wanted.
func Run[P, R any](t *testing.T, open func(tb testing.TB) Harness[P, R]) {
	t.Helper()
	ran := 0
	var left []string
	for _, c := range Cases[P, R]() {
		t.Run(c.Name, func(t *testing.T) {
			h := open(t)
			if missing := c.Missing(h); missing != nil {
				t.Logf("not applicable: the queue is declared to be without %v", missing)
				left = append(left, fmt.Sprintf("%s %v", c.Name, missing))
				return
			}
			ran++
			c.Run(t, h)
		})
	}
	t.Logf("queuetest: %d cases applied, %d did not: %s", ran, len(left), strings.Join(left, ", "))
}
