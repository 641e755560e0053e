// Package schedule enqueues jobs by the clock: cron expressions with a time zone each, intervals, single instants.
package schedule
