package pgqueue

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

func TestReservedMember(t *testing.T) { // not parallel: allocations are counted
	for text, refused := range map[string]bool{
		`{"$pgqueue":1}`:                                    true,
		`{ "$pgqueue" : {} }`:                               true,
		`{"a":{"b":[1,"x"]},"$pgqueue":{}}`:                 true,
		`{"\u0024pgqueue":1}`:                               true,
		`{"$p\u0067queue":1}`:                               true,
		`{"$\u0070\u0067\u0071\u0075\u0065\u0075\u0065":1}`: true,
		`{"$pgqueu\u0065":1}`:                               true,
		`{"a":"\u0026","$pg\u0071ueue":1}`:                  true,
		`{"$pgqueue2":1}`:                                   false,
		`{"a":{"$pgqueue":1}}`:                              false,
		`{"a":"$pgqueue"}`:                                  false,
		`["$pgqueue"]`:                                      false,
		`"$pgqueue"`:                                        false,
		`{"\\u0024pgqueue":1}`:                              false,
		`{"a":"\u00`:                                        false,
		`{}`:                                                false,
		``:                                                  false,
	} {
		if got := reserved("payload", []byte(text)) != nil; got != refused {
			t.Errorf("%s: refused %t, want %t", text, got, refused)
		}
	}
	text := []byte(`{"user_id":42,"name":"somebody","note":"tom \u0026 jerry"}`)
	if n := testing.AllocsPerRun(100, func() { _ = reserved("payload", text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseEnvelope(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"$pgqueue": {"key": "k", "data": "AAE=", "codec": ["a", "b"]}}`: "envelope",
		`{"$pgqueue":{"codec":["a"],"data":""}}`:                          "envelope",
		`{"$pgqueue": 1, "longer_than_it": 2}`:                            "none",
		`{"$pgqueue": 1}`:                                                 "malformed",
		`{"$pgqueue": {}}`:                                                "malformed",
		`{"$pgqueue": null}`:                                              "malformed",
		`{"$pgqueue": {"codec": [], "data": ""}}`:                         "malformed",
		`{"$pgqueue": {"codec": ["A"], "data": ""}}`:                      "malformed",
		`{"$pgqueue": {"codec": ["a"], "data": "*"}}`:                     "malformed",
		`{"$pgqueue": {"codec": ["a"`:                                     "malformed",
		`{"$pgqueue": {"codec": ["a"], "key": "a b"}}`:                    "malformed",
		`{"$pgqueue": {"codec": ["a","a","a","a","a","a","a","a","a"]}}`:  "malformed",
	} {
		found, err := parseEnvelope([]byte(text))
		got := "envelope"
		if err != nil {
			got = "malformed"
		} else if found == nil {
			got = "none"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestEnvelopeHead(t *testing.T) {
	t.Parallel()
	whole := `{"$pgqueue": {"key": "k2", "data": "AAAAAAAAAAAA", "codec": ["gzip", "aes256gcm"]}}`
	for cut, want := range map[int]string{len(whole): "k2", 40: "k2", 24: "", 5: "", 0: ""} {
		if names, key := envelopeHead(whole[:cut]); key != want || cut == len(whole) && !slices.Equal(names, []string{"gzip", "aes256gcm"}) {
			t.Errorf("%s: key %q, codecs %q", whole[:cut], key, names)
		}
	}
	if names, key := envelopeHead(`{"$pgqueue": {"x": {"key": "no"}, "codec": ["a", 1, {"b": "c"}], "key": "yes"}}`); key != "yes" || len(names) == 0 || names[0] != "a" {
		t.Errorf("key %q, codecs %q", key, names)
	}
}

// What is written is what is read, and Postgres' way to write it is told from plaintext.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte("data"), "key")
	f.Add([]byte{}, `"\`)
	f.Fuzz(func(t *testing.T, data []byte, key string) {
		if !validKeyName(key) {
			return
		}
		text := (&envelope{Codec: []string{"a", "b"}, Key: key, Data: data}).bytes()
		if !json.Valid(text) || !isEnvelope(text) || reserved("payload", text) == nil {
			t.Fatalf("%s", text)
		}
		found, err := parseEnvelope(text)
		if err != nil || string(found.Data) != string(data) || !slices.Equal(found.Codec, []string{"a", "b"}) {
			t.Fatalf("%s: %+v, %v", text, found, err)
		}
		envelopeHead(string(data))
		requireSameReading(t, text)
		requireSameReading(t, append([]byte(envelopeStart), data...))
		_, _ = parseEnvelope(append([]byte(envelopeStart), data...))
	})
}

// requireSameReading checks that what the fast reader reads, encoding/json reads too.
func requireSameReading(t *testing.T, text []byte) {
	t.Helper()
	fast, ok := (&envelopeReader{text: text}).read()
	if !ok {
		return
	}
	var outer map[string]*envelope
	if err := json.Unmarshal(text, &outer); err != nil || len(outer) != 1 || outer[envelopeMember] == nil {
		t.Fatalf("%s: read although it is none: %v", text, err)
	}
	if slow := outer[envelopeMember]; slow.Key != fast.Key || string(slow.Data) != string(fast.Data) || !slices.Equal(slow.Codec, fast.Codec) {
		t.Fatalf("%s: %+v, want %+v", text, fast, slow)
	}
}

func TestEnvelopeReader(t *testing.T) {
	t.Parallel()
	for text, fast := range map[string]bool{
		`{"$pgqueue": {"key": "k", "data": "AAE=", "codec": ["a", "b"]}}`: true,
		`{"$pgqueue":{"codec":["a"],"data":""}}`:                          true,
		`{"$pgqueue": {"codec": ["a"]}} `:                                 true,
		`{"$pgqueue": {"codec": ["a"]}}x`:                                 false,
		`{"$pgqueue": {"codec": ["a"]}, "b": 1}`:                          false,
		`{"$pgqueue": {"codec": ["a"], "codec": ["b"]}}`:                  false,
		`{"$pgqueue": {"codec": ["a"], "data": "A"}}`:                     false,
		`{"$pgqueue": {"codec": ["a"], "key": "\u0041"}}`:                 false,
		`{"$pgqueue": {"codec": ["a"], "key": "é"}}`:                      false,
		`{"$pgqueue": {"codec": [1]}}`:                                    false,
		`{"$pgqueue": {"other": "x"}}`:                                    false,
		`{"$pgqueue": {"key": "x`:                                         false,
		`{"$pgqueue": {}}`:                                                false,
	} {
		if _, ok := (&envelopeReader{text: []byte(text)}).read(); ok != fast {
			t.Errorf("%s: read %t", text, ok)
		}
		requireSameReading(t, []byte(text))
	}
}

// Without a codec nothing is paid for one, but for a look at the first bytes.
func TestNoCodecCostsNothing(t *testing.T) { // not parallel: allocations are counted
	client := &Client{}
	payload := json.RawMessage(`{"user_id": 42}`)
	row := &jobstore.Row{Payload: payload}
	input := &jobstore.Input{Payload: payload}
	ctx := context.Background()
	for name, do := range map[string]func(){
		"enqueue": func() { _ = client.sealInput(ctx, input) },
		"attempt": func() { _, _ = client.codecs.openPayload(ctx, row) },
		"result":  func() { _, _ = client.codecs.sealJSON(ctx, FieldResult, "kind", payload) },
		"await":   func() { _, _ = client.decodeField(ctx, FieldResult, "kind", payload) },
		"show":    func() { _ = client.codecs.showMessage(ctx, "kind", "message", 0) },
	} {
		if n := testing.AllocsPerRun(100, do); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if client.codecs.messageSealer() != nil {
		t.Error("messages of failures pass through a function that does nothing")
	}
}
