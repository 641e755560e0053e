package console

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func TestIndentationIsBounded(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":[1,{"b":"{,[\\\""}]}`: "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"{,[\\\\\\\"\"\n    }\n  ]\n}",
		`[]`:                        "[]",
		`no JSON`:                   "no JSON",
	} {
		if got := indented(json.RawMessage(text)); got != want {
			t.Errorf("%s in lines is %q, want %q", text, got, want)
		}
	}
	for _, deep := range []string{
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		strings.Repeat(`{"a":`, 3500) + "1" + strings.Repeat("}", 3500),
	} {
		if got := indented(json.RawMessage(deep)); len(got) > 5*len(deep)+64<<10 {
			t.Errorf("%d bytes become %d", len(deep), len(got))
		}
	}
}

// What producers nest deeply makes no page that is many times as large: not of a job, and not its form.
func TestADeepPayloadMakesNoHugePage(t *testing.T) {
	db := pgqueuetest.New(t)
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	enqueued, err := db.Client(t).Enqueue(t.Context(), db.Pool, pgqueue.Raw{Name: "deep", Payload: json.RawMessage(deep)},
		pgqueue.WithMetadata(json.RawMessage(`{"deep": `+strings.Repeat(`{"a":`, 3000)+"1"+strings.Repeat("}", 3000)+`}`)))
	if err != nil {
		t.Fatal(err)
	}
	c := newConsole(t, db)
	address := "/jobs/" + strconv.FormatInt(enqueued.ID, 10)
	for _, path := range []string{address, address + "/confirm/edit"} {
		if page := c.get(path).want(t, http.StatusOK); len(page.body) > 1<<20 {
			t.Errorf("%s has %d bytes", path, len(page.body))
		}
	}
}
