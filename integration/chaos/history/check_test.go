package history

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// run is a history that keeps every promise: a plain job, one that was retried, one whose process died, one that was replaced while it
// ran, one whose commit is in doubt, one that was rolled back, and a transactional one.
func run() ([]Event, Final) {
	events := []Event{
		{Type: Intended, Request: "plain", Input: "plain", Queue: "q"},
		{Type: Enqueued, Request: "plain", Job: 1, Outcome: Inserted},
		{Type: Committed, Request: "plain"},
		{Type: Started, Job: 1, Attempt: 1, Input: "plain", Queue: "q", Priority: 1, Due: 1_000_000},
		{Type: Finished, Job: 1, Attempt: 1, Outcome: Succeeded},
		{Type: Settled, Job: 1, Attempt: 1, Outcome: Succeeded},

		{Type: Intended, Request: "retried", Input: "retried"},
		{Type: Enqueued, Request: "retried", Job: 2, Outcome: Inserted},
		{Type: Committed, Request: "retried"},
		{Type: Started, Job: 2, Attempt: 1, Input: "retried", Queue: "q", Priority: 1, Due: 2_000_000},
		{Type: Settled, Job: 2, Attempt: 1, Outcome: Retrying},
		{Type: Started, Job: 2, Attempt: 2, Input: "retried", Queue: "q", Priority: 1, Due: 2_000_000},
		{Type: Settled, Job: 2, Attempt: 2, Outcome: Succeeded},

		{Type: Intended, Request: "killed", Input: "killed"},
		{Type: Enqueued, Request: "killed", Job: 3, Outcome: Inserted},
		{Type: Committed, Request: "killed"},
		{Type: Started, Job: 3, Attempt: 1, Input: "killed"},
		{Type: Started, Job: 3, Attempt: 3, Input: "killed"}, // attempt 2 was claimed by a process that died before it began
		{Type: Settled, Job: 3, Attempt: 3, Outcome: Succeeded},

		{Type: Intended, Request: "first", Key: "k", Input: "first"},
		{Type: Enqueued, Request: "first", Job: 4, Outcome: Inserted},
		{Type: Committed, Request: "first"},
		{Type: Started, Job: 4, Attempt: 1, Input: "first"},
		{Type: Intended, Request: "second", Key: "k", Input: "second"},
		{Type: Enqueued, Request: "second", Job: 4, Outcome: Replaced},
		{Type: Committed, Request: "second"},
		{Type: Settled, Job: 4, Attempt: 1, Outcome: Superseded},
		{Type: Started, Job: 4, Attempt: 2, Input: "second"},
		{Type: Settled, Job: 4, Attempt: 2, Outcome: Succeeded},

		{Type: Intended, Request: "doubt", Input: "doubt"},
		{Type: Enqueued, Request: "doubt", Job: 5, Outcome: Inserted},
		{Type: InDoubt, Request: "doubt"},

		{Type: Intended, Request: "back", Input: "back"},
		{Type: Enqueued, Request: "back", Job: 6, Outcome: Inserted},
		{Type: RolledBack, Request: "back"},

		{Type: Intended, Request: "effect", Input: "effect"},
		{Type: Enqueued, Request: "effect", Job: 7, Outcome: Inserted},
		{Type: Committed, Request: "effect"},
		{Type: Started, Job: 7, Attempt: 1, Input: "effect"},
		{Type: Settled, Job: 7, Attempt: 1, Outcome: Succeeded},
	}
	final := Final{
		Jobs: map[int64]End{
			1: {State: Succeeded, Attempt: 1, Input: "plain"},
			2: {State: Succeeded, Attempt: 2, Input: "retried", Errors: 1},
			3: {State: Succeeded, Attempt: 3, Input: "killed", Lapsed: []int{1, 2}, Errors: 2},
			4: {State: Succeeded, Attempt: 2, Input: "second"},
			7: {State: Succeeded, Attempt: 1, Input: "effect", Effect: true},
		},
		Effects: map[int64]int{7: 1},
	}
	for i := range events {
		events[i].At = time.Duration(i) * time.Second
	}
	return events, final
}

func limits() Limits { return Limits{Overtaking: 2 * time.Second} }

