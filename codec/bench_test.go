package codec_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/codec"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// offline is a client that sends nothing: its pool connects when it is used.
func offline(t testing.TB, options ...pgqueue.ClientOption) *pgqueue.Client {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), "host=localhost port=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	client, err := pgqueue.NewClient(pool, options...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// BenchmarkCodec is what a job pays: once for its payload at the enqueue, and once at each attempt.
func BenchmarkCodec(b *testing.B) {
	keys := ring(b, codec.Key{ID: "2026-10", Secret: secret(1)})
	ctx := context.Background()
	for _, with := range []struct {
		name   string
		codecs []pgqueue.Codec
	}{{"none", nil}, {"aes256gcm", []pgqueue.Codec{keys}}, {"gzip+aes256gcm", []pgqueue.Codec{codec.Gzip(1024), keys}}} {
		var options []pgqueue.ClientOption
		if with.codecs != nil {
			options = append(options, pgqueue.WithCodec(with.codecs...))
		}
		client := offline(b, options...)
		for _, size := range []int{100, 1 << 10, 100 << 10} {
			payload := []byte(`{"text":"` + strings.Repeat("lorem ipsum, ", size/13) + `"}`)
			stored, err := client.EncodePayload(ctx, "kind", payload)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/encode/%d", with.name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := client.EncodePayload(ctx, "kind", payload); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("%s/decode/%d", with.name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := client.DecodePayload(ctx, "kind", stored); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
