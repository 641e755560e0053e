package console

import (
	"context"
	"errors"
)

// The causes with which the context of a request ends, besides that the browser has left.
var (
	errTooSlow = errors.New("the request took too long")
	errClosed  = errors.New("the console is closed")
)

// Close ends what the console does in the background: bulk actions stop behind the batch at hand, and what they leave can be gone on
// with. Where ctx ends first, the batches at hand are given up, which leaves them undone, and the error is ctx's. Then whatever
// requests are still asking the database is cancelled, and new ones are answered with 503. Close is to be called when the server
// has stopped, and may be called again.
func (c *Console) Close(ctx context.Context) error {
	err := c.operations.close(ctx)
	c.stop(errClosed)
	return errors.Join(err, c.client.Close(ctx)) // which sends the hints of jobs that were enqueued a moment ago
}
