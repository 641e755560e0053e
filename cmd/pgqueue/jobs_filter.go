package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// filterFlags are the flags that say which jobs are meant; the console uses the same words in its addresses.
type filterFlags struct {
	states                   []string
	queue, kind, key         string
	tags                     []string
	priority                 int
	ids                      []int64
	minID, maxID             int64
	createdFrom, createdTo   string
	finishedFrom, finishedTo string
	dueFrom, dueTo           string
	code, payload, worker    string
}

// filterNames are the flags of a filter.
func filterNames() []string {
	return []string{"state", "queue", "kind", "key", "tag", "priority", "id", "min-id", "max-id", "created-from", "created-to",
		"finished-from", "finished-to", "due-from", "due-to", "code", "payload", "worker"}
}

func (f *filterFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.states, "state", nil, "pending, running, succeeded, failed, dead or cancelled; several mean any of them")
	flags.StringVar(&f.queue, "queue", "", "queue")
	flags.StringVar(&f.kind, "kind", "", "kind")
	flags.StringVar(&f.key, "key", "", "key of the work")
	flags.StringArrayVar(&f.tags, "tag", nil, "tag; several mean all of them")
	flags.IntVar(&f.priority, "priority", 0, "priority, 1 to 4")
	flags.Int64SliceVar(&f.ids, "id", nil, "number of a job; several mean any of them")
	flags.Int64Var(&f.minID, "min-id", 0, "lowest number")
	flags.Int64Var(&f.maxID, "max-id", 0, "highest number")
	flags.StringVar(&f.createdFrom, "created-from", "", "enqueued at this time or later: RFC 3339, a day (UTC), or a distance such as -1h or -7d")
	flags.StringVar(&f.createdTo, "created-to", "", "enqueued before this time")
	flags.StringVar(&f.finishedFrom, "finished-from", "", "ended at this time or later")
	flags.StringVar(&f.finishedTo, "finished-to", "", "ended before this time")
	flags.StringVar(&f.dueFrom, "due-from", "", "due at this time or later")
	flags.StringVar(&f.dueTo, "due-to", "", "due before this time")
	flags.StringVar(&f.code, "code", "", "code of the last error")
	flags.StringVar(&f.payload, "payload", "", `JSON that the payload contains, such as '{"user": {"id": 7}}', or @FILE with it`)
	flags.StringVar(&f.worker, "worker", "", "worker of the latest attempt")
	completes(cmd, "state", "pending", "running", "succeeded", "failed", "dead", "cancelled")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { // before anything is connected
		_, err := f.given(cmd)
		return err
	}
}

// given are the flags of the filter that were given, see givenValue for those that are empty. A number that is none of a job is refused, too,
// since zero would mean that the flag was not given.
func (f *filterFlags) given(cmd *cobra.Command) ([]string, error) {
	var names []string
	for _, name := range filterNames() {
		flag := cmd.Flags().Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		if value := flag.Value.String(); value == "0" || strings.HasPrefix(value, "-") && flag.Value.Type() != "string" {
			return nil, usage("--%s is a number from 1 on, not %s", name, value)
		}
		if name == "id" && slices.ContainsFunc(f.ids, func(id int64) bool { return id < 1 }) {
			return nil, usage("--id is a number from 1 on: no job has another")
		}
		names = append(names, name)
	}
	return names, nil
}

