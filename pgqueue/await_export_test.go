package pgqueue

import "time"

// WithAwaitPoll sets how far apart two looks at an awaited job are.
func WithAwaitPoll(slowest time.Duration) ClientOption {
	return func(s *clientSettings) { s.awaitPoll = slowest }
}
