package pgqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/codec"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// People see what is encoded as such, with its key, or decoded where the inspector has the codec; one that cannot be decoded does not
// take the page with it.
func TestInspectorAndEncodedValues(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	long := planted + strings.Repeat(" and so on", 3_000) // too long for an excerpt
	message := strings.Repeat("m", 2048)                  // the longest
	client := newClient(t, db.Pool, pgqueue.WithCodec(aesGCM(t, "k1")))
	mux := pgqueue.NewMux()
	pgqueue.HandleResult(mux, func(_ context.Context, job *pgqueue.Job[sealedArgs]) (string, error) {
		if job.Args.Do == "fail" {
			return "", pgqueue.Permanent(runner.Safe(errors.New(message)))
		}
		return job.Args.Secret, nil
	})
	short := enqueue(t, client, db.Pool, sealedArgs{Secret: planted}).ID
	large := enqueue(t, client, db.Pool, sealedArgs{Secret: long}).ID
	failed := enqueue(t, client, db.Pool, sealedArgs{Do: "fail", Secret: planted}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	plain := enqueue(t, newClient(t, db.Pool), db.Pool, sealedArgs{Secret: "not encoded"}).ID
	broken := enqueue(t, client, db.Pool, sealedArgs{Secret: planted}).ID
	exec(t, db.Pool, `UPDATE pgqueue.jobs SET kind = 'moved' WHERE id = $1`, broken)

	for name, codecs := range map[string][]pgqueue.Codec{"with": {codec.Gzip(0), aesGCM(t, "r2", "k1")}, "without": nil, "other": {aesGCM(t, "r2")}} {
		inspector, err := pgqueue.NewInspector(db.Pool, pgqueue.InspectorConfig{Codecs: codecs})
		if err != nil {
			t.Fatal(err)
		}
		read := name == "with"
		requireShown := func(where string, sealed *pgqueue.Sealed, text string, readable bool) {
			t.Helper()
			switch {
			case readable && (sealed != nil || strings.Contains(text, "$pgqueue")):
				t.Errorf("%s, %s: %v, %.100s", name, where, sealed, text)
			case !readable && (sealed == nil || sealed.Key != "k1" || sealed.Size == 0 || sealed.Reason == "" || !strings.HasPrefix(text, `{"$pgqueue": {"key": "k1"`)):
				t.Errorf("%s, %s: %+v, %.100s", name, where, sealed, text)
			}
		}
		page := list(t, inspector, pgqueue.Filter{}, pgqueue.ListOptions{Order: pgqueue.OrderOldest})
		if len(page.Jobs) != 5 {
			t.Fatalf("%s: %d jobs", name, len(page.Jobs))
		}
		for _, shown := range page.Jobs {
			switch shown.ID {
			case plain:
				requireShown("list: plaintext", shown.Payload.Sealed, shown.Payload.Text, true)
			case broken:
				requireShown("list: broken", shown.Payload.Sealed, shown.Payload.Text, false)
			case large: // more than is read for a list
				if shown.Payload.Text != "" || !shown.Payload.Cut || shown.Payload.Size < len(long) {
					t.Errorf("%s: %+v", name, shown.Payload)
				}
			default:
				requireShown("list", shown.Payload.Sealed, shown.Payload.Text, read)
				if read && !strings.Contains(shown.Payload.Text, planted) {
					t.Errorf("%s: %s", name, shown.Payload.Text)
				}
			}
			if shown.ID == failed {
				if want := message[:256]; read && shown.LastMessage != want || !read && !strings.HasPrefix(shown.LastMessage, "(encoded by aes256gcm, key k1, ") {
					t.Errorf("%s: message %s", name, shown.LastMessage)
				}
			}
		}
		for _, limit := range []int{0, 100, 1 << 20} {
			for _, id := range []int64{short, large, failed, plain, broken} {
				got, err := inspector.Peek(testContext(t), id, limit)
				if err != nil {
					t.Fatal(err)
				}
				whole, err := inspector.Get(testContext(t), id)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := json.Marshal(got); err != nil {
					t.Errorf("%s: job %d at limit %d is no JSON: %v", name, id, limit, err)
				}
				for field, value := range map[string]json.RawMessage{"payload": whole.Payload, "result": whole.Result} {
					if value == nil {
						continue
					}
					readable := id == plain || read && id != broken
					var sealed *pgqueue.Sealed
					if found, ok := whole.Sealed[field]; ok {
						sealed = &found
					}
					requireShown("get: "+field, sealed, string(value), readable)
					peeked := map[string]json.RawMessage{"payload": got.Payload, "result": got.Result}[field]
					cut, isCut := got.Cut[field]
					switch {
					case isCut && (peeked != nil || len(cut.Text) > limit || !cut.Cut || readable && (cut.Sealed != nil || !strings.HasPrefix(string(value), cut.Text))):
						t.Errorf("%s: job %d, %s at limit %d: %+v", name, id, field, limit, cut)
					case isCut && !readable && (cut.Sealed == nil || limit == 100 && cut.Sealed.Key != "k1"):
						t.Errorf("%s: job %d, %s at limit %d: %+v", name, id, field, limit, cut.Sealed)
					case !isCut && string(peeked) != string(value):
						t.Errorf("%s: job %d, %s at limit %d: %.100s", name, id, field, limit, peeked)
					}
				}
				if id == failed && read && (got.Failed[0].Message != message || whole.Failed[0].Message != message) {
					t.Errorf("%s: messages %.100s, %.100s", name, got.Failed[0].Message, whole.Failed[0].Message)
				}
			}
		}
	}
}
