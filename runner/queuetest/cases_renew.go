package queuetest

import (
	"github.com/pgqueue/pgqueue/runner"
)

func renewCases[P, R any]() []Case[P, R] {
	need := []Capability{Renewal}
	return []Case[P, R]{
		{Name: "RenewalExtendsTheLease", Needs: need, test: renewalExtendsTheLease[P, R]},
		{Name: "RenewalIsAnsweredByPosition", Needs: need, test: renewalIsAnsweredByPosition[P, R]},
		{Name: "RenewalAfterTheLossIsRefused", Needs: need, test: renewalAfterTheLossIsRefused[P, R]},
		{Name: "RenewalAfterTheEndIsRefused", Needs: need, test: renewalAfterTheEndIsRefused[P, R]},
		{Name: "RenewalOfARecreatedTaskIsRefused", Needs: need, test: renewalOfARecreatedTaskIsRefused[P, R]},
		{Name: "RenewalOfASupersededRunGoesOn", Needs: append(need, Revisions), test: renewalOfASupersededRunGoesOn[P, R]},
		{Name: "RenewalTellsOfACancelRequest", Needs: append(need, CancelRequests), test: renewalTellsOfACancelRequest[P, R]},
		{Name: "RenewalOfNothing", Needs: need, test: renewalOfNothing[P, R]},
		{Name: "RenewalOfACancelledContextIsAnError", Needs: need, test: renewalOfACancelledContextIsAnError[P, R]},
	}
}

func (e *env[P, R]) renew(tasks ...runner.Task[P]) []runner.Renewal {
	e.Helper()
	tokens := make([]runner.Token, len(tasks))
	for i, task := range tasks {
		tokens[i] = task.Token
	}
	renewals, err := e.Queue.(runner.Renewer).Renew(e.ctx, tokens, lease)
	if err != nil {
		e.Fatalf("Renew: %v", err)
	}
	if len(renewals) != len(tokens) {
		e.Fatalf("Renew answered %d of %d tokens", len(renewals), len(tokens))
	}
	return renewals
}

func (e *env[P, R]) wantRenewals(tasks []runner.Task[P], want ...runner.Renewal) {
	e.Helper()
	for i, got := range e.renew(tasks...) {
		if got != want[i] {
			e.Fatalf("renewal %d of %d is %s, want %s", i+1, len(want), renewalName(got), renewalName(want[i]))
		}
	}
}

func renewalExtendsTheLease[P, R any](e *env[P, R]) {
	e.add("renewed", "left")
	tasks := e.claimAll("renewed", "left")
	e.wantRenewals([]runner.Task[P]{tasks["renewed"]}, runner.Renewed)
	e.ExpireLeases()
	// The lease has run out and nobody has noticed yet. A queue may refuse now; if it says renewed, it must hold.
	if e.renew(tasks["renewed"])[0] == runner.Renewed {
		e.unchanged("renewed", "a recovery", func() { e.wantRecovered(100, 1) })
		e.wantState("left", Waiting)
		e.want(tasks["renewed"], runner.Retry, runner.Retrying)
		return
	}
	e.wantRecovered(100, 2)
}

func renewalIsAnsweredByPosition[P, R any](e *env[P, R]) {
	e.add("a", "b", "c", "d")
	tasks := e.claimAll("a", "b", "c", "d")
	e.Delete("b")
	e.want(tasks["d"], runner.Succeed, runner.Succeeded)
	e.wantRenewals([]runner.Task[P]{tasks["d"], tasks["c"], tasks["b"], tasks["a"]},
		runner.Refused, runner.Renewed, runner.Refused, runner.Renewed)
	e.lapse(2)
}

func renewalAfterTheLossIsRefused[P, R any](e *env[P, R]) {
	e.add("a")
	old := e.claimOnly("a")
	e.lapse(1)
	e.unchanged("a", "a renewal after the recovery", func() {
		e.wantRenewals([]runner.Task[P]{old}, runner.Refused)
	})
	e.makeDue("a")
	fresh := e.claimOnly("a")
	e.ExpireLeases()
	e.wantRenewals([]runner.Task[P]{old}, runner.Refused)
	e.wantRecovered(100, 1) // the old claim has not extended the lease of the new one
	e.wantRenewals([]runner.Task[P]{fresh}, runner.Refused)
}

func renewalAfterTheEndIsRefused[P, R any](e *env[P, R]) {
	for _, decision := range decisions() {
		name := "ended-" + decisionName(decision)
		e.add(name)
		task := e.claimOnly(name)
		v := e.verdict(task, decision)
		v.Delay = far
		e.report(v)
		e.unchanged(name, "a renewal after "+decisionName(decision), func() {
			e.wantRenewals([]runner.Task[P]{task}, runner.Refused)
		})
		if e.Look(name).State == Waiting {
			e.Delete(name)
		}
	}
}

func renewalOfARecreatedTaskIsRefused[P, R any](e *env[P, R]) {
	e.add("a")
	old := e.claimOnly("a")
	e.Delete("a")
	e.add("a")
	e.wantRenewals([]runner.Task[P]{old}, runner.Refused)
	fresh := e.claimOnly("a")
	e.wantRenewals([]runner.Task[P]{old, fresh}, runner.Refused, runner.Renewed)
}

func renewalOfASupersededRunGoesOn[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "a", Revision: "r1"})
	task := e.claimRevision("a", "r1")
	e.Replace("a", "r2")
	e.wantRenewals([]runner.Task[P]{task}, runner.Renewed)
	e.want(task, runner.Succeed, runner.Superseded)
}

func renewalTellsOfACancelRequest[P, R any](e *env[P, R]) {
	e.add("a", "b")
	tasks := e.claimAll("a", "b")
	e.RequestCancel("b")
	e.wantRenewals([]runner.Task[P]{tasks["a"], tasks["b"]}, runner.Renewed, runner.CancelRequested)
	e.want(tasks["b"], runner.Cancel, runner.Cancelled)
	e.wantState("b", Cancelled)
	e.want(tasks["a"], runner.Succeed, runner.Succeeded)
}

func renewalOfNothing[P, R any](e *env[P, R]) {
	e.add("a")
	e.claimOnly("a")
	e.renew()
	e.wantState("a", Claimed)
}

func renewalOfACancelledContextIsAnError[P, R any](e *env[P, R]) {
	e.add("a")
	task := e.claimOnly("a")
	ctx, cancel := cancelled(e.ctx)
	defer cancel()
	if _, err := e.Queue.(runner.Renewer).Renew(ctx, []runner.Token{task.Token}, lease); err == nil {
		e.Fatalf("Renew with a cancelled context returned no error")
	}
	e.want(task, runner.Succeed, runner.Succeeded)
}
