package pgqueue

import (
	"slices"
	"time"
)

// rules are the options of which a job may have one: when an enqueue is one too many. See docs/unique.md for which does what.
type rules struct {
	idempotency *idempotencyRule
	unique      *Unique
	throttle    *time.Duration
	debounce    *debounceRule
}

type idempotencyRule struct {
	key  string
	keep time.Duration
}

type debounceRule struct {
	delay, longest time.Duration
}

// WithIdempotencyKey makes the enqueue happen once for a key: of one queue, kind and key, for keep from the first enqueue, and
// whatever becomes of its job: also when it has succeeded, has failed, or was deleted. A later enqueue changes nothing and answers
// [Duplicate] with the number of the first job. It is for whatever may ask twice: a request with an Idempotency-Key, a webhook,
// a message that is delivered again.
//
// It is decided in the caller's transaction. While the first one is still open, a second one with the key waits for it: after a
// rollback it inserts, after a commit it is the duplicate. In REPEATABLE READ and SERIALIZABLE a key that was taken since the
// snapshot is 40001. Keys are apart from those of [WithKey], and a job may have both: the idempotency key is asked first. An
// [Inspector] can give a key free with ReleaseKey. At most 512 bytes, not empty: build no key from an id that may be missing. keep is from a
// millisecond to a hundred years, in microseconds; the keep of the first enqueue counts.
func WithIdempotencyKey(key string, keep time.Duration) EnqueueOption {
	return func(s *enqueueSettings) { s.idempotency = &idempotencyRule{key: key, keep: keep} }
}

// Unique says which jobs of one queue and kind are the same, and for how long; see [WithUnique]. The zero value: those with the same
// arguments, as long as one of them is live.
//
// Arguments are the same if Postgres stores the same jsonb for them: the order of members plays no part, and nor does how a
// character is escaped or whether a number is written 100 or 1e2. All else does: 1 and "1" differ, 1 and 1.0 do, as do
// 9007199254740992 and 9007199254740993, [1,2] and [2,1], a member that is null and one that is not there. It follows that a new field
// of a type makes all of its arguments new, unless it is left out while it is empty (omitempty, omitzero).
type Unique struct {
	// Args are the members of the payload that count, by name, or by JSON pointer where they are further inside: "user_id",
	// "/user/id", "/items/0". What else the payload holds is not looked at; that of the first job stays. nil: all of it counts.
	// At most 32.
	Args []string
	// IgnoreArgs lets no arguments count: all jobs of the queue and kind are the same.
	IgnoreArgs bool

	// Keep is how long the identity stays taken, counted from the first enqueue, whatever becomes of the job, as with
	// [WithIdempotencyKey]. It excludes Period.
	Keep time.Duration
	// Period is the length of a slot of the database's clock, at the end of which the identity is free again, whatever became of
	// the job. Slots are counted from 1970 in UTC: those of an hour begin at the full hour, those of 24 h at midnight in UTC.
	Period time.Duration
	// With neither, it is taken while its job is pending or running, and free when that has ended in any way, or was deleted.
	// The identity is in the job's key then, so it excludes [WithKey].
}

// WithUnique enqueues the job unless the same one is there; see [Unique] for what is the same. The second enqueue changes nothing and
// answers [Duplicate] with the first job's number and state.
//
// Jobs that are live are compared by arguments alone: one that runs already counts too, though it may have read your data before you
// changed it. Where each change must be followed by a run, use [WithKey] instead. As for waiting, isolation levels and errors
// it is like [WithIdempotencyKey].
func WithUnique(unique Unique) EnqueueOption {
	unique.Args = slices.Clone(unique.Args)
	return func(s *enqueueSettings) { s.unique = &unique }
}

// WithThrottle enqueues at most one job in each slot of period on the database's clock, of one queue and kind, and of one key where
// there is a [WithKey]. The others answer [Duplicate] with the number of the first, and are lost: their input is not looked at. The slot is
// used up by the enqueue, whatever becomes of the job. Slots are counted from 1970 in UTC, so two jobs may be enqueued shortly
// after one another, on both sides of the boundary. Where the latest input must not be lost, use [WithDebounce].
//
// With a key the first enqueue of a slot does what it does without this option: it replaces the input of a job that has not run
// since the last slot.
func WithThrottle(period time.Duration) EnqueueOption {
	return func(s *enqueueSettings) { s.throttle = &period }
}

// WithDebounce waits for a burst of enqueues of one key to end, and then runs once with the latest input: each enqueue makes the job
// due delay from now, but not later than longest after the first enqueue of the burst (whose longest counts). It needs [WithKey], and
// excludes a revision and a due time.
//
// A burst ends when its input is claimed. What comes while the job runs begins a new one: it runs again, delay after the last
// enqueue. So at least one run starts after your commit, as always with a key. A pending job of the key that was enqueued without
// debounce keeps its due time.
//
// The end of the burst is kept in the job's metadata, as pgqueue.debounce_until, in microseconds since 1970. Both times are from a
// millisecond to a hundred years, and longest is not shorter than delay.
func WithDebounce(delay, longest time.Duration) EnqueueOption {
	return func(s *enqueueSettings) { s.debounce = &debounceRule{delay: delay, longest: longest} }
}
