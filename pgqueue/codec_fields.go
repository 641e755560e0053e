package pgqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// messageLeftOut stands where the message of an attempt could not be encoded. It is better to have none than to have it readable.
const messageLeftOut = "(the message could not be encoded and was left out)"

// sealInput encodes the payload of a job that was validated. Everything that is made from the arguments, such as keys, is made before.
func (c *Client) sealInput(ctx context.Context, in *jobstore.Input) error {
	if c.codecs == nil {
		return nil
	}
	sealed, err := c.encodeField(ctx, FieldPayload, in.Kind, in.Payload)
	if err != nil {
		return err
	}
	in.Payload = sealed
	return nil
}

// encodeField encodes JSON that was validated against WithMaxPayload, as it is stored. The error is a [*CodecError], or a
// [*ValidationError] where the encoded form is too large.
func (c *Client) encodeField(ctx context.Context, field CodecField, kind string, text json.RawMessage) (json.RawMessage, error) {
	return c.codecs.sealJSON(ctx, field, kind, text)
}

// decodeField decodes stored JSON for somebody who goes by it: a handler, or who waits for a result. Plaintext passes, unless the
// client is strict.
func (c *Client) decodeField(ctx context.Context, field CodecField, kind string, stored json.RawMessage) (json.RawMessage, error) {
	if c.codecs == nil && !isEnvelope(stored) {
		return stored, nil
	}
	return c.codecs.open(ctx, field, kind, stored, c.codecs != nil && c.codecs.strict)
}

// sealJSON is encodeField.
func (c *codecs) sealJSON(ctx context.Context, field CodecField, kind string, text json.RawMessage) (json.RawMessage, error) {
	if c == nil {
		return text, nil
	}
	sealed, err := c.seal(ctx, field, kind, text)
	if err != nil {
		return nil, err
	}
	if len(sealed) > c.maxSize {
		return nil, invalid(string(field), fmt.Sprintf("is too large when it is encoded: %d bytes where %d are allowed", len(sealed), c.maxSize))
	}
	return sealed, nil
}

// openPayload decodes the arguments of an attempt.
func (c *codecs) openPayload(ctx context.Context, row *jobstore.Row) (json.RawMessage, error) {
	if c == nil && !isEnvelope(row.Payload) {
		return row.Payload, nil
	}
	plain, err := c.open(ctx, FieldPayload, row.Kind, row.Payload, c != nil && c.strict)
	if err != nil {
		c.logWords(ctx, err)
		return row.Payload, undecodable(row, err)
	}
	return plain, nil
}

// undecodable gives an error of a codec its code, and a text that is safe to store. What the codec itself says is for errors.As; it may
// say what is to become of the job, too: snooze, while its key service is away.
func undecodable(row *jobstore.Row, err error) error {
	reason := "cannot be decoded"
	var failed *CodecError
	if errors.As(err, &failed) {
		reason = failed.Reason()
	}
	return runner.Coded(runner.CodeUndecodable, runner.Safe(&reasoned{text: row.String() + ": " + reason, cause: err}))
}

// logWords logs what a codec says of its failure where people are told no more than that it failed. It is for debugging, because it
// might quote what the codec was given.
func (c *codecs) logWords(ctx context.Context, err error) {
	var failed *CodecError
	if c == nil || !errors.As(err, &failed) || !c.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	if words := wordsOf(failed.cause); words != failed.why() {
		c.logger.DebugContext(ctx, "pgqueue: text of an error of a codec", "codec", failed.Codec, "kind", failed.Kind, "field", string(failed.Field),
			"error", words)
	}
}

// wordsOf calls Error, which is the codec's code and may panic.
func wordsOf(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("(%T, whose Error method panicked)", err)
		}
	}()
	return err.Error()
}

// reasoned is an error with a text that quotes nothing.
type reasoned struct {
	text  string
	cause error
}

func (e *reasoned) Error() string { return e.text }
func (e *reasoned) Unwrap() error { return e.cause }

