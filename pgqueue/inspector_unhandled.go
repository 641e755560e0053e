package pgqueue

import (
	"context"
	"fmt"
)

// UnhandledKinds gives, for those of the queues where jobs are due that no live worker has a handler for, one kind of these jobs:
// somebody forgot to deploy, or renamed it. Only the first 100 due jobs of each priority are looked at. Kinds that are paused are no such
// case. Of a queue that no live worker serves at all it names one, too.
func (i *Inspector) UnhandledKinds(ctx context.Context, queues ...string) (map[string]string, error) {
	if err := runsOn(i.q); err != nil {
		return nil, fmt.Errorf("look for kinds without a handler: %w", err)
	}
	for n, queue := range queues {
		if err := checkName(fmt.Sprintf("queues[%d]", n), queue); err != nil {
			return nil, fmt.Errorf("look for kinds without a handler: %w", err)
		}
	}
	if len(queues) == 0 {
		return map[string]string{}, nil
	}
	unknown, err := i.store.UnknownKinds(ctx, i.q, queues, []string{})
	return unknown, explained(err)
}
