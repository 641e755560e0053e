package pgqueuetest

import (
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/schedule"
)

// A schedule goes by the clock too: a daily one has a tick after a day, at its time of day, across the change to summer time.
func TestClockMovesSchedules(t *testing.T) {
	t.Parallel()
	db := New(t)
	clock, client := NewClock(t, db), db.Client(t)
	zone, err := schedule.LoadZone("Europe/Copenhagen")
	if err != nil {
		t.Fatal(err)
	}
	clock.Set(time.Date(2031, time.March, 29, 8, 0, 0, 0, zone))
	scheduler, err := schedule.New(client, schedule.Config{Source: "test", Schedules: []schedule.Schedule{
		{Name: "morning", Spec: "0 9 * * *", TimeZone: "Europe/Copenhagen", Args: welcome{UserID: 1}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	mux, ran := counting()
	for i, c := range []struct {
		advance time.Duration
		want    int
	}{{0, 0}, {59 * time.Minute, 0}, {2 * time.Minute, 1}, {22 * time.Hour, 0}, {time.Hour, 1}} { // that night is an hour shorter
		clock.Advance(c.advance)
		if _, err := scheduler.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		Drain(t, client, mux)
		if len(ran) != c.want {
			t.Fatalf("step %d, at %v: %d jobs, want %d", i, clock.Now().In(zone), len(ran), c.want)
		}
		for range c.want {
			job, err := client.Get(t.Context(), db.Pool, <-ran)
			if err != nil || job.State != pgqueue.JobSucceeded || job.RunAt.In(zone).Hour() != 9 {
				t.Errorf("step %d: %+v, %v", i, job, err)
			}
		}
	}
}