// sealMessage encodes the message of a failed attempt. A verdict must not fail because of it.
func (c *codecs) sealMessage(ctx context.Context, kind, message string) string {
	if message == "" {
		return ""
	}
	sealed, err := c.seal(ctx, FieldError, kind, []byte(message))
	if err == nil {
		return string(sealed)
	}
	c.logWords(ctx, err)
	reason := "unknown"
	var failed *CodecError
	if errors.As(err, &failed) {
		reason = failed.Reason()
	}
	c.logger.WarnContext(ctx, "pgqueue: the message of a failed attempt could not be encoded and is left out", "kind", kind, "reason", reason)
	return messageLeftOut
}

// messageSealer is what a queue is given to encode messages with; nil: nothing.
func (c *codecs) messageSealer() func(ctx context.Context, kind, message string) string {
	if c == nil {
		return nil
	}
	return c.sealMessage
}

// Sealed is a stored value that cannot be read here, as such: it is encoded, and there is no codec for it, or no key, or it was
// tampered with.
type Sealed struct {
	Codecs []string // names of the codecs, in the order in which they were applied, as far as they are known
	Key    string   // name of the key; empty: none, or not known
	Size   int      // bytes of the stored form
	Reason string   // why it cannot be read
}

// String describes it for people, such as "encoded by gzip and aes256gcm, key 2026-10, 312 bytes: there is no such codec here".
func (s Sealed) String() string {
	var b strings.Builder
	b.WriteString("encoded")
	if len(s.Codecs) > 0 {
		b.WriteString(" by " + strings.Join(s.Codecs, " and "))
	}
	if s.Key != "" {
		b.WriteString(", key " + s.Key)
	}
	fmt.Fprintf(&b, ", %d bytes: %s", s.Size, s.Reason)
	return b.String()
}

// show decodes a stored value for people. What cannot be read is shown as such, and never an error. It is nil where plain is the
// value, whole.
func (c *codecs) show(ctx context.Context, field CodecField, kind, stored string) (plain []byte, sealed *Sealed) {
	return c.showStrictly(ctx, field, kind, stored, false)
}

// showStrictly is show, which may also want a value to be encoded.
func (c *codecs) showStrictly(ctx context.Context, field CodecField, kind, stored string, strict bool) (plain []byte, sealed *Sealed) {
	if !isEnvelope(stored) && !strict {
		return []byte(stored), nil
	}
	plain, err := c.open(ctx, field, kind, []byte(stored), strict)
	if err == nil {
		return plain, nil
	}
	reason := "it cannot be decoded"
	var failed *CodecError
	if errors.As(err, &failed) {
		reason = failed.why()
	}
	c.logWords(ctx, err)
	return []byte(stored), sealedOf(stored, len(stored), reason)
}

// sealedOf describes an envelope, of which only the beginning may be at hand.
func sealedOf(stored string, size int, reason string) *Sealed {
	sealed := &Sealed{Size: size, Reason: reason}
	sealed.Codecs, sealed.Key = envelopeHead(stored)
	return sealed
}

// showMessage decodes the message of a failed attempt and cuts it to limit bytes; 0: not at all.
func (c *codecs) showMessage(ctx context.Context, kind, stored string, limit int) string {
	if !isEnvelope(stored) {
		return cutText(stored, limit)
	}
	plain, sealed := c.show(ctx, FieldError, kind, stored)
	if sealed != nil {
		return "(" + sealed.String() + ")"
	}
	return cutText(strings.ToValidUTF8(string(plain), "\uFFFD"), limit)
}

// cutText cuts to limit bytes, and no character in two; 0: not at all.
func cutText(text string, limit int) string {
	if limit == 0 || len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// fingerprint is a hash of plain that only who has the codec's secret can make; nil where no codec offers one.
func (c *codecs) fingerprint(plain []byte) []byte {
	if c == nil {
		return nil
	}
	for _, codec := range c.list {
		if by, ok := codec.(Fingerprinter); ok {
			return by.Fingerprint(plain)
		}
	}
	return nil
}
