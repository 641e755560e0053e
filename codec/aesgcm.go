package codec

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/pgqueue/pgqueue/pgqueue"
)

const (
	// KeySize is the length of a [Key]'s Secret in bytes.
	KeySize = 32

	maxKeyID = 64

	// overhead is a nonce of 12 bytes in front and a tag of 16 behind.
	overhead = 12 + 16
)

// Key is one key of a ring.
type Key struct {
	// ID is stored beside each value that was encrypted with the key, in the clear: 1 to 64 letters, digits, dots, dashes and
	// underscores, such as "2026-10". It must never name another key.
	ID string
	// Secret is 32 random bytes, of crypto/rand or a key service. What somebody has thought up is no key.
	Secret []byte
	// Fingerprint marks the key from which fingerprints are made, see [pgqueue.Fingerprinter]; without any mark it is the first. A key that
	// is marked has to stay in the ring, or jobs that are unique by their arguments are not found any more when it goes.
	Fingerprint bool
}

// KeyError is returned for a key that cannot be used.
type KeyError struct {
	Position int // in the ring; -1: the ring itself
	Message  string
}

// Error says which key, and what is wrong with it. It quotes no secret.
func (e *KeyError) Error() string {
	if e.Position < 0 {
		return "key ring: " + e.Message
	}
	return fmt.Sprintf("key ring: key %d: %s", e.Position, e.Message)
}

// UnknownKeyError is returned for a value whose key is not in the ring. It is [pgqueue.ErrUnknownKey].
type UnknownKeyError struct{ ID string }

// Error names the key.
func (e *UnknownKeyError) Error() string { return fmt.Sprintf("key %q is not in the ring", e.ID) }

// Is makes it [pgqueue.ErrUnknownKey].
func (e *UnknownKeyError) Is(target error) bool { return target == pgqueue.ErrUnknownKey }

// AES is the codec of [AESGCM]. The zero value has no key: it encrypts nothing and says so.
type AES struct {
	first       string
	keys        map[string]cipher.AEAD
	fingerprint []byte
}

var (
	_ pgqueue.LocalCodec    = (*AES)(nil)
	_ pgqueue.Fingerprinter = (*AES)(nil)
)

// AESGCM is a codec that encrypts with AES-256-GCM. The first key encrypts, all of them decrypt. A value is a random nonce of 12
// bytes, the ciphertext, and a tag of 16 bytes, which also covers the schema, kind and field of the value and the name of the key: in
// another place, or changed by one bit, it does not decrypt.
//
// Change the first key in time. With random nonces one key is good for 2^32 values in all processes together, by NIST SP 800-38D,
// section 8.3; a payload, a result, a message of a failure and each report of progress is one. That is a thousand a second for 49 days.
//
// What is wrong with the keys is a [*KeyError]: also a Secret that is all zeros, or that another key of the ring has. The secrets may be wiped after the call.
func AESGCM(ring ...Key) (*AES, error) {
	if len(ring) == 0 {
		return nil, &KeyError{Position: -1, Message: "must have a key"}
	}
	codec := &AES{first: ring[0].ID, keys: make(map[string]cipher.AEAD, len(ring))}
	fingerprints := -1
	for i, key := range ring {
		switch {
		case !validKeyID(key.ID):
			return nil, &KeyError{i, fmt.Sprintf("its ID must be 1 to %d letters, digits, dots, dashes and underscores", maxKeyID)}
		case codec.keys[key.ID] != nil:
			return nil, &KeyError{i, fmt.Sprintf("is the second one with the ID %q", key.ID)}
		case len(key.Secret) != KeySize:
			return nil, &KeyError{i, fmt.Sprintf("its Secret must have %d bytes, has %d", KeySize, len(key.Secret))}
		case bytes.Equal(key.Secret, make([]byte, KeySize)):
			return nil, &KeyError{i, "its Secret is all zeros: it was not filled"}
		case key.Fingerprint && fingerprints >= 0:
			return nil, &KeyError{i, "is the second one that fingerprints are made from"}
		}
		for before := range i {
			if bytes.Equal(key.Secret, ring[before].Secret) {
				return nil, &KeyError{i, fmt.Sprintf("has the Secret of key %d: another ID takes another key", before)}
			}
		}
		block, err := aes.NewCipher(key.Secret)
		if err != nil {
			return nil, &KeyError{i, err.Error()}
		}
		if codec.keys[key.ID], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, &KeyError{i, err.Error()}
		}
		if key.Fingerprint {
			fingerprints = i
		}
	}
	secret := ring[max(fingerprints, 0)].Secret
	subkey, err := hkdf.Key(sha256.New, secret, nil, "pgqueue codec aes256gcm fingerprint", sha256.Size)
	if err != nil {
		return nil, &KeyError{max(fingerprints, 0), err.Error()}
	}
	codec.fingerprint = subkey
	return codec, nil
}

// Name implements [pgqueue.Codec].
func (*AES) Name() string { return "aes256gcm" }

// Local implements [pgqueue.LocalCodec].
func (*AES) Local() {}

// Encode implements [pgqueue.Codec].
func (c *AES) Encode(_ context.Context, plain []byte, about pgqueue.CodecContext) ([]byte, string, error) {
	if len(c.keys) == 0 {
		return nil, "", &KeyError{Position: -1, Message: "has no key: make the codec with AESGCM"}
	}
	out := make([]byte, 0, len(plain)+overhead)
	return c.keys[c.first].Seal(out, nil, plain, associated(about, c.first)), c.first, nil
}

// Decode implements [pgqueue.Codec].
func (c *AES) Decode(_ context.Context, encoded []byte, key string, about pgqueue.CodecContext) ([]byte, error) {
	aead, ok := c.keys[key]
	if !ok {
		return nil, &UnknownKeyError{ID: key}
	}
	if len(encoded) < overhead {
		return nil, fmt.Errorf("aes256gcm: %d bytes are too few: %w", len(encoded), pgqueue.ErrAltered)
	}
	plain, err := aead.Open(make([]byte, 0, len(encoded)-overhead), nil, encoded, associated(about, key))
	if err != nil {
		return nil, fmt.Errorf("aes256gcm: %w: %w", pgqueue.ErrAltered, err) // which says nothing but that it failed
	}
	return plain, nil
}

// Fingerprint implements [pgqueue.Fingerprinter]: HMAC-SHA-256 with a key that HKDF makes from the ring's. Whoever has no key can tell
// that two of them are equal, and not of what.
func (c *AES) Fingerprint(plain []byte) []byte {
	mac := hmac.New(sha256.New, c.fingerprint)
	mac.Write(plain) // never fails, by its contract
	return mac.Sum(nil)
}

// associated is what the tag covers beside the value: each text with its length in front, so that no two places look alike.
func associated(about pgqueue.CodecContext, key string) []byte {
	texts := [...]string{"pgqueue/1", about.Schema, about.Kind, string(about.Field), key}
	size := 0
	for _, text := range texts {
		size += 4 + len(text)
	}
	out := make([]byte, 0, size)
	for _, text := range texts {
		out = binary.BigEndian.AppendUint32(out, uint32(len(text)))
		out = append(out, text...)
	}
	return out
}

func validKeyID(id string) bool {
	if id == "" || len(id) > maxKeyID {
		return false
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
