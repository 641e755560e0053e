package metrics

import "github.com/prometheus/client_golang/prometheus"

// The names of the labels beside schema. queue and kind are bounded by [labels]; all others have a fixed set of values.
const (
	labelSchema    = "schema"
	labelQueue     = "queue"
	labelKind      = "kind"
	labelOutcome   = "outcome"
	labelResult    = "result"
	labelReason    = "reason"
	labelOperation = "operation"
	labelSource    = "source"
	labelPriority  = "priority"
	labelLoop      = "loop"
)

// reservedLabels may not be constant labels. le and quantile are Prometheus' own.
func reservedLabels() []string {
	return []string{labelSchema, labelQueue, labelKind, labelOutcome, labelResult, labelReason, labelOperation, labelSource,
		labelPriority, labelLoop, "le", "quantile"}
}

// definition is one metric. The collector makes all of them from here, and docs/metrics.md is checked against it.
type definition struct {
	name   string
	kind   string // "counter", "gauge", "histogram"
	help   string
	labels []string // beside schema and the caller's constant ones
}

// counted is a counter.
func counted(name, help string, labels ...string) definition {
	return definition{name, "counter", help, labels}
}

// gauge is read at the scrape.
func gauge(name, help string, labels ...string) definition {
	return definition{name, "gauge", help, labels}
}

// histogram has the buckets of its name.
func histogram(name, help string, labels ...string) definition {
	return definition{name, "histogram", help, labels}
}

// The names, where the code needs them.
const (
	nameAttempts  = "pgqueue_attempts_total"
	nameDuration  = "pgqueue_attempt_duration_seconds"
	namePickup    = "pgqueue_pickup_latency_seconds"
	nameVerdicts  = "pgqueue_verdicts_total"
	nameWentStuck = "pgqueue_handlers_went_stuck_total"
	nameLeases    = "pgqueue_leases_lost_total"

	nameClaims       = "pgqueue_claims_total"
	nameClaimJobs    = "pgqueue_claim_jobs"
	nameReportJobs   = "pgqueue_report_verdicts"
	nameReportBusy   = "pgqueue_report_busy_total"
	nameRenewals     = "pgqueue_lease_renewals_total"
	nameWakes        = "pgqueue_wakes_total"
	nameStoreSeconds = "pgqueue_store_duration_seconds"
	nameStoreErrors  = "pgqueue_store_errors_total"
	nameReaped       = "pgqueue_reaped_total"

	nameHintsReceived  = "pgqueue_hints_received_total"
	nameHintsCoalesced = "pgqueue_hints_coalesced_total"
	nameHintsSent      = "pgqueue_hints_sent_total"
	nameHintsHeld      = "pgqueue_hints_suppressed_total"
	nameHintsTrailed   = "pgqueue_hints_trailing_total"
	nameHintErrors     = "pgqueue_hint_errors_total"
	nameConnects       = "pgqueue_listener_connects_total"
	nameDisconnects    = "pgqueue_listener_disconnects_total"
	nameWentDeaf       = "pgqueue_listener_went_deaf_total"

	nameWorkers      = "pgqueue_workers"
	nameInFlight     = "pgqueue_handlers_in_flight"
	nameJobsInFlight = "pgqueue_jobs_in_flight"
	nameStuck        = "pgqueue_handlers_stuck"
	nameBuffered     = "pgqueue_jobs_buffered"
	nameUnreported   = "pgqueue_verdicts_unreported"
	nameClaimsPaused = "pgqueue_claims_paused"
	nameLastSuccess  = "pgqueue_last_success_timestamp_seconds"
	nameTrying       = "pgqueue_loop_trying_seconds"
	nameBound        = "pgqueue_handlers_limit"
	nameListener     = "pgqueue_listener_connected"
	nameListenerDeaf = "pgqueue_listener_deaf"
	nameReaperOutage = "pgqueue_reaper_outage"

	nameReady       = "pgqueue_ready_jobs"
	nameOldest      = "pgqueue_oldest_ready_seconds"
	nameScheduled   = "pgqueue_scheduled_jobs"
	nameRetrying    = "pgqueue_retrying_jobs"
	nameRunning     = "pgqueue_running_jobs"
	nameExpired     = "pgqueue_expired_jobs"
	nameFailed      = "pgqueue_failed_jobs"
	nameDead        = "pgqueue_dead_jobs"
	namePaused      = "pgqueue_queue_paused"
	nameCapped      = "pgqueue_stats_capped"
	nameStatsAge    = "pgqueue_stats_age_seconds"
	nameStatsReads  = "pgqueue_stats_reads_total"
	nameStatsErrors = "pgqueue_stats_errors_total"
	nameNotifyUsage = "pgqueue_notify_queue_usage_ratio"
)

// definitions are all metrics, in the order of the documentation.
func definitions() []definition {
	return append(append(attemptDefinitions(), storeDefinitions()...), append(statusDefinitions(), databaseDefinitions()...)...)
}

func attemptDefinitions() []definition {
	return []definition{
		counted(nameAttempts, "Runs of handlers that have ended, each once, by how.", labelQueue, labelKind, labelOutcome),
		histogram(nameDuration, "How long runs of handlers took. Its count is the sum of pgqueue_attempts_total.", labelQueue, labelKind),
		histogram(namePickup, "From when a job was due to the start of its handler.", labelQueue, labelKind),
		counted(nameVerdicts, "What became of claimed jobs; lost means that a completion was discarded because the lease had gone.", labelQueue, labelKind, labelOutcome),
		counted(nameWentStuck, "Handlers that outlived their deadline and their clean-up time.", labelQueue, labelKind),
		counted(nameLeases, "Leases lost while the job was held, because the renewal was refused or not answered in time.", labelQueue, labelKind, labelReason),
	}
}

