package pgqueue

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// EncodePayload encodes the payload of a job of a kind as this client stores it: for what writes to the tables beside it, or keeps
// payloads in tables of its own. Without codecs it is the payload itself. The error is a [*ValidationError] for what could
// not be enqueued, or a [*CodecError].
func (c *Client) EncodePayload(ctx context.Context, kind string, payload json.RawMessage) (json.RawMessage, error) {
	text, refused := rawJSON("payload", payload, c.maxPayload)
	if refused == nil {
		refused = reserved("payload", text)
	}
	if refused != nil {
		return nil, fmt.Errorf("encode a payload: %w", refused)
	}
	stored, err := c.encodeField(ctx, FieldPayload, kind, text)
	if err != nil {
		return nil, fmt.Errorf("encode a payload: %w", err)
	}
	return stored, nil
}

// DecodePayload is what [Client.EncodePayload] was given; plaintext it returns as it is, unless the client is strict. The error is a
// [*CodecError].
func (c *Client) DecodePayload(ctx context.Context, kind string, stored json.RawMessage) (json.RawMessage, error) {
	plain, err := c.decodeField(ctx, FieldPayload, kind, stored)
	if err != nil {
		return nil, fmt.Errorf("decode a payload: %w", err)
	}
	return plain, nil
}

// Fingerprint is a hash of text by which equal ones can be found again: 32 bytes of the codec that is a [Fingerprinter], if the client
// has one, and SHA-256 otherwise. Only the former may be stored where the text must not be guessed.
func (c *Client) Fingerprint(text []byte) []byte {
	if sum := c.codecs.fingerprint(text); sum != nil {
		return sum
	}
	sum := sha256.Sum256(text)
	return sum[:]
}
