package codec_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/codec"
	"github.com/pgqueue/pgqueue/pgqueue"
)

func secret(fill byte) []byte { return bytes.Repeat([]byte{fill}, codec.KeySize) }

func ring(t testing.TB, keys ...codec.Key) *codec.AES {
	t.Helper()
	made, err := codec.AESGCM(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

var about = pgqueue.CodecContext{Schema: "pgqueue", Kind: "send", Field: pgqueue.FieldPayload, MaxSize: 1 << 20}

func encode(t testing.TB, c pgqueue.Codec, plain string) (data []byte, key string) {
	t.Helper()
	data, key, err := c.Encode(context.Background(), []byte(plain), about)
	if err != nil {
		t.Fatal(err)
	}
	return data, key
}

func TestAESGoesThereAndBack(t *testing.T) {
	t.Parallel()
	c := ring(t, codec.Key{ID: "k1", Secret: secret(1)})
	for _, plain := range []string{"", "{}", strings.Repeat("long ", 10_000)} {
		data, key := encode(t, c, plain)
		if key != "k1" || len(data) != len(plain)+28 || plain != "" && bytes.Contains(data, []byte(plain)) {
			t.Fatalf("key %q, %d bytes of %d", key, len(data), len(plain))
		}
		again, _ := encode(t, c, plain)
		if bytes.Equal(again, data) {
			t.Fatal("two ciphertexts of one value are equal: the nonce is not random")
		}
		got, err := c.Decode(context.Background(), data, key, about)
		if err != nil || string(got) != plain {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

// A value decrypts in its place and nowhere else.
func TestAESBindsAValueToItsPlace(t *testing.T) {
	t.Parallel()
	c := ring(t, codec.Key{ID: "k1", Secret: secret(1)}, codec.Key{ID: "k2", Secret: secret(2)})
	data, _ := encode(t, c, `{"n":1}`)
	for name, change := range map[string]func(*pgqueue.CodecContext, *string, *[]byte){
		"schema": func(a *pgqueue.CodecContext, _ *string, _ *[]byte) { a.Schema = "other" },
		"kind":   func(a *pgqueue.CodecContext, _ *string, _ *[]byte) { a.Kind = "other" },
		"field":  func(a *pgqueue.CodecContext, _ *string, _ *[]byte) { a.Field = pgqueue.FieldResult },
		"shift":  func(a *pgqueue.CodecContext, _ *string, _ *[]byte) { a.Schema, a.Kind = "pgqueues", "end" },
		"key":    func(_ *pgqueue.CodecContext, key *string, _ *[]byte) { *key = "k2" },
		"bit":    func(_ *pgqueue.CodecContext, _ *string, data *[]byte) { (*data)[20] ^= 1 },
		"nonce":  func(_ *pgqueue.CodecContext, _ *string, data *[]byte) { (*data)[0] ^= 1 },
		"tail":   func(_ *pgqueue.CodecContext, _ *string, data *[]byte) { *data = (*data)[:len(*data)-1] },
		"short":  func(_ *pgqueue.CodecContext, _ *string, data *[]byte) { *data = (*data)[:5] },
		"empty":  func(_ *pgqueue.CodecContext, _ *string, data *[]byte) { *data = nil },
	} {
		where, key, changed := about, "k1", bytes.Clone(data)
		change(&where, &key, &changed)
		if plain, err := c.Decode(context.Background(), changed, key, where); !errors.Is(err, pgqueue.ErrAltered) {
			t.Errorf("%s: decrypts to %q, %v", name, plain, err)
		}
	}
	// The bound is not a part of the place.
	where := about
	where.MaxSize = 7
	if _, err := c.Decode(context.Background(), data, "k1", where); err != nil {
		t.Error(err)
	}
}

// The first key encrypts, all decrypt, and one that is gone is named.
func TestAESRotation(t *testing.T) {
	t.Parallel()
	k1, k2 := codec.Key{ID: "k1", Secret: secret(1)}, codec.Key{ID: "k2", Secret: secret(2)}
	before, between, after := ring(t, k1), ring(t, k2, k1), ring(t, k2)
	old, _ := encode(t, before, "{}")
	if _, err := between.Decode(context.Background(), old, "k1", about); err != nil {
		t.Error(err)
	}
	if _, key := encode(t, between, "{}"); key != "k2" {
		t.Errorf("encrypts with %q", key)
	}
	_, err := after.Decode(context.Background(), old, "k1", about)
	var unknown *codec.UnknownKeyError
	if !errors.Is(err, pgqueue.ErrUnknownKey) || !errors.As(err, &unknown) || unknown.ID != "k1" {
		t.Errorf("error %v", err)
	}
}

func TestAESRefusesBadKeys(t *testing.T) {
	t.Parallel()
	good := codec.Key{ID: "k", Secret: secret(7)}
	for name, keys := range map[string][]codec.Key{
		"none":         {},
		"no id":        {{Secret: secret(1)}},
		"long id":      {{ID: strings.Repeat("k", 65), Secret: secret(1)}},
		"odd id":       {{ID: `k"`, Secret: secret(1)}},
		"AES-128":      {{ID: "k", Secret: make([]byte, 16)}},
		"twice":        {good, good},
		"zeros":        {good, {ID: "z", Secret: make([]byte, codec.KeySize)}},
		"two names":    {good, {ID: "b", Secret: secret(2)}, {ID: "c", Secret: secret(7)}},
		"fingerprints": {{ID: "a", Secret: secret(1), Fingerprint: true}, {ID: "b", Secret: secret(2), Fingerprint: true}},
	} {
		_, err := codec.AESGCM(keys...)
		var refused *codec.KeyError
		if !errors.As(err, &refused) || strings.Contains(err.Error(), "\x07") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// An AES that was not made by AESGCM says so, and encrypts nothing.
func TestAESWithoutKeys(t *testing.T) {
	t.Parallel()
	var c codec.AES
	var refused *codec.KeyError
	if data, _, err := c.Encode(context.Background(), []byte("{}"), about); !errors.As(err, &refused) || !strings.Contains(err.Error(), "AESGCM") || data != nil {
		t.Errorf("%x, %v", data, err)
	}
	if _, err := c.Decode(context.Background(), make([]byte, 50), "", about); !errors.Is(err, pgqueue.ErrUnknownKey) {
		t.Errorf("error %v", err)
	}
}

// Fingerprints are a function of the value and of one key of the ring, whatever its place there.
func TestAESFingerprint(t *testing.T) {
	t.Parallel()
	k1, k2 := codec.Key{ID: "k1", Secret: secret(1)}, codec.Key{ID: "k2", Secret: secret(2)}
	marked := k1
	marked.Fingerprint = true
	print := ring(t, k1).Fingerprint([]byte("{}"))
	if len(print) != 32 || bytes.Equal(print, ring(t, k1).Fingerprint([]byte("[]"))) || bytes.Equal(print, ring(t, k2).Fingerprint([]byte("{}"))) {
		t.Errorf("fingerprint %x", print)
	}
	if !bytes.Equal(print, ring(t, k2, marked).Fingerprint([]byte("{}"))) {
		t.Error("the fingerprint changes with a rotation although its key is marked")
	}
}

func TestGzip(t *testing.T) {
	t.Parallel()
	c := codec.Gzip(100)
	random := make([]byte, 4096)
	_, _ = rand.Read(random)
	for name, plain := range map[string]string{"short": strings.Repeat("a", 99), "random": string(random)} {
		if data, _ := encode(t, c, plain); data != nil {
			t.Errorf("%s: becomes %d bytes of %d", name, len(data), len(plain))
		}
	}
	plain := strings.Repeat("a", 100_000)
	for range 3 { // the second time with what the first one used
		data, key := encode(t, c, plain)
		if data == nil || len(data) > 1000 || key != "" {
			t.Fatalf("%d bytes", len(data))
		}
		got, err := c.Decode(context.Background(), data, "", about)
		if err != nil || string(got) != plain {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		for _, cut := range []int{0, 5, len(data) / 2, len(data) - 1} {
			if got, err := c.Decode(context.Background(), data[:cut], "", about); !errors.Is(err, pgqueue.ErrAltered) {
				t.Errorf("cut to %d of %d bytes it becomes %d, %v", cut, len(data), len(got), err)
			}
		}
	}
}

// A bomb is refused after as many bytes as are allowed, not after all of them.
func TestGzipStopsAtTheBound(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 64 {
		_, _ = w.Write(zeros)
	}
	_ = w.Close()
	c := codec.Gzip(0)
	small := about
	small.MaxSize = 1000
	for _, data := range [][]byte{bomb.Bytes(), bomb.Bytes()[:bomb.Len()/2]} { // the end of the second would be missed, by who gets there
		if _, err := c.Decode(context.Background(), data, "", small); !errors.Is(err, pgqueue.ErrTooLarge) {
			t.Errorf("error %v", err)
		}
	}
	exact, _ := encode(t, c, strings.Repeat("a", 5000))
	for size, fits := range map[int]bool{5000: true, 4999: false} {
		small.MaxSize = size
		if _, err := c.Decode(context.Background(), exact, "", small); (err == nil) != fits {
			t.Errorf("bound %d: error %v", size, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	aes, zip := ring(f, codec.Key{ID: "k", Secret: secret(1)}), codec.Gzip(0)
	sealed, _ := encode(f, aes, "{}")
	zipped, _ := encode(f, zip, strings.Repeat("{}", 5000))
	f.Add(sealed)
	f.Add(zipped)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = aes.Decode(context.Background(), data, "k", about)
		if plain, err := zip.Decode(context.Background(), data, "", about); err == nil && len(plain) > about.MaxSize {
			t.Errorf("%d bytes", len(plain))
		}
	})
}
