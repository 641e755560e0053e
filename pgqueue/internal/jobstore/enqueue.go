package jobstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Querier is what an enqueue runs on: the caller's transaction, a pool or a connection.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// Input is one job to be written, already validated: what stands here is what Postgres accepts.
type Input struct {
	Queue, Kind       string
	Key, Revision     *string // nil = none
	Payload, Metadata json.RawMessage
	Tags              []string
	Priority          int16
	RunAt             *time.Time    // nil = now, on the database's clock
	Delay             time.Duration // added to it
	MaxAttempts       int16
	Unique            *Unique // nil = no rule
}

// Placed says where an input ended up. Outcome is "inserted", "replaced", "same" or "duplicate".
type Placed struct {
	ID      int64
	Outcome string
	State   *string // of the job, if Outcome is "duplicate" and it is live
}

// outcomeInserted is the one outcome that Go tells by itself; the others are the statement's words.
const outcomeInserted = "inserted"

// producerStatements are the texts that producers send, each described in enqueue.sql.
type producerStatements struct {
	enqueue        string
	enqueueOne     string
	enqueueOneHint string
	hint           string
	now            string
	enqueueUnique  string
	releaseKey     string
}

// load looks every statement up by name and puts in the literal that names the sequence of ids. The literal is made
// here, because a schema's name may hold both kinds of quotes.
func (p *producerStatements) load(schema string, found statements) error {
	for name, text := range map[string]*string{
		"enqueue":          &p.enqueue,
		"enqueue_one":      &p.enqueueOne,
		"enqueue_one_hint": &p.enqueueOneHint,
		"hint":             &p.hint,
		"now":              &p.now,
		"enqueue_unique":   &p.enqueueUnique,
		"release_key":      &p.releaseKey,
	} {
		var err error
		if *text, err = found.get(name); err != nil {
			return err
		}
	}
	sequence := quoteLiteral(pgx.Identifier{schema, "jobs_id_seq"}.Sanitize())
	p.enqueue = strings.ReplaceAll(p.enqueue, "{sequence}", sequence)
	return nil
}

// Enqueue writes inputs in one round trip and answers by position. hint is asked once per queue whether its NOTIFY may
// be sent with this transaction; nil means no hints. Statements of several queues travel in one batch, queues in sorted
// order, so that two overlapping calls lock in the same order.
func (s *Store) Enqueue(ctx context.Context, q Querier, inputs []Input, hint func(queue string) bool) ([]Placed, error) {
	switch {
	case len(inputs) == 0:
		return []Placed{}, nil
	case len(inputs) == 1 && inputs[0].Key == nil && inputs[0].Unique == nil:
		return s.enqueueOne(ctx, q, &inputs[0], hint)
	}

	groups, queues := groupByQueue(inputs)
	placed := make([]Placed, len(inputs))
	if len(queues) == 1 {
		group := groups[queues[0]]
		sql, arguments := s.statement(queues[0], group, inputs, s.channelFor(queues[0], hint))
		rows, err := q.Query(ctx, sql, arguments...)
		if err != nil {
			return nil, fmt.Errorf("enqueue: %w", err)
		}
		if err := group.read(rows, placed); err != nil {
			return nil, fmt.Errorf("enqueue: %w", err)
		}
		return placed, nil
	}

	batch := &pgx.Batch{}
	for _, queue := range queues {
		sql, arguments := s.statement(queue, groups[queue], inputs, s.channelFor(queue, hint))
		batch.Queue(sql, arguments...)
	}
	results := q.SendBatch(ctx, batch)
	for _, queue := range queues {
		rows, err := results.Query()
		if err == nil {
			err = groups[queue].read(rows, placed)
		}
		if err != nil {
			_ = results.Close() // the first error is the one that says why
			return nil, fmt.Errorf("enqueue: %w", err)
		}
	}
	if err := results.Close(); err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	return placed, nil
}

// Hint sends one NOTIFY for each of queues, outside any transaction of the caller's.
func (s *Store) Hint(ctx context.Context, q Querier, queues []string) error {
	rows, err := q.Query(ctx, s.produce.hint, s.channel, queues)
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	if err != nil {
		return fmt.Errorf("hint: %w", err)
	}
	return nil
}

// channelFor is the channel to hint on, or nil when the queue's hint is held back.
func (s *Store) channelFor(queue string, hint func(string) bool) *string {
	if hint == nil || !hint(queue) {
		return nil
	}
	return &s.channel
}