func storeDefinitions() []definition {
	return []definition{
		counted(nameClaims, "Claims by what they brought: full, partial, empty, or error.", labelQueue, labelResult),
		histogram(nameClaimJobs, "Jobs per claim, without the empty ones.", labelQueue),
		histogram(nameReportJobs, "Verdicts per report.", labelQueue),
		counted(nameReportBusy, "Verdicts that had to be sent again because somebody had locked the row.", labelQueue),
		counted(nameRenewals, "Answers to lease renewals: renewed, refused (the lease is lost), or locked.", labelQueue, labelResult),
		histogram(nameStoreSeconds, "How long calls of the store took, failed ones included.", labelQueue, labelOperation),
		counted(nameStoreErrors, "Calls of the store that failed.", labelQueue, labelOperation),
		counted(nameWakes, "What made an idle runner claim: a hint, its poll because no hint came, or a job that became due.", labelQueue, labelSource),
		counted(nameReaped, "Jobs whose lease had run out and that this process returned or ended, by what became of them.", labelQueue, labelOutcome),
		counted(nameHintsReceived, "Hints that the listener heard.", labelQueue),
		counted(nameHintsCoalesced, "Hints that led to no claim of their own, because they were merged into an earlier one.", labelQueue),
		counted(nameHintsSent, "Hints that enqueues gave to Postgres, which drops repeated ones in a transaction, and all of one that is rolled back.", labelQueue),
		counted(nameHintsHeld, "Hints that were held back by the hint window; a trailing one follows.", labelQueue),
		counted(nameHintsTrailed, "Trailing hints that were sent for those held back.", labelQueue),
		counted(nameHintErrors, "Trailing hints that could not be sent; polling finds the jobs.", labelQueue),
		counted(nameConnects, "Times that LISTEN came into force on a new connection."),
		counted(nameDisconnects, "Connections of the listener that were lost."),
		counted(nameWentDeaf, "Times that an echo was sent and did not arrive although the connection stood."),
	}
}

func statusDefinitions() []definition {
	return []definition{
		gauge(nameWorkers, "Watched workers of this process that run."),
		gauge(nameInFlight, "Handlers running now, stuck ones included; a batch is one. Aliases count with their kind.", labelQueue, labelKind),
		gauge(nameBound, "How many handlers of a kind may run at once here.", labelQueue, labelKind),
		gauge(nameJobsInFlight, "Jobs that running handlers were given.", labelQueue),
		gauge(nameStuck, "Handlers that have outlived their deadline and their clean-up time and still hold a slot.", labelQueue),
		gauge(nameBuffered, "Jobs that are claimed and wait for a slot.", labelQueue),
		gauge(nameUnreported, "Verdicts that are not written yet.", labelQueue),
		gauge(nameClaimsPaused, "1 while this process claims nothing because a handler, or somebody for the queue, said so.", labelQueue),
		gauge(nameLastSuccess, "When a job last succeeded here. Absent if none has.", labelQueue),
		gauge(nameTrying, "For how long a loop has made no progress, because its calls fail or hang; 0 if it does. Loops of the whole worker have no queue.", labelQueue, labelLoop),
		gauge(nameListener, "1 if every listener of this process hears hints on a standing connection, as its echo proves. Absent without one."),
		gauge(nameListenerDeaf, "1 if a listener's echo did not arrive: queues live by their poll. Absent without one."),
		gauge(nameReaperOutage, "1 while expired leases of a queue are not taken by this process, because the database failed a moment ago.", labelQueue),
	}
}

func databaseDefinitions() []definition {
	return []definition{
		gauge(nameReady, "Jobs that are due and wait for a worker.", labelQueue, labelPriority),
		gauge(nameOldest, "How long the first ready job has been due: the lag of the queue.", labelQueue),
		gauge(nameScheduled, "Jobs that are due later and have not failed since they were enqueued.", labelQueue),
		gauge(nameRetrying, "Jobs that are due later because an attempt failed.", labelQueue),
		gauge(nameRunning, "Claimed jobs.", labelQueue),
		gauge(nameExpired, "Claimed jobs whose lease has run out and that no reaper has returned yet.", labelQueue),
		gauge(nameFailed, "Jobs in history that ended because trying again was pointless.", labelQueue),
		gauge(nameDead, "Jobs in history that ended because their budget was spent.", labelQueue),
		gauge(namePaused, "1 if the queue is paused for all workers.", labelQueue),
		gauge(nameCapped, "1 if a number of the queue is a lower bound: counting stops at 10,000.", labelQueue),
		gauge(nameStatsAge, "Age of the numbers of the database, or of the attempts to read them if none was ever read."),
		counted(nameStatsReads, "Readings of the numbers of the database that succeeded."),
		counted(nameStatsErrors, "Readings of the numbers of the database that failed."),
		gauge(nameNotifyUsage, "How full the server's queue of notifications is, from 0 to 1. At 1 every commit with a hint fails."),
	}
}

// constantLabels are on every metric.
func (c *PrometheusConfig) constantLabels() prometheus.Labels {
	all := prometheus.Labels{labelSchema: c.Schema}
	for name, value := range c.ConstLabels {
		all[name] = value
	}
	return all
}
