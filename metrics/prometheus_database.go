package metrics

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// MaxDatabaseQueues bounds the queues that have a label of their own in the gauges of the database, beside those that the process
// is configured with.
const MaxDatabaseQueues = 200

// numbers is what Run has read last. It is never changed once it is visible.
type numbers struct {
	since      time.Time // of this Run: age of the numbers as long as there are none
	staleAfter time.Duration

	read   bool      // all below has been read
	at     time.Time // when the numbers were true, on this clock
	queues map[string]queueNumbers

	usageAt time.Time // zero: not read
	usage   float64
}

// queueNumbers is what the database holds of one queue.
type queueNumbers struct {
	ready                                               [4]int64
	oldest                                              float64
	scheduled, retrying, running, expired, failed, dead int64
	capped, paused                                      bool
}

// Run reads the gauges of the database from [PrometheusConfig].Pool, now and every Interval, until ctx ends; then they are gone from
// the scrape. It returns nil when ctx ends, and at once an error where there is no pool. Where another Run of the same metrics
// is under way, it waits for its turn: there is one reader a process.
//
// It calls the function cached_stats of the schema, which counts at most once an Interval for all processes that call it; the
// others get the numbers that are there. No number is counted beyond 10,000. A reading that fails or takes too long is counted
// in pgqueue_stats_errors_total, and the numbers before stay, with their true age in pgqueue_stats_age_seconds, until they are
// older than StaleAfter; then they are gone rather than wrong.
//
// The queues are named as the database has them, the first [MaxDatabaseQueues] in the order of their bytes; the rest is added up as
// "other". That depends on nothing but the database, so every process shows the same, and max combines them. What this process
// is configured with is named in any case, and where there are more queues than names it is in "other" as well.
func (p *Prometheus) Run(ctx context.Context) error {
	if p.config.Pool == nil {
		return fmt.Errorf("read the numbers of the database: %w", invalid("Pool", "must not be nil"))
	}
	select {
	case <-p.c.turn:
	case <-ctx.Done():
		return nil
	}
	defer func() {
		p.c.numbers.Store(nil)
		p.c.turn <- struct{}{}
	}()
	current := numbers{since: time.Now(), staleAfter: p.config.StaleAfter}
	p.c.numbers.Store(&current)
	failing := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		next := *p.c.numbers.Load()
		err := p.read(ctx, &next)
		if ctx.Err() != nil {
			return nil
		}
		p.note(err, &failing)
		p.c.numbers.Store(&next)
		// A little apart, so that processes that started together do not ask together for ever.
		timer.Reset(time.Duration(float64(p.config.Interval) * (0.9 + 0.2*rand.Float64())))
	}
}

// note counts a reading, and logs where it changes whether that works.
func (p *Prometheus) note(err error, failing *bool) {
	if err == nil {
		p.c.statsReads.Inc()
	} else {
		p.c.statsErrors.Inc()
	}
	switch {
	case err != nil && !*failing:
		p.config.Logger.Warn("metrics: the numbers of the database cannot be read", "schema", p.config.Schema, "error", err)
	case err == nil && *failing:
		p.config.Logger.Info("metrics: the numbers of the database can be read again", "schema", p.config.Schema)
	}
	*failing = err != nil
}

// read fills in next. What was read before an error counts.
//
// It is a short transaction because the timeout has to hold for its statements alone, also behind a pooler in transaction
// mode. READ COMMITTED, because cached_stats shares what it counts only there; and cached_stats comes last, because the
// others get the numbers before as long as this transaction is open.
func (p *Prometheus) read(ctx context.Context, next *numbers) (err error) {
	// The server gives up by itself. If even that answer does not come, the connection is of no use any more.
	ctx, cancel := context.WithTimeout(ctx, p.config.Timeout+time.Second)
	defer cancel()
	return pgx.BeginTxFunc(ctx, p.config.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if err := p.readUsage(ctx, tx, next); err != nil {
			return err
		}
		paused, err := p.readPaused(ctx, tx)
		if err != nil {
			return err
		}
		queues, age, err := p.readQueues(ctx, tx)
		if err != nil {
			return err
		}
		for name := range paused {
			q := queues[name]
			q.paused = true
			queues[name] = q
		}
		next.read, next.at, next.queues = true, time.Now().Add(-age), queues
		return nil
	})
}

// readUsage sets the timeout for the transaction, and asks for what needs no table in the same round trip.
func (p *Prometheus) readUsage(ctx context.Context, tx pgx.Tx, next *numbers) error {
	timeout := fmt.Sprintf("%dms", max(1, p.config.Timeout.Milliseconds()))
	err := tx.QueryRow(ctx, "SELECT pg_catalog.pg_notification_queue_usage() FROM pg_catalog.set_config('statement_timeout', $1, true)",
		timeout).Scan(&next.usage)
	if err != nil {
		return fmt.Errorf("read the usage of the notification queue: %w", err)
	}
	next.usageAt = time.Now()
	return nil
}

