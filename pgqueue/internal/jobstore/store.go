package jobstore

import (
	"fmt"
)

// Store holds the statements of one schema. It has no pool and no state: what runs a statement is passed to it. It is
// safe for concurrent use.
type Store struct {
	schema  string
	channel string
	sql     consumerStatements
	produce producerStatements
}

// New reads the statements for the tables in schema. channel is the NOTIFY channel on which producers hint.
func New(schema, channel string) (*Store, error) {
	found, err := loadStatements(schema)
	if err != nil {
		return nil, fmt.Errorf("jobstore: %w", err)
	}
	store := &Store{schema: schema, channel: channel}
	if err := store.sql.load(found); err != nil {
		return nil, fmt.Errorf("jobstore: %w", err)
	}
	if err := store.produce.load(schema, found); err != nil {
		return nil, fmt.Errorf("jobstore: %w", err)
	}
	return store, nil
}

// consumerStatements are the texts that consumers send, each described in its .sql file.
type consumerStatements struct {
	claim           string
	complete        string
	completeForget  string
	finish          string
	putBack         string
	look            string
	renew           string
	reap            string
	reapFrom        string
	revive          string
	nextDue         string
	settle          string
	cancel          string
	retry           string
	setQueue        string
	ensureHistory   string
	dropHistory     string
	expireAttention string
}

// load looks every statement up by name.
func (c *consumerStatements) load(found statements) error {
	for name, text := range map[string]*string{
		"claim":            &c.claim,
		"complete":         &c.complete,
		"complete_forget":  &c.completeForget,
		"finish":           &c.finish,
		"put_back":         &c.putBack,
		"look":             &c.look,
		"renew":            &c.renew,
		"reap":             &c.reap,
		"reap_from":        &c.reapFrom,
		"revive":           &c.revive,
		"next_due":         &c.nextDue,
		"settle":           &c.settle,
		"cancel":           &c.cancel,
		"retry":            &c.retry,
		"set_queue":        &c.setQueue,
		"ensure_history":   &c.ensureHistory,
		"drop_history":     &c.dropHistory,
		"expire_attention": &c.expireAttention,
	} {
		var err error
		if *text, err = found.get(name); err != nil {
			return err
		}
	}
	return nil
}
