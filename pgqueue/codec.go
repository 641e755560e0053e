package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Codec turns what is stored about jobs into other bytes and back: it encrypts, compresses, or both happens with two of
// them. Package codec has the usual ones; [WithCodec] says what goes through them.
//
// A codec is used by many goroutines at once. It must not change plain or encoded, nor keep them. A panic of it becomes an
// error. Calls that may wait, for a key service say, should end with ctx: one that takes longer than ten seconds or than ctx is
// given up, and left to itself in a goroutine. A codec that never waits should say so, see [LocalCodec].
type Codec interface {
	// Name is the word for it that is stored beside everything it has encoded: 1 to 32 of a-z, 0-9, dot, dash and
	// underscore. It must never mean anything else; another format needs another name.
	Name() string
	// Encode returns plain in its stored form, and the name of the key that it used: at most 128 printable characters of ASCII, but
	// no space, quote or backslash; empty where there are no keys. One codec of a client may have keys. Encoded
	// as nil means that the codec has nothing to do with this value, such as one that is too short to be compressed.
	Encode(ctx context.Context, plain []byte, about CodecContext) (encoded []byte, key string, err error)
	// Decode returns what Encode was given. It refuses what is larger than about.MaxSize, if it can be that, and returns
	// an error that is [ErrUnknownKey] where it has no such key, and [ErrAltered] where a cipher finds that the value is not what was
	// encoded. Any other error means that the codec failed; its words are logged at debug level, and stored nowhere. While its key service is away it may return [Snooze] or [Pause],
	// so that jobs wait and do not die of it.
	Decode(ctx context.Context, encoded []byte, key string, about CodecContext) (plain []byte, err error)
}

// LocalCodec is a [Codec] that works in memory and never waits. It is called directly; any other one in a goroutine that is
// watched, which costs a microsecond.
type LocalCodec interface {
	Codec
	// Local does nothing.
	Local()
}

// Fingerprinter may be implemented by a [Codec] whose values must not be recognized: a key that is made from a job's
// arguments, to find equal ones, is a hash, and of arguments that can be guessed a plain hash gives them away.
type Fingerprinter interface {
	// Fingerprint returns 32 bytes that depend on plain and on a secret, and are the same in every process.
	Fingerprint(plain []byte) []byte
}

// CodecField is a kind of value that goes through a [Codec].
type CodecField string

// What goes through a codec.
const (
	FieldPayload  CodecField = "payload"  // of jobs, in history, and of schedules
	FieldResult   CodecField = "result"   // of jobs that succeeded
	FieldError    CodecField = "error"    // the message of an attempt that failed; its code stays readable
	FieldProgress CodecField = "progress" // of running jobs
)

// CodecContext says what a value is. Whoever encrypts should have the cipher check all of it but MaxSize, so that a value
// which somebody copied elsewhere inside the database does not decode there. What it does not tell is the job: its number is
// not known when the payload is encoded. Two values of one field and kind can therefore be exchanged unnoticed by somebody who
// may write to the tables.
type CodecContext struct {
	Schema string // that holds the tables
	Kind   string // of the job
	Field  CodecField
	// MaxSize is how large a decoded value may be, in bytes: [WithMaxPayload] of the client, 32 MiB for an [Inspector].
	MaxSize int
}

var (
	// ErrUnknownKey means that a value was encoded with a key that this process does not have.
	ErrUnknownKey = errors.New("the key is not known here")
	// ErrNoCodec means that a value was encoded by a codec that this process does not have; see [WithCodec].
	ErrNoCodec = errors.New("there is no such codec here")
	// ErrNotEncoded means that a value is stored as plaintext, and the client is strict, see [WithStrictCodec].
	ErrNotEncoded = errors.New("the value is not encoded")
	// ErrAltered means that a codec which checks values found this one wanting.
	ErrAltered = errors.New("it was changed, belongs elsewhere, or was encoded with another key of that name")
	// ErrTooLarge means that a value is larger when decoded than it may be.
	ErrTooLarge = errors.New("the decoded value is too large")

	errMalformed   = errors.New("the stored form is malformed")
	errNoJSON      = errors.New("what was decoded is no JSON")
	errCodecStuck  = errors.New("the codec does not answer")
	errCodecPanics = errors.New("the codec panicked")
)

