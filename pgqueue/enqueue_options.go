package pgqueue

import (
	"encoding/json"
	"time"
)

// Priorities that have a name; 2 and 3 lie between them. Four claims in a row prefer priority 1, the fifth prefers the
// others, so fresh work goes first and catch-up work never starves.
const (
	PriorityFresh   = 1 // the default: somebody is waiting for it
	PriorityCatchUp = 4 // backfills and other work that should not delay fresh work
)

// Defaults and bounds of what an enqueue may say.
const (
	DefaultQueue       = "default"
	DefaultMaxAttempts = 3

	maxNameBytes   = 128 // of a queue or a kind
	maxKeyBytes    = 512 // of a key or a revision
	maxTags        = 100
	maxTagBytes    = 255
	maxMaxAttempts = 32_767
	maxDelay       = 100 * 365 * 24 * time.Hour
)

// EnqueueOption says something about one job; see [Client.Enqueue]. Of two that say the same the later one wins.
type EnqueueOption func(*enqueueSettings)

// enqueueSettings is what the options of one job add up to, not yet validated.
type enqueueSettings struct {
	queue       string
	key         *string
	revision    *string
	due             // of the call
	ofType      due // which counts if the call says nothing
	rules           // of the call
	rulesOfType rules
	priority    int
	tags        []string
	metadata    any
	members     []metadataMember // over metadata
	maxAttempts int
}

// due is when a job is due, in either way.
type due struct {
	runAt *time.Time
	delay *time.Duration
}

// OnQueue puts the job on a queue; the default is [DefaultQueue]. A queue needs no set-up. At most 128 bytes.
func OnQueue(queue string) EnqueueOption {
	return func(s *enqueueSettings) { s.queue = queue }
}

// WithKey gives the job a stable key: of one queue, kind and key at most one job is live (pending or running). Enqueueing
// a key that is live replaces the input of the pending job, or makes a running one run once more with the new input; at
// least one run starts after your transaction has committed. A pending job keeps the earlier of both due times, so that a
// replacement never loses its place in line, and a delay does not push it back. With a revision, see [WithRevision], equal input is
// recognised. At most 512 bytes, not empty: build no key from an id that may be missing. A binary key, such as a hash, is
// given in hex.
func WithKey(key string) EnqueueOption {
	return func(s *enqueueSettings) { s.key = &key }
}

// WithRevision names the input of a keyed job, by a version number or a content hash, so that it is run once per
// revision: enqueueing the revision that is live already changes nothing and returns [Same]. It needs [WithKey]. At
// most 512 bytes, not empty.
func WithRevision(revision string) EnqueueOption {
	return func(s *enqueueSettings) { s.revision = &revision }
}

// WithRunAt makes the job due at a time. The zero time means now, on the database's clock, as without this option; a
// past time means now as well, ahead of what became due later. Years 1 to 9999.
func WithRunAt(at time.Time) EnqueueOption {
	return func(s *enqueueSettings) { s.runAt = &at }
}

// WithDelay makes the job due after a delay from now, on the database's clock, which is safer than [WithRunAt] where
// clocks differ. Zero means now; at most a hundred years. It excludes WithRunAt.
func WithDelay(delay time.Duration) EnqueueOption {
	return func(s *enqueueSettings) { s.delay = &delay }
}

// WithPriority sets the priority, from 1, which goes first, to 4. The default is [PriorityFresh].
func WithPriority(priority int) EnqueueOption {
	return func(s *enqueueSettings) { s.priority = priority }
}

// WithTags labels the job, for people and for queries. It replaces tags given before. At most 100 of at most 255 bytes,
// none empty.
func WithTags(tags ...string) EnqueueOption {
	return func(s *enqueueSettings) { s.tags = tags }
}

// WithMetadata attaches a JSON object of the caller's own, such as a tenant or a request id: anything that
// encoding/json writes as an object, or a [json.RawMessage] that holds one. nil means none. It replaces metadata given
// before, but for single members of [AddMetadata]. It is bounded like a payload, see [WithMaxPayload].
func WithMetadata(metadata any) EnqueueOption {
	return func(s *enqueueSettings) { s.metadata = metadata }
}

// WithMaxAttempts says how many attempts may fail before the job is dead, from 1 to 32,767. The default is
// [DefaultMaxAttempts].
func WithMaxAttempts(n int) EnqueueOption {
	return func(s *enqueueSettings) { s.maxAttempts = n }
}

// collectSettings applies the options of the type and then those of the call. A due time of the call replaces that of the
// type, whichever way either is given, and so does a rule such as WithUnique.
func collectSettings(args Args, options []EnqueueOption) enqueueSettings {
	s := enqueueSettings{queue: DefaultQueue, priority: PriorityFresh, maxAttempts: DefaultMaxAttempts}
	if defaults, ok := args.(DefaultOptions); ok {
		s.apply(defaults.EnqueueOptions())
	}
	s.ofType, s.due = s.due, due{}
	s.rulesOfType, s.rules = s.rules, rules{}
	s.apply(options)
	return s
}

func (s *enqueueSettings) apply(options []EnqueueOption) {
	for _, option := range options {
		if option != nil {
			option(s)
		}
	}
}

// noMetadata tells whether there is nothing to encode.
func (s *enqueueSettings) noMetadata() bool {
	raw, ok := s.metadata.(json.RawMessage)
	return s.metadata == nil || ok && len(raw) == 0
}
