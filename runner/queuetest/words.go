package queuetest

import (
	"fmt"
	"strings"

	"github.com/pgqueue/pgqueue/runner"
)

// decisions returns all that end a claim for certain; Confirm has cases of its own.
func decisions() []runner.Decision {
	return []runner.Decision{runner.Succeed, runner.Retry, runner.Fail, runner.Cancel, runner.Snooze, runner.Release}
}

func decisionName(d runner.Decision) string {
	names := [...]string{"", "Succeed", "Retry", "Fail", "Cancel", "Snooze", "Release", "Confirm"}
	if d >= runner.Succeed && int(d) < len(names) {
		return names[d]
	}
	return fmt.Sprintf("Decision(%d)", uint8(d))
}

func outcomeName(o runner.Outcome) string {
	names := [...]string{"", "Busy", "Lost", "Superseded", "Ineligible", "Succeeded", "Retrying", "Failed", "Dead", "Cancelled", "Snoozed",
		"Released"}
	if o >= runner.Busy && int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

func outcomeNames(outcomes []runner.Outcome) string {
	names := make([]string, len(outcomes))
	for i, o := range outcomes {
		names[i] = outcomeName(o)
	}
	return strings.Join(names, " or ")
}

func renewalName(r runner.Renewal) string {
	names := [...]string{"", "Renewed", "Refused", "Locked", "CancelRequested"}
	if r >= runner.Renewed && int(r) < len(names) {
		return names[r]
	}
	return fmt.Sprintf("Renewal(%d)", uint8(r))
}