// CodecError is returned for a value that could not be encoded, or not be decoded. Of an attempt that fails because of it the code
// is [runner.CodeUndecodable].
type CodecError struct {
	Decoding bool // else encoding
	Field    CodecField
	Kind     string
	Codec    string // name of the codec; empty where it did not come to one
	Key      string // name of the key that the value was encoded with; empty while encoding
	cause    error
}

// Error names the codec and the key, and says what the codec says.
func (e *CodecError) Error() string { return e.text(e.cause.Error()) }

// Unwrap gives the reason: one of the errors of this package, or the codec's own.
func (e *CodecError) Unwrap() error { return e.cause }

// Reason is Error for places that may be read by everybody: without the words of a codec, which might quote what it was
// given.
func (e *CodecError) Reason() string { return e.text(e.why()) }

// why is the reason alone.
func (e *CodecError) why() string {
	for _, known := range []error{
		ErrUnknownKey, ErrNoCodec, ErrNotEncoded, ErrAltered, ErrTooLarge, errMalformed, errNoJSON, errCodecStuck, errCodecPanics,
		context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(e.cause, known) {
			return known.Error()
		}
	}
	return "the codec failed"
}

func (e *CodecError) text(reason string) string {
	var b strings.Builder
	if e.Decoding {
		b.WriteString("decode the ")
	} else {
		b.WriteString("encode the ")
	}
	b.WriteString(string(e.Field))
	if e.Kind != "" {
		fmt.Fprintf(&b, " of kind %q", e.Kind)
	}
	if e.Codec != "" {
		fmt.Fprintf(&b, " with %s", e.Codec)
	}
	if e.Key != "" {
		fmt.Fprintf(&b, ", key %q", e.Key)
	}
	b.WriteString(": ")
	b.WriteString(reason)
	return b.String()
}

// WithCodec has payloads, results, progress and the messages of failed attempts stored in encoded form: encrypted, compressed, or
// whatever codecs do. They are applied in the order given, and undone in the opposite order, so compression comes first:
//
//	keys, err := codec.AESGCM(codec.Key{ID: "2026-10", Secret: secret})
//	client, err := pgqueue.NewClient(pool, pgqueue.WithCodec(codec.Gzip(4096), keys))
//
// Handlers, middleware, [Client.Get] and results see plaintext; so does an [Inspector] that was given the same codecs. Not encoded are the
// kind, queue, key, revision, tags, metadata, times, numbers, sizes, and the codes of failures. docs/encryption.md has what that
// protects from, and how keys are changed.
//
// What is stored is an object with one member, {"$pgqueue": {"codec": ["gzip", "aes256gcm"], "key": "2026-10", "data": "…"}}. Anything
// else is read as plaintext, so codecs can be introduced while jobs are pending, and jobs can be enqueued from SQL; see
// [WithStrictCodec]. A payload, result or progress with a member $pgqueue of its own is refused, with a codec or without.
// A worker without the codec fails the attempt, with code [runner.CodeUndecodable], instead of running it without arguments.
//
// [WithMaxPayload] bounds both forms. An enqueue whose payload cannot be encoded returns a [*CodecError] and sends no SQL. A message
// that cannot be encoded is left out. With a codec, what [WorkerConfig].StoreErrorText stores is stored encoded, and neither
// logged nor told to observers.
func WithCodec(codecs ...Codec) ClientOption {
	return func(s *clientSettings) { s.codecs = append(s.codecs, codecs...) }
}

// WithStrictCodec refuses payloads and results that the last codec of [WithCodec], the one that encrypts, has not encoded:
// attempts at such jobs fail with code [runner.CodeUndecodable]. It is for when every producer has the codec. Otherwise somebody who
// may write to the table of jobs, and has no key, can have any arguments run by enqueueing them as plaintext.
func WithStrictCodec() ClientOption {
	return func(s *clientSettings) { s.strictCodec = true }
}
