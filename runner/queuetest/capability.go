package queuetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgqueue/pgqueue/runner"
)

// Capability is something that a queue may be unable to do. Each must be there or be declared in [Harness.Without].
type Capability string

const (
	// Classes means: claims follow the classes of the request.
	Classes Capability = "Classes"
	// Kinds means: claims follow the kinds of the request.
	Kinds Capability = "Kinds"
	// Revisions means: the input of an item can be replaced, which supersedes the run that is under way.
	Revisions Capability = "Revisions"
	// Results means: a success stores its result.
	Results Capability = "Results"
	// BadResults means: the harness can make a result that the store refuses.
	BadResults Capability = "BadResults"
	// Eligibility means: a success is Ineligible when the item may not be completed any more.
	Eligibility Capability = "Eligibility"
	// Locks means: another session can lock one item.
	Locks Capability = "Locks"
	// LateSuccess means: a success counts after its lease was recovered, as long as nobody has claimed the item again. A queue
	// without it must refuse such a success, which is tested too.
	LateSuccess Capability = "LateSuccess"
	// CrashBudget means: a lease that runs out spends budget, so that an item which kills its worker each time ends as dead.
	CrashBudget Capability = "CrashBudget"
	// FailureCount means: [Item.Failures] is told.
	FailureCount Capability = "FailureCount"
	// History means: [Harness.Look] still tells the state of an item that has ended. Without it such an item is Absent.
	History Capability = "History"
	// Undecodable means: an item can exist whose payload cannot be decoded.
	Undecodable Capability = "Undecodable"
	// CancelRequests means: a claimed item can be asked to stop.
	CancelRequests Capability = "CancelRequests"
	// Renewal means: the queue is a [runner.Renewer].
	Renewal Capability = "Renewal"
	// Scheduling means: the queue is a [runner.Scheduler].
	Scheduling Capability = "Scheduling"
)

// has says whether the queue can do it: whether it is not declared missing.
func (h *Harness[P, R]) has(c Capability) bool { return !slices.Contains(h.Without, c) }

// missing returns the capabilities of needs that are declared missing.
func (h *Harness[P, R]) missing(needs []Capability) (missing []Capability) {
	for _, c := range needs {
		if !h.has(c) {
			missing = append(missing, c)
		}
	}
	return missing
}

// validate tells everything that is wrong with the declaration at once.
func (h *Harness[P, R]) validate() error {
	var problems []string
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	required := func(field string, there bool) {
		if !there {
			complain("%s is required", field)
		}
	}
	required("Queue", h.Queue != nil)
	required("Add", h.Add != nil)
	required("Delete", h.Delete != nil)
	required("Look", h.Look != nil)
	required("Name", h.Name != nil)
	required("MakeDue", h.MakeDue != nil)
	required("ExpireLeases", h.ExpireLeases != nil)
	required("Recover", h.Recover != nil)
	if h.Budget < MinBudget {
		complain("Budget is %d, must be at least %d", h.Budget, MinBudget)
	}
	optional := func(c Capability, field string, there bool) {
		switch {
		case h.has(c) && !there:
			complain("%s is missing: supply it, or declare Without: %s", field, c)
		case !h.has(c) && there:
			complain("%s is there, although Without declares %s", field, c)
		}
	}
	optional(Revisions, "Replace", h.Replace != nil)
	optional(Revisions, "Revision", h.Revision != nil)
	optional(Results, "Result", h.Result != nil)
	optional(BadResults, "BadResult", h.BadResult != nil)
	optional(Eligibility, "MakeIneligible", h.MakeIneligible != nil)
	optional(Locks, "Lock", h.Lock != nil)
	optional(Undecodable, "AddUndecodable", h.AddUndecodable != nil)
	optional(CancelRequests, "RequestCancel", h.RequestCancel != nil)
	_, renewer := h.Queue.(runner.Renewer)
	optional(Renewal, "the queue's method Renew", renewer)
	_, scheduler := h.Queue.(runner.Scheduler)
	optional(Scheduling, "the queue's method NextDue", scheduler)
	known := []Capability{Classes, Kinds, Revisions, Results, BadResults, Eligibility, Locks, LateSuccess, CrashBudget, FailureCount,
		History, Undecodable, CancelRequests, Renewal, Scheduling}
	for _, c := range h.Without {
		if !slices.Contains(known, c) {
			complain("Without names %q, which is no capability", c)
		}
	}
	if problems == nil {
		return nil
	}
	return fmt.Errorf("queuetest: the harness is not usable:\n  %s", strings.Join(problems, "\n  "))
}
