package pgqueue

import (
	"context"
	"fmt"
)

// History says what a queue keeps of its successes. What failed is always kept in full, because somebody has to look at
// it and may retry it.
type History string

const (
	// HistoryFull keeps the whole job. It is the default.
	HistoryFull History = "full"
	// HistorySlim keeps everything but the payload, which large payloads would pay for twice.
	HistorySlim History = "slim"
	// HistoryOff keeps nothing: completion is a DELETE.
	HistoryOff History = "off"
)

// SetHistory sets what queue keeps of its successes. It takes effect for a worker with its next claim. A queue needs no
// setting to be used; see [HistoryFull].
func (c *Client) SetHistory(ctx context.Context, q Querier, queue string, history History) error {
	if err := checkName("queue", queue); err != nil {
		return fmt.Errorf("set history: %w", err)
	}
	if isNil(q) {
		return fmt.Errorf("set history: %w", invalid("q", "must not be nil"))
	}
	switch history {
	case HistoryFull, HistorySlim, HistoryOff:
	default:
		return fmt.Errorf("set history: %w", invalid("history", fmt.Sprintf("must be full, slim or off, is %q", history)))
	}
	return c.store.SetHistory(ctx, q, queue, string(history))
}
