// Package codec has the usual [pgqueue.Codec]s: AES-256-GCM with a ring of keys, and gzip. Both come from the standard library.
//
//	keys, err := codec.AESGCM(
//		codec.Key{ID: "2026-10", Secret: current}, // encrypts
//		codec.Key{ID: "2026-01", Secret: former},  // only decrypts
//	)
//	client, err := pgqueue.NewClient(pool, pgqueue.WithCodec(codec.Gzip(4096), keys))
//
// The order matters: what is encrypted cannot be compressed any more. docs/encryption.md says what encryption protects from and what
// it leaves readable, and how keys are changed.
//
// The package works on bytes. Where they are stored, in which form, and what else goes through a codec is told in package pgqueue.
package codec
