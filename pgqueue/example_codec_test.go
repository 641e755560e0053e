package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/codec"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// Payloads, results, progress and messages of failures are compressed where that pays, and encrypted.
func ExampleWithCodec() {
	run := func(pool *pgxpool.Pool, current, former []byte) (*pgqueue.Client, error) {
		keys, err := codec.AESGCM(
			codec.Key{ID: "2026-10", Secret: current},                   // encrypts
			codec.Key{ID: "2026-01", Secret: former, Fingerprint: true}, // decrypts what is older
		)
		if err != nil {
			return nil, err
		}
		return pgqueue.NewClient(pool, pgqueue.WithCodec(codec.Gzip(4096), keys), pgqueue.WithStrictCodec())
	}
	_ = run
}

// An inspector shows what it has the key for, and the rest as such.
func ExampleInspectorConfig_codecs() {
	run := func(ctx context.Context, pool *pgxpool.Pool, keys *codec.AES, id int64) error {
		inspector, err := pgqueue.NewInspector(pool, pgqueue.InspectorConfig{Codecs: []pgqueue.Codec{codec.Gzip(0), keys}})
		if err != nil {
			return err
		}
		job, err := inspector.Get(ctx, id)
		if err != nil {
			return err
		}
		if sealed, ok := job.Sealed["payload"]; ok {
			fmt.Println("payload:", sealed) // encoded by gzip and aes256gcm, key 2025-07, 312 bytes: the key is not known here
		} else {
			fmt.Println("payload:", string(job.Payload))
		}
		return nil
	}
	_ = run
}

// rot13 is a codec of one's own, for which no wise man has a use.
type rot13 struct{}

func (rot13) Name() string { return "rot13" }
func (rot13) Local()       {} // it never waits

func (rot13) Encode(_ context.Context, plain []byte, _ pgqueue.CodecContext) ([]byte, string, error) {
	out := make([]byte, len(plain))
	for i, c := range plain {
		switch {
		case c >= 'a' && c <= 'z':
			c = 'a' + (c-'a'+13)%26
		case c >= 'A' && c <= 'Z':
			c = 'A' + (c-'A'+13)%26
		}
		out[i] = c
	}
	return out, "", nil
}

func (r rot13) Decode(ctx context.Context, encoded []byte, _ string, about pgqueue.CodecContext) ([]byte, error) {
	plain, _, err := r.Encode(ctx, encoded, about)
	return plain, err
}

// What a client stores can be made and read without it, too: for a table of one's own, or to look at a dump.
func ExampleClient_EncodePayload() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "host=localhost") // connects at its first use, which does not come
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer pool.Close()
	client, err := pgqueue.NewClient(pool, pgqueue.WithCodec(rot13{}))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	stored, err := client.EncodePayload(ctx, "welcome", []byte(`{"name":"Ann"}`))
	fmt.Println(string(stored), err)
	plain, err := client.DecodePayload(ctx, "welcome", stored)
	fmt.Println(string(plain), err)

	_, err = client.DecodePayload(ctx, "welcome", []byte(`{"$pgqueue":{"codec":["aes256gcm"],"key":"2025-07","data":"AAAA"}}`))
	fmt.Println(errors.Is(err, pgqueue.ErrNoCodec), err)
	// Output:
	// {"$pgqueue":{"codec":["rot13"],"data":"eyJhbnpyIjoiTmFhIn0="}} <nil>
	// {"name":"Ann"} <nil>
	// true decode a payload: decode the payload of kind "welcome" with aes256gcm, key "2025-07": there is no such codec here
}
