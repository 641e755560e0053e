package pgqueue_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// scrambler is a codec that keeps its values to itself, as far as this test looks.
type scrambler struct {
	secret []byte
	print  func(plain []byte) []byte // nil: as it should be
}

func (scrambler) Name() string { return "scrambler" }
func (scrambler) Local()       {}
func (scrambler) Encode(_ context.Context, plain []byte, _ pgqueue.CodecContext) ([]byte, string, error) {
	return bytes.ToUpper(plain), "", nil
}
func (scrambler) Decode(_ context.Context, encoded []byte, _ string, _ pgqueue.CodecContext) ([]byte, error) {
	return bytes.ToLower(encoded), nil
}
func (s scrambler) Fingerprint(plain []byte) []byte {
	if s.print != nil {
		return s.print(plain)
	}
	hash := hmac.New(sha256.New, s.secret)
	hash.Write(plain)
	return hash.Sum(nil)
}

// Where arguments are encrypted, equal ones are found all the same, by a hash that nobody can guess without the secret.
func TestUniqueByArgsThatAreEncrypted(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool, pgqueue.WithCodec(scrambler{secret: []byte("a")}))
	for name, rule := range map[string]pgqueue.Unique{"live": {}, "kept": {Keep: day}, "members": {Args: []string{"name"}, Keep: day}} {
		queue := pgqueue.OnQueue(name)
		first := enqueue(t, client, db.Pool, greet{"ada"}, pgqueue.WithUnique(rule), queue)
		requireDuplicate(t, enqueue(t, client, db.Pool, greet{"ada"}, pgqueue.WithUnique(rule), queue), first.ID, pgqueue.JobPending)
		requireOutcome(t, enqueue(t, client, db.Pool, greet{"eve"}, pgqueue.WithUnique(rule), queue), pgqueue.Inserted)

		// Without the secret, or with another one, the hash is another.
		for _, stranger := range []*pgqueue.Client{newClient(t, db.Pool), newClient(t, db.Pool, pgqueue.WithCodec(scrambler{secret: []byte("b")}))} {
			requireOutcome(t, enqueue(t, stranger, db.Pool, greet{"ada"}, pgqueue.WithUnique(rule), queue), pgqueue.Inserted)
		}
	}

	// A fingerprint that would make all jobs one is refused.
	for _, print := range []func([]byte) []byte{
		func([]byte) []byte { return []byte{} }, func([]byte) []byte { return []byte("short") }, func([]byte) []byte { panic("no key") },
	} {
		broken := newClient(t, db.Pool, pgqueue.WithCodec(scrambler{print: print}))
		_, err := broken.Enqueue(testContext(t), db.Pool, greet{"ada"}, pgqueue.WithUnique(pgqueue.Unique{}))
		requireInvalid(t, err, "unique")
		if !strings.Contains(err.Error(), "fingerprint") {
			t.Error(err)
		}
	}
}
