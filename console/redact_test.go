package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// redactor is a request to a console with that RedactFunc.
func redactor(t testing.TB, redact RedactFunc) *request {
	t.Helper()
	return &request{
		Request: httptest.NewRequest(http.MethodGet, "/", nil), identity: Identity{"victor", Viewer},
		console: &Console{config: Config{Redact: redact}, logger: discard()},
	}
}

func TestRedact(t *testing.T) {
	r := redactor(t, func(_ context.Context, about Redaction, value json.RawMessage) json.RawMessage {
		if about.Viewer.Name != "victor" || about.Kind != "mail" {
			t.Errorf("about %+v", about)
		}
		switch {
		case about.Field == "message":
			return json.RawMessage(strings.ReplaceAll(string(value), "MARK", "…"))
		case strings.Contains(string(value), "panic"):
			panic("MARK")
		case strings.Contains(string(value), "nothing"):
			return nil
		}
		copy(value, "spoilt") // its own copy
		return json.RawMessage(`{"a":"…"}`)
	})
	about := Redaction{Kind: "mail", Field: "payload"}
	stored := json.RawMessage(`{"a":"MARK"}`)
	if got := r.shown(about, stored, 1000); got.Text != "{\n  \"a\": \"…\"\n}" || string(stored) != `{"a":"MARK"}` {
		t.Errorf("%+v, %s", got, stored)
	}
	for _, value := range []string{`"panic MARK"`, `"nothing MARK"`} {
		if got := r.shown(about, json.RawMessage(value), 1000); got.Text != `"`+withheld+`"` {
			t.Errorf("%s: %+v", value, got)
		}
	}
	if got := r.shownMessage(about, "it is MARK"); got != "it is …" {
		t.Error(got)
	}
	for _, value := range []pgqueue.Excerpt{{Text: `{"a":"MARK`, Cut: true, Size: 100}, {Text: `MARK`, Size: 100, Sealed: &pgqueue.Sealed{}}} {
		if got := r.shownExcerpt(about, value); got.Text != "" || !got.Cut || got.Size != 100 {
			t.Errorf("%+v: %+v", value, got)
		}
	}
	if got := r.shownExcerpt(about, pgqueue.Excerpt{Text: `{"a":"MARK"}`, Size: 12}); got.Text != `{"a":"…"}` {
		t.Errorf("%+v", got)
	}
	broken := redactor(t, func(context.Context, Redaction, json.RawMessage) json.RawMessage { return json.RawMessage(`MARK`) })
	if got := broken.shownMessage(about, "x"); got != withheld {
		t.Error(got)
	}
}

func TestShownWithoutRedact(t *testing.T) {
	r := redactor(t, nil)
	if got := r.shown(Redaction{}, json.RawMessage(`{"n":12345678901234567890.10}`), 100); got.Text != "{\n  \"n\": 12345678901234567890.10\n}" || got.Cut {
		t.Errorf("%+v", got)
	}
	if got := r.shown(Redaction{}, json.RawMessage(`"ææææ"`), 4); got.Text != `"æ` || !got.Cut || got.Size != 10 {
		t.Errorf("%+v", got)
	}
	if got := r.shown(Redaction{}, nil, 4); got.Text != "" || got.Size != 0 {
		t.Errorf("%+v", got)
	}
	if got := r.shownMessage(Redaction{}, "<b>"); got != "<b>" {
		t.Error(got)
	}
}