// filter is what the flags say. Times that are distances are resolved here, once, so that what goes on later means the same jobs.
func (f *filterFlags) filter(ctx context.Context, cmd *cobra.Command, clock *databaseClock) (pgqueue.Filter, error) {
	if _, err := f.given(cmd); err != nil {
		return pgqueue.Filter{}, err
	}
	filter := pgqueue.Filter{
		Queue: f.queue, Kind: f.kind, Key: f.key, Tags: f.tags, Priority: f.priority, MinID: f.minID, MaxID: f.maxID,
		ErrorCode: f.code, ClaimedBy: f.worker,
	}
	if len(f.ids) > 0 {
		filter.IDs = slices.Compact(slices.Sorted(slices.Values(f.ids)))
	}
	for _, state := range f.states {
		known := []pgqueue.JobState{pgqueue.JobPending, pgqueue.JobRunning, pgqueue.JobSucceeded, pgqueue.JobFailed, pgqueue.JobDead, pgqueue.JobCancelled}
		if !slices.Contains(known, pgqueue.JobState(state)) {
			return pgqueue.Filter{}, usage("--state is pending, running, succeeded, failed, dead or cancelled, not %q", visible(state))
		}
		filter.States = append(filter.States, pgqueue.JobState(state))
	}
	if f.payload != "" {
		payload, err := readPayloadFilter(f.payload)
		if err != nil {
			return pgqueue.Filter{}, err
		}
		filter.Payload = payload
	}
	for _, bound := range []struct {
		flag, text string
		to         *time.Time
	}{
		{"created-from", f.createdFrom, &filter.Created.From}, {"created-to", f.createdTo, &filter.Created.To},
		{"finished-from", f.finishedFrom, &filter.Finished.From}, {"finished-to", f.finishedTo, &filter.Finished.To},
		{"due-from", f.dueFrom, &filter.Due.From}, {"due-to", f.dueTo, &filter.Due.To},
	} {
		if bound.text == "" {
			continue
		}
		at, err := clock.resolve(ctx, bound.flag, bound.text)
		if err != nil {
			return pgqueue.Filter{}, err
		}
		*bound.to = at
	}
	return filter, nil
}

// maxPayloadFile bounds what is read as a payload: twice what can be stored, for white space.
const maxPayloadFile = 64 << 20

// readPayloadFilter reads the JSON of --payload. Errors quote nothing of it.
func readPayloadFilter(text string) (json.RawMessage, error) {
	raw := []byte(text)
	if name, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if raw, err = readBounded(name, nil); err != nil {
			return nil, err
		}
	}
	if !json.Valid(raw) {
		return nil, usage("--payload is not JSON")
	}
	return raw, nil
}

// readBounded reads a file, or in where its name is "-".
func readBounded(name string, in io.Reader) ([]byte, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, &exitError{code: exitUsage, err: err}
		}
		defer file.Close()
		in = file
	}
	if in == nil {
		return nil, usage("the payload to search for cannot come from standard input")
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxPayloadFile+1))
	switch {
	case err != nil && name != "-": // a directory, say
		return nil, &exitError{code: exitUsage, err: err}
	case err != nil:
		return nil, err
	case len(raw) > maxPayloadFile:
		return nil, &exitError{code: exitUsage, err: errors.New("the payload is too large: more than " + byteSize(maxPayloadFile))}
	default:
		return raw, nil
	}
}

// words are the flags that mean this filter, for a command line that goes on where another one stopped: with times as they were resolved.
// What a payload was searched for is not repeated, because messages may end in a log; missing says so.
func (f *filterFlags) words(filter pgqueue.Filter) (words []string, missing string) {
	add := func(flag, value string) {
		if value != "" {
			words = append(words, "--"+flag, value)
		}
	}
	for _, state := range filter.States {
		add("state", string(state))
	}
	add("queue", filter.Queue)
	add("kind", filter.Kind)
	add("key", filter.Key)
	for _, tag := range filter.Tags {
		add("tag", tag)
	}
	for _, number := range []struct {
		flag  string
		value int64
	}{{"priority", int64(filter.Priority)}, {"min-id", filter.MinID}, {"max-id", filter.MaxID}} {
		if number.value != 0 {
			add(number.flag, strconv.FormatInt(number.value, 10))
		}
	}
	if len(filter.IDs) > 0 {
		ids := make([]string, len(filter.IDs))
		for n, id := range filter.IDs {
			ids[n] = strconv.FormatInt(id, 10)
		}
		add("id", strings.Join(ids, ","))
	}
	for _, bound := range []struct {
		flag string
		at   time.Time
	}{
		{"created-from", filter.Created.From}, {"created-to", filter.Created.To}, {"finished-from", filter.Finished.From},
		{"finished-to", filter.Finished.To}, {"due-from", filter.Due.From}, {"due-to", filter.Due.To},
	} {
		if !bound.at.IsZero() {
			add(bound.flag, bound.at.UTC().Format(time.RFC3339Nano))
		}
	}
	add("code", filter.ErrorCode)
	add("worker", filter.ClaimedBy)
	switch {
	case strings.HasPrefix(f.payload, "@"):
		add("payload", f.payload)
	case f.payload != "":
		missing = "the same --payload"
	}
	return words, missing
}
