package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/runner"
)

// The children of the vectors are looked up once per queue, and per queue and kind: an attempt then costs two map look-ups and
// a few atomic additions, and no label value is hashed or checked on the way.

// attemptOutcome is how a run of a handler ended, as far as the runner can tell. What became of the job is [runner.Outcome].
type attemptOutcome int

const (
	ranSucceeded attemptOutcome = iota
	ranError
	ranPermanent
	ranTimeout
	ranPanic
	ranUndecodable
	ranSnoozed
	ranCancelled
	ranReleased
	ranLeaseLost
	attemptOutcomes
)

// attemptOutcomeNames are the values of the label, by attemptOutcome.
func attemptOutcomeNames() [attemptOutcomes]string {
	return [...]string{"succeeded", "error", "permanent", "timeout", "panic", "undecodable", "snoozed", "cancelled", "released", "lease_lost"}
}

// verdictOutcomes is one more than the largest [runner.Outcome]; the first two, none and Busy, are no ends.
const verdictOutcomes = int(runner.Released) + 1

func verdictOutcomeNames() [verdictOutcomes]string {
	return [...]string{
		runner.Lost: "lost", runner.Superseded: "superseded", runner.Ineligible: "ineligible", runner.Succeeded: "succeeded",
		runner.Retrying: "retrying", runner.Failed: "failed", runner.Dead: "dead", runner.Cancelled: "cancelled",
		runner.Snoozed: "snoozed", runner.Released: "released",
	}
}

// kindChildren are the metrics of one kind in one queue.
type kindChildren struct {
	attempts   [attemptOutcomes]prometheus.Counter
	verdicts   [verdictOutcomes]prometheus.Counter // nil where there is no such end
	duration   prometheus.Observer
	pickup     prometheus.Observer
	stuck      prometheus.Counter
	refused    prometheus.Counter // leases
	unanswered prometheus.Counter
}

func (c *collector) newKind(queue, kind string) *kindChildren {
	k := &kindChildren{
		duration:   c.histograms[nameDuration].WithLabelValues(queue, kind),
		pickup:     c.histograms[namePickup].WithLabelValues(queue, kind),
		stuck:      c.counters[nameWentStuck].WithLabelValues(queue, kind),
		refused:    c.counters[nameLeases].WithLabelValues(queue, kind, "refused"),
		unanswered: c.counters[nameLeases].WithLabelValues(queue, kind, "unanswered"),
	}
	for i, name := range attemptOutcomeNames() {
		k.attempts[i] = c.counters[nameAttempts].WithLabelValues(queue, kind, name)
	}
	for i, name := range verdictOutcomeNames() {
		if name != "" {
			k.verdicts[i] = c.counters[nameVerdicts].WithLabelValues(queue, kind, name)
		}
	}
	return k
}

// runnerChildren are the metrics of one queue's runner and reaper.
type runnerChildren struct {
	label string
	kinds table[kindChildren]

	claims      [claimResults]prometheus.Counter
	claimJobs   prometheus.Observer
	reportJobs  prometheus.Observer
	busy        prometheus.Counter
	renewed     prometheus.Counter
	refused     prometheus.Counter
	locked      prometheus.Counter
	claimTime   prometheus.Observer
	reportTime  prometheus.Observer
	renewTime   prometheus.Observer
	claimFails  prometheus.Counter
	reportFails prometheus.Counter
	renewFails  prometheus.Counter
	wakes       [int(runner.WakeDue) + 1]prometheus.Counter
}

// What a claim brought.
const (
	claimFull = iota
	claimPartial
	claimEmpty
	claimError
	claimResults
)

func (c *collector) newRunner(queue string) *runnerChildren {
	seconds, fails := c.histograms[nameStoreSeconds], c.counters[nameStoreErrors]
	r := &runnerChildren{
		label:       queue,
		claimJobs:   c.histograms[nameClaimJobs].WithLabelValues(queue),
		reportJobs:  c.histograms[nameReportJobs].WithLabelValues(queue),
		busy:        c.counters[nameReportBusy].WithLabelValues(queue),
		renewed:     c.counters[nameRenewals].WithLabelValues(queue, "renewed"),
		refused:     c.counters[nameRenewals].WithLabelValues(queue, "refused"),
		locked:      c.counters[nameRenewals].WithLabelValues(queue, "locked"),
		claimTime:   seconds.WithLabelValues(queue, "claim"),
		reportTime:  seconds.WithLabelValues(queue, "report"),
		renewTime:   seconds.WithLabelValues(queue, "renew"),
		claimFails:  fails.WithLabelValues(queue, "claim"),
		reportFails: fails.WithLabelValues(queue, "report"),
		renewFails:  fails.WithLabelValues(queue, "renew"),
	}
	for i, result := range []string{claimFull: "full", claimPartial: "partial", claimEmpty: "empty", claimError: "error"} {
		r.claims[i] = c.counters[nameClaims].WithLabelValues(queue, result)
	}
	for source, name := range map[runner.WakeSource]string{runner.WakeHint: "hint", runner.WakePoll: "poll", runner.WakeDue: "due"} {
		r.wakes[source] = c.counters[nameWakes].WithLabelValues(queue, name)
	}
	return r
}

// reaperChildren are the metrics of one target of a reaper.
type reaperChildren struct {
	requeued, dead, superseded, cancelled prometheus.Counter
	fails                                 map[string]prometheus.Counter // by operation
	otherFails                            prometheus.Counter
}

func (c *collector) newReaper(queue string) *reaperChildren {
	reaped, fails := c.counters[nameReaped], c.counters[nameStoreErrors]
	r := &reaperChildren{
		requeued:   reaped.WithLabelValues(queue, "requeued"),
		dead:       reaped.WithLabelValues(queue, "dead"),
		superseded: reaped.WithLabelValues(queue, "superseded"),
		cancelled:  reaped.WithLabelValues(queue, "cancelled"),
		otherFails: fails.WithLabelValues(queue, other),
		fails:      map[string]prometheus.Counter{},
	}
	for _, operation := range []string{"recover", "ping", "maintain"} {
		r.fails[operation] = fails.WithLabelValues(queue, operation)
	}
	return r
}

// hintChildren are the metrics of one queue's hints, sent and received.
type hintChildren struct {
	received, coalesced, sent, held, trailed, failed prometheus.Counter
}

func (c *collector) newHints(queue string) *hintChildren {
	return &hintChildren{
		received:  c.counters[nameHintsReceived].WithLabelValues(queue),
		coalesced: c.counters[nameHintsCoalesced].WithLabelValues(queue),
		sent:      c.counters[nameHintsSent].WithLabelValues(queue),
		held:      c.counters[nameHintsHeld].WithLabelValues(queue),
		trailed:   c.counters[nameHintsTrailed].WithLabelValues(queue),
		failed:    c.counters[nameHintErrors].WithLabelValues(queue),
	}
}
