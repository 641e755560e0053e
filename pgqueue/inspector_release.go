package pgqueue

import (
	"context"
	"errors"
	"fmt"
)

// ReleaseKey frees an idempotency key of [WithIdempotencyKey] before its time: the next enqueue with it makes a new job. The job that
// was enqueued with it stays as it is; its number is returned, and named in the audit log, where there is one. Zero means that the
// key was not taken, or has been deleted since its time passed; nothing was done then.
//
// It needs EXECUTE on release_key; docs/roles.md has the GRANT. The same from SQL: SELECT pgqueue.release_key('default', 'charge', 'order-17').
func (i *Inspector) ReleaseKey(ctx context.Context, queue, kind, key string) (id int64, err error) {
	wrap := func(err error) error { return fmt.Errorf("release key: %w", err) }
	if err := checkControl(i.q, queue); err != nil {
		return 0, wrap(err)
	}
	if err := checkName("kind", kind); err != nil {
		return 0, wrap(err)
	}
	if err := checkText("key", key, maxKeyBytes); err != nil {
		return 0, wrap(err)
	}
	entry := AuditEntry{Action: ActionReleaseKey, Queue: queue, Detail: "key " + key + " of kind " + kind}
	err = i.auditedAs(ctx, &entry, func(q Querier) error {
		job, err := i.store.ReleaseKey(ctx, q, queue, kind, key)
		switch {
		case err != nil:
			return err
		case job == nil:
			return errNothingDone
		}
		id, entry.Jobs = *job, []int64{*job}
		return nil
	})
	switch {
	case errors.Is(err, errNothingDone):
		return 0, nil
	case err != nil:
		return 0, explained(err)
	}
	return id, nil
}
