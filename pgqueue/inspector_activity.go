package pgqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// Bounds of [Inspector.Activity].
const (
	DefaultActivityWindow = 5 * time.Minute
	MaxActivityWindow     = 24 * time.Hour
	// ActivityBuckets is how many parts a series has.
	ActivityBuckets = 30
	// MaxActivityQueues is how many queues are told apart, the busiest first.
	MaxActivityQueues = 1_000
)

// Activity is what has happened lately: which jobs ended between Since and Until, by the database's clock.
type Activity struct {
	Since, Until time.Time
	// More says that the window that was asked for begins before Since: there were so many ends that not all were looked at. Rates and
	// percentiles are those of the time since Since then, and the counts no less true of it.
	More bool
	// Total is of all queues together; its Queue is empty.
	Total QueueActivity
	// Queues are those in which something ended, the busiest first, at most [MaxActivityQueues].
	Queues []QueueActivity
}

// Queue is what happened in a queue; zeros, with an empty series, where nothing did.
func (a *Activity) Queue(name string) QueueActivity {
	for n := range a.Queues {
		if a.Queues[n].Queue == name {
			return a.Queues[n]
		}
	}
	return QueueActivity{Queue: name, Series: series(a.Since, a.Until)}
}

// QueueActivity is what ended in one queue, or in all. An attempt that failed and will be tried again has ended no job, and is not
// counted here: see [QueueStats].Retrying. Neither are the successes of a queue whose History is off: nothing of them is stored.
type QueueActivity struct {
	Queue string

	Succeeded, Failed, Dead, Cancelled int
	// PerSecond is how many jobs ended a second, in whichever way.
	PerSecond float64
	// Wait is how long the last attempt had been due before it was claimed, and Run how long it took from the claim to its outcome.
	Wait, Run Durations
	// Series divides the time from Since to Until into [ActivityBuckets] equal parts, the oldest first.
	Series []ActivityBucket
}

// Ended is how many jobs ended.
func (q QueueActivity) Ended() int { return q.Succeeded + q.Failed + q.Dead + q.Cancelled }

// Durations are the median, the 95th percentile and the longest of some; zero where there were none.
type Durations struct {
	P50, P95, Max time.Duration
}

// ActivityBucket is one part of a series: from At on, as many jobs succeeded or were cancelled (Done), and failed or died (Bad).
type ActivityBucket struct {
	At        time.Time
	Done, Bad int
}

// Activity tells what ended within the last window: 5 minutes if it is 0, at most 24 hours. It is made to be asked every second: whatever the
// tables hold, it reads the last 2 MB of history (5,000 to 15,000 jobs), and up to 10,000 failed and dead jobs. Where that is
// not the whole window, More is set.
func (i *Inspector) Activity(ctx context.Context, window time.Duration) (*Activity, error) {
	if err := runsOn(i.q); err != nil {
		return nil, fmt.Errorf("read activity: %w", err)
	}
	if window == 0 {
		window = DefaultActivityWindow
	}
	if window < time.Second || window > MaxActivityWindow {
		return nil, fmt.Errorf("read activity: %w", invalid("window", fmt.Sprintf("must be from 1 s to %s, is %s", MaxActivityWindow, window)))
	}
	rows, err := i.store.Activity(ctx, i.q, jobstore.ActivityAsk{Window: window, Buckets: ActivityBuckets, Queues: MaxActivityQueues})
	if err != nil {
		return nil, explained(err)
	}
	activity := &Activity{}
	for n := range rows {
		row := &rows[n]
		if row.Total {
			activity.Since, activity.Until, activity.More = row.Since, row.Until, row.More
			activity.Total = queueActivity(row)
			continue
		}
		if len(activity.Queues) < MaxActivityQueues {
			activity.Queues = append(activity.Queues, queueActivity(row))
		}
	}
	return activity, nil
}

func queueActivity(row *jobstore.Activity) QueueActivity {
	activity := QueueActivity{
		Queue: row.Queue, Succeeded: row.Succeeded, Failed: row.Failed, Dead: row.Dead, Cancelled: row.Cancelled,
		Wait: durations(row.Wait, row.LongestWait), Run: durations(row.Run, row.LongestRun), Series: series(row.Since, row.Until),
	}
	if span := row.Until.Sub(row.Since); span > 0 {
		activity.PerSecond = float64(activity.Ended()) / span.Seconds()
	}
	for n, bucket := range row.Buckets {
		if bucket >= 1 && bucket <= len(activity.Series) && n < len(row.Good) && n < len(row.Bad) {
			activity.Series[bucket-1].Done, activity.Series[bucket-1].Bad = row.Good[n], row.Bad[n]
		}
	}
	return activity
}

// series are the empty parts of a time.
func series(since, until time.Time) []ActivityBucket {
	buckets := make([]ActivityBucket, ActivityBuckets)
	for n := range buckets {
		buckets[n].At = since.Add(until.Sub(since) * time.Duration(n) / ActivityBuckets)
	}
	return buckets
}

// durations are percentiles as Postgres gives them, in seconds.
func durations(percentiles []*float64, longest *float64) Durations {
	of := func(n int) *float64 {
		if n < len(percentiles) {
			return percentiles[n]
		}
		return nil
	}
	return Durations{P50: seconds(of(0)), P95: seconds(of(1)), Max: seconds(longest)}
}

// seconds is a duration of so many seconds, as long as one can be.
func seconds(value *float64) time.Duration {
	const most = float64(1<<63-1) / float64(time.Second)
	switch {
	case value == nil || *value != *value || *value <= 0:
		return 0
	case *value >= most:
		return 1<<63 - 1
	default:
		return time.Duration(*value * float64(time.Second))
	}
}
