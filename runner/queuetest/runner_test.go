package queuetest_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/queuetest"
)

// The cases with the real runner wait for events. Inside a bubble a wrong queue costs their whole patience at once.
func TestRunnerCasesCatchWrongQueues(t *testing.T) {
	stalls := beforeClaim(func(r *runner.ClaimRequest) { r.Kinds = []string{queuetest.KindA} })
	forgets := func(w *wrong) { w.instead(runner.Succeed, runner.Fail, runner.Failed, runner.Succeeded) }
	for _, test := range []struct {
		caughtBy string
		breakIt  func(w *wrong)
	}{{"RunnerDrainsTheQueue", forgets}, {"RunnerStalledKindBesideALiveOne", stalls}} {
		for _, c := range queuetest.Cases[payload, string]() {
			if c.Name != test.caughtBy {
				continue
			}
			t.Run(c.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					message := record(t, c, newWrong(test.breakIt))
					if message == "" || strings.Contains(message, "panic") {
						t.Errorf("not caught: %q", message)
					}
					t.Log(message)
				})
			})
		}
	}
}