// readPaused reads the paused queues. There is a row for a queue only where somebody set something.
func (p *Prometheus) readPaused(ctx context.Context, tx pgx.Tx) (map[string]bool, error) {
	rows, err := tx.Query(ctx, "SELECT name FROM "+p.table("queues")+" WHERE paused_at IS NOT NULL ORDER BY name LIMIT 1000")
	if err != nil {
		return nil, fmt.Errorf("read the paused queues: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read the paused queues: %w", err)
	}
	paused := map[string]bool{}
	for _, name := range names {
		paused[name] = true
	}
	return paused, nil
}

// readQueues reads the numbers of all queues, and how old they are. Both times are the database's, so its clock may be wrong.
func (p *Prometheus) readQueues(ctx context.Context, tx pgx.Tx) (map[string]queueNumbers, time.Duration, error) {
	rows, err := tx.Query(ctx, `SELECT queue, ready1, ready2, ready3, ready4, coalesce(oldest_ready_seconds, 0), scheduled, retrying, running,
       expired, failed, dead, capped, date_part('epoch', clock_timestamp()) - date_part('epoch', taken_at)
FROM `+p.table("cached_stats")+`(pg_catalog.make_interval(secs => $1::float8))`, p.config.Interval.Seconds())
	if err != nil {
		return nil, 0, fmt.Errorf("call cached_stats: %w", err)
	}
	defer rows.Close()
	queues := map[string]queueNumbers{}
	age := 0.0
	for rows.Next() {
		var name string
		var q queueNumbers
		if err := rows.Scan(&name, &q.ready[0], &q.ready[1], &q.ready[2], &q.ready[3], &q.oldest, &q.scheduled, &q.retrying, &q.running,
			&q.expired, &q.failed, &q.dead, &q.capped, &age); err != nil {
			return nil, 0, fmt.Errorf("read an answer of cached_stats: %w", err)
		}
		queues[name] = q
	}
	if err := rows.Err(); err != nil {
		return nil, 0, fmt.Errorf("call cached_stats: %w", err)
	}
	return queues, time.Duration(max(0, age) * float64(time.Second)), nil
}

func (p *Prometheus) table(name string) string {
	return pgx.Identifier{p.config.Schema, name}.Sanitize()
}

// collectNumbers sends the gauges of the database.
func (c *collector) collectNumbers(metrics chan<- prometheus.Metric) {
	n := c.numbers.Load()
	if n == nil {
		return
	}
	since := n.since
	if n.read {
		since = n.at
	}
	age := time.Since(since)
	c.send(metrics, nameStatsAge, seconds(age))
	if !n.usageAt.IsZero() && time.Since(n.usageAt) <= n.staleAfter {
		c.send(metrics, nameNotifyUsage, n.usage)
	}
	if !n.read || age > n.staleAfter {
		return
	}
	for label, q := range c.byLabel(n.queues) {
		for i, ready := range q.ready {
			c.send(metrics, nameReady, float64(ready), label, string(rune('1'+i)))
		}
		c.send(metrics, nameOldest, q.oldest, label)
		c.send(metrics, nameScheduled, float64(q.scheduled), label)
		c.send(metrics, nameRetrying, float64(q.retrying), label)
		c.send(metrics, nameRunning, float64(q.running), label)
		c.send(metrics, nameExpired, float64(q.expired), label)
		c.send(metrics, nameFailed, float64(q.failed), label)
		c.send(metrics, nameDead, float64(q.dead), label)
		c.send(metrics, namePaused, oneIf(q.paused), label)
		c.send(metrics, nameCapped, oneIf(q.capped), label)
	}
}

// byLabel names the queues, adds up those beyond the bound, and shows those that are configured although nothing is in them. Which
// queues "other" holds must not depend on what this process knows: the numbers of several processes are combined by max, and
// what one names and another folds would be counted twice.
func (c *collector) byLabel(queues map[string]queueNumbers) map[string]queueNumbers {
	labelled := map[string]queueNumbers{}
	for _, name := range c.labels.knownQueues() {
		if name != other {
			labelled[name] = queues[name] // nothing, where the database has none
		}
	}
	for i, name := range slices.Sorted(maps.Keys(queues)) {
		if i < MaxDatabaseQueues && name != other && utf8.ValidString(name) {
			labelled[name] = queues[name]
		} else {
			labelled[other] = labelled[other].plus(queues[name])
		}
	}
	return labelled
}

// plus adds up numbers; the oldest job is that of both, and one paused or cut queue is enough to say so.
func (q queueNumbers) plus(more queueNumbers) queueNumbers {
	for i := range q.ready {
		q.ready[i] += more.ready[i]
	}
	q.oldest = max(q.oldest, more.oldest)
	q.scheduled += more.scheduled
	q.retrying += more.retrying
	q.running += more.running
	q.expired += more.expired
	q.failed += more.failed
	q.dead += more.dead
	q.capped = q.capped || more.capped
	q.paused = q.paused || more.paused
	return q
}
