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
