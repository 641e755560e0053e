package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// maxDocument bounds what is read of a payload or of metadata: what the library allows at most.
const maxDocument = 32 << 20

// longDuration is a flag for a duration, in which d is a day.
type longDuration time.Duration

func (d *longDuration) String() string {
	if *d == 0 {
		return ""
	}
	return span(time.Duration(*d))
}
func (*longDuration) Type() string { return "duration" }
func (d *longDuration) Set(text string) error {
	parsed, ok := parseDuration(text)
	if !ok || parsed < 0 {
		return errors.New("must be a duration such as 90s, 15m, 2h or 7d")
	}
	*d = longDuration(parsed)
	return nil
}

// enqueueFlags are what an enqueue may say.
type enqueueFlags struct {
	queue, key, revision    string
	payload, payloadFile    string
	metadata, metadataFile  string
	runAt                   string
	delay, wait             longDuration
	priority, maxAttempts   int
	tags                    []string
	idempotencyKey          string
	keep                    longDuration
	unique, uniqueKind      bool
	uniqueArgs              []string
	uniquePeriod            longDuration
	throttle                longDuration
	debounce, debounceLimit longDuration
	dryRun                  bool
}

func (f *enqueueFlags) define(command *cobra.Command) {
	set := command.Flags()
	set.StringVar(&f.payload, "payload", "", "the arguments, as JSON")
	set.StringVar(&f.payloadFile, "payload-file", "", "file with the arguments, - for the input")
	set.StringVar(&f.queue, "queue", "", "queue (default \""+pgqueue.DefaultQueue+"\")")
	set.StringVar(&f.key, "key", "", "stable key: at most one job of queue, kind and key is live")
	set.StringVar(&f.revision, "revision", "", "revision of the keyed input: once per revision")
	set.IntVar(&f.priority, "priority", pgqueue.PriorityFresh, "1, which goes first, to 4, for catching up")
	set.StringVar(&f.runAt, "run-at", "", "when it is due: a time in RFC 3339, one without a zone in UTC, or +2h")
	set.Var(&f.delay, "delay", "how long from now it is due, on the database's clock")
	set.IntVar(&f.maxAttempts, "max-attempts", pgqueue.DefaultMaxAttempts, "how many attempts may fail")
	set.StringArrayVar(&f.tags, "tag", nil, "label (repeatable)")
	set.StringVar(&f.metadata, "metadata", "", "a JSON object of your own, such as a ticket's number")
	set.StringVar(&f.metadataFile, "metadata-file", "", "file with the metadata, - for the input")
	set.StringVar(&f.idempotencyKey, "idempotency-key", "", "enqueue once for this key, whatever becomes of the job; needs --keep")
	set.Var(&f.keep, "keep", "how long an idempotency key, or with --unique an identity, stays taken")
	set.BoolVar(&f.unique, "unique", false, "enqueue unless a job with the same arguments is live")
	set.StringSliceVar(&f.uniqueArgs, "unique-args", nil, "with --unique: the members of the payload that count, by name or JSON pointer")
	set.BoolVar(&f.uniqueKind, "unique-kind", false, "with --unique: no arguments count")
	set.Var(&f.uniquePeriod, "unique-period", "with --unique: once in each period of this length")
	set.Var(&f.throttle, "throttle", "at most one in each period of this length")
	set.Var(&f.debounce, "debounce", "with --key: run this long after the last enqueue of a burst")
	set.Var(&f.debounceLimit, "debounce-longest", "with --debounce: but not later than this after the first")
	set.Var(&f.wait, "wait", "wait so long for the job to end and show its result")
	set.BoolVar(&f.dryRun, "dry-run", false, "check everything, show the job, enqueue nothing")
	command.MarkFlagsMutuallyExclusive("payload", "payload-file")
	command.MarkFlagsMutuallyExclusive("metadata", "metadata-file")
	command.MarkFlagsMutuallyExclusive("run-at", "delay")
	command.MarkFlagsMutuallyExclusive("wait", "dry-run")
	command.MarkFlagsRequiredTogether("debounce", "debounce-longest")
}

