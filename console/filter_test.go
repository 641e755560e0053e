package console

import (
	"errors"
	"net/url"
	"reflect"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func TestAFilterIsReadFromAnAddress(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for query, want := range map[string]pgqueue.Filter{
		"":                              {},
		"state=&queue=&payload=&id=":    {},
		"state=dead&state=dead&state=x": {States: []pgqueue.JobState{"dead", "x"}},
		"queue=a/b&kind=%25&key=k&code=c&worker=w&tag=x&tag=y": {
			Queue: "a/b", Kind: "%", Key: "k", ErrorCode: "c", ClaimedBy: "w", Tags: []string{"x", "y"},
		},
		"id=3&id=9223372036854775807&min_id=2&max_id=10&priority=4": {IDs: []int64{3, 9223372036854775807}, MinID: 2, MaxID: 10, Priority: 4},
		"created_from=2026-01-31T12:00:00%2B01:00&created_to=2026-01-31T12:00": {Created: pgqueue.TimeRange{
			From: time.Date(2026, 1, 31, 11, 0, 0, 0, time.UTC), To: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
		}},
		"finished_from=-1h30m&finished_to=now":                      {Finished: pgqueue.TimeRange{From: now.Add(-90 * time.Minute), To: now}},
		"due_from=-1d2h&due_to=%2B7d":                               {Due: pgqueue.TimeRange{From: now.Add(-26 * time.Hour), To: now.Add(7 * 24 * time.Hour)}},
		"payload=" + url.QueryEscape(`{"n": 12345678901234567890}`): {Payload: []byte(`{"n": 12345678901234567890}`)},
		"payload_path=user.id&payload_value=12345678901234567890":   {Payload: []byte(`{"user":{"id":12345678901234567890}}`)},
		"payload_path=a%5C.b&payload_value=seven":                   {Payload: []byte(`{"a.b":"seven"}`)},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseFilterAt(values, now)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", query, got, err, want)
			continue
		}
		again, err := parseFilterAt(filterQuery(got), now.Add(time.Hour))
		if err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s: written and read again: %+v, %v", query, again, err)
		}
	}
}

func TestAFilterThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	for query, field := range map[string]string{
		"id=x": "id", "id=-1": "id", "min_id=1.5": "min_id", "max_id=99999999999999999999": "max_id", "priority=high": "priority",
		"created_from=yesterday": "created_from", "due_to=-": "due_to", "due_to=-5": "due_to", "due_from=0001-01-01": "due_from", "finished_to=-99999999d": "finished_to",
		"payload=x": "payload", "payload_path=a": "payload_value", "payload_value=a": "payload_path", "payload_path=a..b&payload_value=1": "payload_path",
		"payload={}&payload_path=a&payload_value=1": "payload_path",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = parseFilter(values)
		var invalid *pgqueue.ValidationError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", query, err)
		}
	}
	if _, err := parseListOptions(url.Values{"limit": {"many"}}); err == nil {
		t.Error("a limit that is no number is taken")
	}
}

// A filter that names no job must not become one that means all when it travels through an address.
func TestAFilterOfNoJobsStaysOne(t *testing.T) {
	t.Parallel()
	again, err := parseFilter(filterQuery(pgqueue.Filter{IDs: []int64{}}))
	if err != nil || again.IDs == nil {
		t.Errorf("%+v, %v", again, err)
	}
}
