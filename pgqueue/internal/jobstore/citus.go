package jobstore

import (
	"fmt"
	"strings"
)

// UseCitus makes the store send its statements in forms that Citus can plan, for tables that migrations/citus has distributed by
// queue. It is called once, before anything is sent.
//
// Citus sends a statement to one shard if it compares the queue with a parameter. All hot statements do. The few that ask about
// several queues at once do not, so here they are sent once for each queue.
func (s *Store) UseCitus() error {
	found, err := loadStatements(s.schema)
	if err != nil {
		return fmt.Errorf("jobstore: %w", err)
	}
	for name, text := range map[string]*string{
		"citus_enqueue_one_hint": &s.produce.enqueueOneHint,
		"citus_queues":           &s.sql.queues,
	} {
		if *text, err = found.get(name); err != nil {
			return fmt.Errorf("jobstore: %w", err)
		}
	}
	for _, text := range []*string{&s.sql.probe, &s.sql.lapsed, &s.sql.stats, &s.sql.unknownKinds} {
		*text = aboutOneQueue(*text)
	}
	s.sql.apart = true
	return nil
}

// aboutOneQueue makes of a statement about the queues in $1 one about the first of them. Citus does not see through a join that the
// queue is a parameter, so each comparison has to say it.
func aboutOneQueue(sql string) string {
	const queue = "($1::text[])[1]"
	return strings.NewReplacer(
		"unnest($1::text[]) WITH ORDINALITY AS u(queue, ord)", "(SELECT "+queue+" AS queue, 1::bigint AS ord) AS u",
		"unnest($1::text[]) AS u(queue)", "(SELECT "+queue+" AS queue) AS u",
		"BETWEEN u.queue AND u.queue", "= "+queue,
		"= u.queue", "= "+queue,
		"= b.queue", "= "+queue,
	).Replace(sql)
}

// eachQueue are the names in groups that one statement may ask about: all of them, or one in each group where the store is on Citus.
func (c *consumerStatements) eachQueue(names []string) [][]string {
	if !c.apart {
		return [][]string{names}
	}
	groups := make([][]string, len(names))
	for i := range names {
		groups[i] = names[i : i+1]
	}
	return groups
}