// options are the flags as options of an enqueue. What was not given is left to the defaults.
func (f *enqueueFlags) options(ctx context.Context, command *cobra.Command, clock *databaseClock, metadata json.RawMessage) ([]pgqueue.EnqueueOption, error) {
	given := command.Flags().Changed
	var options []pgqueue.EnqueueOption
	add := func(flag string, option pgqueue.EnqueueOption) {
		if given(flag) {
			options = append(options, option)
		}
	}
	add("queue", pgqueue.OnQueue(f.queue))
	add("key", pgqueue.WithKey(f.key))
	add("revision", pgqueue.WithRevision(f.revision))
	add("priority", pgqueue.WithPriority(f.priority))
	add("delay", pgqueue.WithDelay(time.Duration(f.delay)))
	add("max-attempts", pgqueue.WithMaxAttempts(f.maxAttempts))
	add("tag", pgqueue.WithTags(f.tags...))
	add("throttle", pgqueue.WithThrottle(time.Duration(f.throttle)))
	add("debounce", pgqueue.WithDebounce(time.Duration(f.debounce), time.Duration(f.debounceLimit)))
	add("idempotency-key", pgqueue.WithIdempotencyKey(f.idempotencyKey, time.Duration(f.keep)))
	if metadata != nil {
		options = append(options, pgqueue.WithMetadata(metadata))
	}
	if given("run-at") {
		at, err := clock.resolve(ctx, "run-at", f.runAt)
		if err != nil {
			return nil, err
		}
		options = append(options, pgqueue.WithRunAt(at))
	}
	return f.uniqueOptions(given, options)
}

// uniqueOptions are the flags of --unique and of keys that are kept.
func (f *enqueueFlags) uniqueOptions(given func(string) bool, options []pgqueue.EnqueueOption) ([]pgqueue.EnqueueOption, error) {
	if given("idempotency-key") != given("keep") && !f.unique {
		return nil, usage("--idempotency-key and --keep belong together: a key is kept for a time")
	}
	if !f.unique {
		for _, flag := range []string{"unique-args", "unique-kind", "unique-period"} {
			if given(flag) {
				return nil, usage("--%s belongs to --unique", flag)
			}
		}
		return options, nil
	}
	if given("idempotency-key") {
		return nil, usage("--unique and --idempotency-key exclude each other")
	}
	return append(options, pgqueue.WithUnique(pgqueue.Unique{
		Args: f.uniqueArgs, IgnoreArgs: f.uniqueKind, Keep: time.Duration(f.keep), Period: time.Duration(f.uniquePeriod),
	})), nil
}

// enqueueDocuments reads payload and metadata.
func (a *app) enqueueDocuments(f *enqueueFlags) (payload, metadata json.RawMessage, err error) {
	if f.payloadFile == "-" && f.metadataFile == "-" {
		return nil, nil, usage("--payload-file and --metadata-file cannot both read the input")
	}
	if payload, err = a.document("--payload-file", f.payloadFile, f.payload); err != nil {
		return nil, nil, err
	}
	if metadata, err = a.document("--metadata-file", f.metadataFile, f.metadata); err != nil {
		return nil, nil, err
	}
	return payload, metadata, nil
}

// document is a JSON document of a flag, of a file or of the input; nil where none was given. An empty file is refused: it is the
// output of a command that failed more often than it is meant.
func (a *app) document(flag, file, text string) (json.RawMessage, error) {
	if file == "" {
		if text == "" {
			return nil, nil
		}
		return json.RawMessage(text), nil
	}
	from := a.in
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, usage("%s: %w", flag, err)
		}
		defer opened.Close()
		from = opened
	}
	read, err := io.ReadAll(io.LimitReader(from, maxDocument+1))
	switch {
	case err != nil && file != "-": // a directory, say
		return nil, usage("%s: %w", flag, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", flag, err)
	case len(read) > maxDocument:
		return nil, usage("%s: it has more than %s", flag, byteSize(maxDocument))
	case len(read) == 0:
		return nil, usage("%s: %s is empty; {} is the payload without arguments", flag, map[bool]string{true: "the input", false: visible(file)}[file == "-"])
	}
	return read, nil
}