func TestAGoodHistoryBreaksNothing(t *testing.T) {
	events, final := run()
	if found := Check(events, final, limits()); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// find is the event of a type that belongs to a request, or to a job's attempt.
func find(t *testing.T, events []Event, kind Type, request string, job int64, attempt int) int {
	t.Helper()
	i := slices.IndexFunc(events, func(e Event) bool {
		return e.Type == kind && e.Request == request && (request != "" || e.Job == job && e.Attempt == attempt)
	})
	if i < 0 {
		t.Fatalf("there is no %s of %q, job %d, attempt %d", kind, request, job, attempt)
	}
	return i
}

// Each violation is planted into the good history, and is found, and nothing else is.
func TestPlantedViolationsAreFound(t *testing.T) {
	for name, plant := range map[string]struct {
		rule  Rule
		job   int64
		plant func(events *[]Event, final *Final)
	}{
		"a committed job is gone":     {Lost, 1, func(_ *[]Event, final *Final) { delete(final.Jobs, 1) }},
		"a committed job still waits": {Lost, 2, func(_ *[]Event, final *Final) { delete(final.Jobs, 2); final.Live = []int64{2} }},
		"a rolled-back job ran": {Ghost, 6, func(events *[]Event, _ *Final) {
			*events = append(*events, Event{At: time.Hour, Type: Started, Job: 6, Attempt: 1, Input: "back"})
		}},
		"a rolled-back input ran in a job that was there": {Ghost, 4, func(events *[]Event, _ *Final) {
			*events = append(*events, Event{At: time.Hour, Type: Intended, Request: "third", Input: "third"},
				Event{At: time.Hour, Type: Enqueued, Request: "third", Job: 4, Outcome: Replaced}, Event{At: time.Hour, Type: RolledBack, Request: "third"})
			(*events)[find(t, *events, Started, "", 4, 2)].Input = "third"
		}},
		"an effect is missing":     {Effect, 7, func(_ *[]Event, final *Final) { final.Effects = nil }},
		"an effect is there twice": {Effect, 7, func(_ *[]Event, final *Final) { final.Effects[7] = 2 }},
		"an effect of a job that died": {Effect, 7, func(events *[]Event, final *Final) {
			final.Jobs[7] = End{State: Dead, Attempt: 1, Input: "effect", Effect: true}
			(*events)[find(t, *events, Settled, "", 7, 1)].Outcome = Dead
		}},
		"an effect of a job that is nowhere": {Effect, 5, func(_ *[]Event, final *Final) { final.Effects[5] = 1 }},
		"two successes of one input": {Doubled, 2, func(events *[]Event, _ *Final) {
			i := find(t, *events, Settled, "", 2, 1)
			*events = slices.Insert(*events, i+1, (*events)[i])
			(*events)[i].Outcome = Succeeded
		}},
		"a success of a job that died": {Doubled, 1, func(_ *[]Event, final *Final) { final.Jobs[1] = End{State: Dead, Attempt: 1, Input: "plain"} }},
		"a second run for no reason": {Unexplained, 2, func(events *[]Event, _ *Final) {
			i := find(t, *events, Settled, "", 2, 1)
			*events = slices.Delete(*events, i, i+1)
		}},
		"a lost lease that nobody has noted": {Unexplained, 3, func(_ *[]Event, final *Final) {
			final.Jobs[3] = End{State: Succeeded, Attempt: 3, Input: "killed", Lapsed: []int{1}, Errors: 1}
		}},
		"an attempt twice": {Attempts, 1, func(events *[]Event, _ *Final) {
			i := find(t, *events, Started, "", 1, 1)
			*events = slices.Insert(*events, i+1, (*events)[i])
		}},
		"an attempt behind the end": {Attempts, 2, func(_ *[]Event, final *Final) {
			final.Jobs[2] = End{State: Succeeded, Attempt: 1, Input: "retried", Errors: 1}
		}},
		"overtaken by a job that was due an hour later": {Order, 2, func(events *[]Event, _ *Final) {
			(*events)[find(t, *events, Started, "", 1, 1)].Due = 3_600_000_000
		}},
		"the input before the last": {Stale, 4, func(_ *[]Event, final *Final) { final.Jobs[4] = End{State: Succeeded, Attempt: 2, Input: "first"} }},
	} {
		t.Run(name, func(t *testing.T) {
			events, final := run()
			plant.plant(&events, &final)
			found := Check(events, final, limits())
			if len(found) == 0 {
				t.Fatal("nothing was found")
			}
			for _, violation := range found {
				if violation.Rule != plant.rule || violation.Job != plant.job {
					t.Errorf("found %s", violation)
				}
			}
		})
	}
}

// An enqueue whose COMMIT was cut off may have happened, and may not.
func TestADoubtfulCommitMayGoEitherWay(t *testing.T) {
	for name, end := range map[string]func(final *Final){
		"it did not": func(*Final) {},
		"it did":     func(final *Final) { final.Jobs[5] = End{State: Succeeded, Attempt: 1, Input: "doubt"} },
	} {
		events, final := run()
		end(&final)
		if found := Check(events, final, limits()); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// What a process has written before it was killed is read, but for the line that it was about to write.
func TestLogsSurviveTheirProcess(t *testing.T) {
	folder := t.TempDir()
	for _, process := range []string{"a", "b"} {
		log, err := Open(folder, process)
		if err != nil {
			t.Fatal(err)
		}
		log.Add(Event{Type: Started, Job: 1, Attempt: 1, Input: process})
		if process == "a" {
			log.Add(Event{Type: Settled, Job: 1, Attempt: 1, Outcome: Succeeded})
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(folder, "a"); err == nil {
		t.Error("a second process of the same name may write over the first")
	}
	path := filepath.Join(folder, "b"+suffix)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"at":1,"type":"sett`...), 0o600); err != nil {
		t.Fatal(err)
	}
	events, err := Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 3 || !slices.IsSortedFunc(events, func(a, b Event) int { return int(a.At - b.At) }) || events[0].Process != "a" {
		t.Errorf("read %+v", events)
	}

	if err := os.WriteFile(path, append([]byte("torn in the middle\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(folder); err == nil {
		t.Error("a line that cannot be read was passed over")
	}
}
