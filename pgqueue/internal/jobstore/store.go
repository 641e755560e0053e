package jobstore

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Store holds the statements of one schema. It has no pool and no state: what runs a statement is passed to it. It is
// safe for concurrent use.
type Store struct {
	schema  string
	channel string
	sql     consumerStatements
	produce producerStatements
	inspect inspectStatements
	edits   editStatements
	single  singleStatements
	audit   auditStatements
}

// New reads the statements for the tables in schema. channel is the NOTIFY channel on which producers hint.
func New(schema, channel string) (*Store, error) {
	found, err := loadStatements(schema)
	if err != nil {
		return nil, fmt.Errorf("jobstore: %w", err)
	}
	store := &Store{schema: schema, channel: channel}
	if err := store.sql.load(schema, found); err != nil {
		return nil, fmt.Errorf("jobstore: %w", err)
	}
	if err := store.produce.load(schema, found); err != nil {
		return nil, fmt.Errorf("jobstore: %w", err)
	}
	if err := store.inspect.load(schema, found); err != nil {
		return nil, fmt.Errorf("jobstore: %w", err)
	}
	if err := store.single.load(found); err != nil {
		return nil, fmt.Errorf("jobstore: %w", err)
	}
	if err := store.edits.load(found); err != nil {
		return nil, fmt.Errorf("jobstore: %w", err)
	}
	if err := store.audit.load(schema, found); err != nil {
		return nil, fmt.Errorf("jobstore: %w", err)
	}
	return store, nil
}

// consumerStatements are the texts that consumers send, each described in its .sql file.
type consumerStatements struct {
	apart           bool // statements about several queues are sent once for each; see UseCitus
	claim           string
	complete        string
	completeForget  string
	completeAt      string
	forgetAt        string
	finish          string
	putBack         string
	look            string
	renew           string
	reap            string
	reapFrom        string
	lapsed          string
	revive          string
	probe           string
	settle          string
	makePartition   string
	cancel          string
	retry           string
	setHistory      string
	setMaxAttempts  string
	pause           string
	resume          string
	read            string
	stats           string
	queues          string
	byIndex         string
	ensureHistory   string
	dropHistory     string
	withoutHistory  string
	expireAttention string
	expireKeys      string
	heartbeat       string
	goodbye         string
	peers           string
	unknownKinds    string
	startCheck      string
	holdOne         string
}

// load looks every statement up by name and puts in the literal with which the names of partitions begin.
func (c *consumerStatements) load(schema string, found statements) error {
	for name, text := range map[string]*string{
		"claim":              &c.claim,
		"complete":           &c.complete,
		"complete_forget":    &c.completeForget,
		"complete_at":        &c.completeAt,
		"complete_forget_at": &c.forgetAt,
		"finish":             &c.finish,
		"put_back":           &c.putBack,
		"look":               &c.look,
		"renew":              &c.renew,
		"reap":               &c.reap,
		"reap_from":          &c.reapFrom,
		"lapsed":             &c.lapsed,
		"revive":             &c.revive,
		"probe":              &c.probe,
		"settle":             &c.settle,
		"make_partition":     &c.makePartition,
		"cancel":             &c.cancel,
		"retry":              &c.retry,
		"set_history":        &c.setHistory,
		"set_max_attempts":   &c.setMaxAttempts,
		"pause":              &c.pause,
		"resume":             &c.resume,
		"read":               &c.read,
		"stats":              &c.stats,
		"queues":             &c.queues,
		"by_index":           &c.byIndex,
		"ensure_history":     &c.ensureHistory,
		"drop_history":       &c.dropHistory,
		"without_history":    &c.withoutHistory,
		"expire_attention":   &c.expireAttention,
		"expire_unique_keys": &c.expireKeys,
		"heartbeat":          &c.heartbeat,
		"goodbye":            &c.goodbye,
		"peers":              &c.peers,
		"unknown_kinds":      &c.unknownKinds,
		"start_check":        &c.startCheck,
		"hold_one":           &c.holdOne,
	} {
		var err error
		if *text, err = found.get(name); err != nil {
			return err
		}
	}
	c.settle = strings.ReplaceAll(c.settle, "{history_day}", quoteLiteral(pgx.Identifier{schema}.Sanitize()+".history_"))
	return nil
}

// quoteLiteral writes a string literal that means the same whether standard_conforming_strings is on or off. A schema's name
// may hold both kinds of quotes.
func quoteLiteral(text string) string {
	literal := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(literal, `\`) {
		literal = "E" + strings.ReplaceAll(literal, `\`, `\\`)
	}
	return literal
}