// enqueueOne is the common case, one job without a key.
func (s *Store) enqueueOne(ctx context.Context, q Querier, in *Input, hint func(string) bool) ([]Placed, error) {
	arguments := []any{
		in.Queue, in.Kind, string(in.Payload), objectText(in.Metadata), tagList(in.Tags), in.Priority,
		in.RunAt, delayMicroseconds(in.Delay), in.MaxAttempts,
	}
	statement := s.produce.enqueueOne
	var id int64
	into := []any{&id}
	if channel := s.channelFor(in.Queue, hint); channel != nil {
		statement = s.produce.enqueueOneHint
		arguments = append(arguments, *channel)
		into = append(into, new(string))
	}
	rows, err := q.Query(ctx, statement, arguments...)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, fmt.Errorf("enqueue: %w", err)
		}
		found = true
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	if !found {
		return nil, fmt.Errorf("enqueue: the INSERT returned no id (a rule or trigger on jobs?)")
	}
	return []Placed{{ID: id, Outcome: outcomeInserted}}, nil
}

// group is the inputs of one queue, as the arrays of one statement.
type group struct {
	positions   []int // of each element in the caller's inputs
	unique      bool  // one of them has a rule
	kinds       []string
	keys        []*string // pgx writes a nil pointer as NULL
	revisions   []*string
	payloads    []string // text: as bytes they would be sent as bytea in the simple protocol
	metadata    []string
	tags        []string
	priorities  []int16
	runAts      []*time.Time
	delays      []*int64
	maxAttempts []int16
}

// groupByQueue splits inputs by queue and returns the queues' names in sorted order.
func groupByQueue(inputs []Input) (map[string]*group, []string) {
	counts := map[string]int{}
	for i := range inputs {
		counts[inputs[i].Queue]++
	}
	groups := make(map[string]*group, len(counts))
	queues := make([]string, 0, len(counts))
	for queue, n := range counts {
		groups[queue] = newGroup(n)
		queues = append(queues, queue)
	}
	slices.Sort(queues)
	for i := range inputs {
		groups[inputs[i].Queue].add(i, &inputs[i])
	}
	return groups, queues
}

func newGroup(n int) *group {
	return &group{
		positions: make([]int, 0, n), kinds: make([]string, 0, n), keys: make([]*string, 0, n),
		revisions: make([]*string, 0, n), payloads: make([]string, 0, n), metadata: make([]string, 0, n),
		tags: make([]string, 0, n), priorities: make([]int16, 0, n), runAts: make([]*time.Time, 0, n),
		delays: make([]*int64, 0, n), maxAttempts: make([]int16, 0, n),
	}
}

func (g *group) add(position int, in *Input) {
	g.positions = append(g.positions, position)
	g.kinds = append(g.kinds, in.Kind)
	g.keys = append(g.keys, in.Key)
	g.revisions = append(g.revisions, in.Revision)
	g.payloads = append(g.payloads, string(in.Payload))
	g.metadata = append(g.metadata, objectText(in.Metadata))
	g.tags = append(g.tags, arrayLiteral(in.Tags))
	g.priorities = append(g.priorities, in.Priority)
	g.runAts = append(g.runAts, in.RunAt)
	g.delays = append(g.delays, delayMicroseconds(in.Delay))
	g.maxAttempts = append(g.maxAttempts, in.MaxAttempts)
	g.unique = g.unique || in.Unique != nil
}

// arguments are the parameters of the statement enqueue, $1 to $12.
func (g *group) arguments(queue string, channel *string) []any {
	return []any{
		queue, g.kinds, g.keys, g.revisions, g.payloads, g.metadata, g.tags, g.priorities, g.runAts, g.delays,
		g.maxAttempts, channel,
	}
}

// read puts the answer's rows where their inputs stood. It closes rows.
func (g *group) read(rows pgx.Rows, placed []Placed) error {
	defer rows.Close()
	var (
		ord, hints int64
		one        Placed
		count      int
	)
	into := []any{&ord, &one.ID, &one.Outcome, &hints}
	if g.unique {
		into = append(into, &one.State)
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if ord < 1 || ord > int64(len(g.positions)) {
			return fmt.Errorf("an answer for input %d of %d", ord, len(g.positions))
		}
		placed[g.positions[ord-1]] = one
		count++
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if count != len(g.positions) {
		return fmt.Errorf("%d answers for %d inputs", count, len(g.positions))
	}
	return nil
}

// objectText is JSON as text; none is the empty object.
func objectText(value json.RawMessage) string {
	if len(value) == 0 {
		return "{}"
	}
	return string(value)
}

// tagList is never nil: a nil slice would be NULL.
func tagList(tags []string) []string {
	if tags == nil {
		return []string{}
	}
	return tags
}

// delayMicroseconds is the delay as Postgres takes it; none is NULL.
func delayMicroseconds(delay time.Duration) *int64 {
	if delay == 0 {
		return nil
	}
	us := delay.Microseconds()
	return &us
}

// arrayLiteral writes values as the text of a Postgres array. Arrays of arrays must be rectangular, so the tags of many
// jobs travel as one literal each.
func arrayLiteral(values []string) string {
	if len(values) == 0 {
		return "{}"
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, value := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		for j := range len(value) {
			if value[j] == '"' || value[j] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(value[j])
		}
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}
