package pgqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
)

// EnqueueFunc enqueues jobs with q and answers by position: what [WithEnqueueMiddleware] wraps. One job comes from
// [Client.Enqueue], several from [Client.EnqueueMany] and [Client.EnqueueCopy]; of the latter the answers carry no ids.
type EnqueueFunc func(ctx context.Context, q Querier, jobs []NewJob) ([]Enqueued, error)

// WithEnqueueMiddleware puts middleware around [Client.Enqueue], [Client.EnqueueMany] and [Client.EnqueueCopy]: to trace or
// count them, to refuse them, or to add to the jobs, such as metadata with [AddMetadata]. What enqueues by SQL does not pass
// through it. The first one is the outermost; given several times, later ones are inside. Each is called when the client is
// made, and what it returns serves all goroutines.
//
// A middleware passes q on as it is and answers with as many answers as it was given jobs. The slice of jobs is made for
// the call: it may change elements and append to their Options, which win over what the call and the type say, and must
// not keep it. Validation comes after, so what it added is checked like anything else, and a [*ValidationError] comes back
// through it. An error that it returns reaches the caller as it is.
//
// A panic below a middleware, its own or that of an argument's method, is logged and becomes an error: telemetry must not
// end a request. Roll back then, as after every error. Without middleware nothing is added to an enqueue.
func WithEnqueueMiddleware(middleware ...func(next EnqueueFunc) EnqueueFunc) ClientOption {
	return func(s *clientSettings) { s.enqueue = append(s.enqueue, middleware...) }
}

// Kind is the kind of the job, or "" where Args is nil.
func (j NewJob) Kind() string {
	args, _, err := resolveArgs(j.Args)
	if err != nil {
		return ""
	}
	return args.Kind()
}

// Queue is the queue that the job is put on, by its options and those of its type, or "" where Args is nil.
func (j NewJob) Queue() string {
	args, _, err := resolveArgs(j.Args)
	if err != nil {
		return ""
	}
	return collectSettings(args, j.Options).queue
}

// enqueueChain is the three ways to enqueue, inside the middleware; nil fields where there is none.
type enqueueChain struct {
	one, many, copied EnqueueFunc
}

// newEnqueueChain wraps the client's own functions.
func (c *Client) newEnqueueChain(middleware []func(EnqueueFunc) EnqueueFunc) (enqueueChain, error) {
	if len(middleware) == 0 {
		return enqueueChain{}, nil
	}
	chain := enqueueChain{one: c.enqueueOne, many: c.enqueueMany, copied: c.enqueueCopied}
	for _, end := range []*EnqueueFunc{&chain.one, &chain.many, &chain.copied} {
		for i, wrap := range slices.Backward(middleware) {
			if wrap == nil {
				return chain, invalid(fmt.Sprintf("enqueue_middleware[%d]", i), "must not be nil")
			}
			if *end = wrap(*end); *end == nil {
				return chain, invalid(fmt.Sprintf("enqueue_middleware[%d]", i), "returned a nil function")
			}
		}
	}
	return chain, nil
}

// through calls a chain with jobs that are its own.
func (c *Client) through(ctx context.Context, chain EnqueueFunc, q Querier, jobs []NewJob) (enqueued []Enqueued, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			c.logger.ErrorContext(ctx, "pgqueue: a panic in the middleware of an enqueue", "type", fmt.Sprintf("%T", cause), "stack", string(debug.Stack()))
			enqueued, err = nil, fmt.Errorf("enqueue: panic in the middleware: %v", cause)
		}
	}()
	given := len(jobs)
	enqueued, err = chain(ctx, q, jobs)
	if err == nil && len(enqueued) != given {
		return nil, fmt.Errorf("enqueue: the middleware answered for %d jobs and was given %d", len(enqueued), given)
	}
	return enqueued, err
}

// preset is a job with all of its options in one: the middleware's own slice to append to, and the type's options stay where
// a middleware replaces the arguments. It also keeps the caller's options from escaping to the heap where there is no
// middleware, as they would with each call that might hand them on.
func preset(args Args, options []EnqueueOption) NewJob {
	resolved, _, err := resolveArgs(args)
	if err != nil {
		resolved = nil // refused later
	}
	settings := collectSettings(resolved, options)
	settings.members = slices.Clip(settings.members)
	return NewJob{Args: args, Options: []EnqueueOption{func(s *enqueueSettings) { *s = settings }}}
}

func presetAll(jobs []NewJob) []NewJob {
	all := make([]NewJob, len(jobs))
	for i := range jobs {
		all[i] = preset(jobs[i].Args, jobs[i].Options)
	}
	return all
}

// enqueueOne, enqueueMany and enqueueCopied are the ends of the chains.
func (c *Client) enqueueOne(ctx context.Context, q Querier, jobs []NewJob) ([]Enqueued, error) {
	if len(jobs) != 1 {
		return nil, fmt.Errorf("enqueue: the middleware passed on %d jobs of one", len(jobs))
	}
	return c.insertOne(ctx, q, jobs[0].Args, jobs[0].Options)
}

func (c *Client) enqueueMany(ctx context.Context, q Querier, jobs []NewJob) ([]Enqueued, error) {
	return c.insertMany(ctx, q, jobs)
}

func (c *Client) enqueueCopied(ctx context.Context, q Querier, jobs []NewJob) ([]Enqueued, error) {
	copier, ok := q.(Copier)
	if !ok {
		return nil, fmt.Errorf("enqueue by copy: the middleware passed on a %T, which cannot COPY", q)
	}
	written, err := c.copyJobs(ctx, copier, jobs)
	if written == 0 {
		return nil, err
	}
	enqueued := make([]Enqueued, written)
	for i := range enqueued {
		enqueued[i].Outcome = Inserted
	}
	return enqueued, err
}

// AddMetadata puts one member into the job's metadata, over what [WithMetadata] gives, wherever that stands: anything that
// encoding/json can write. Of two with one key the later one wins. It is for middleware and for types, which must not replace
// what the call says.
func AddMetadata(key string, value any) EnqueueOption {
	return func(s *enqueueSettings) { s.members = append(s.members, metadataMember{key, value}) }
}

// metadataMember is one AddMetadata.
type metadataMember struct {
	key   string
	value any
}

// addMembers puts the members of AddMetadata into an object that has been validated.
func (s *enqueueSettings) addMembers(object json.RawMessage, limit int) (json.RawMessage, *ValidationError) {
	merged := map[string]json.RawMessage{}
	if err := json.Unmarshal(object, &merged); err != nil {
		return nil, &ValidationError{Field: "metadata", Message: "cannot be added to: " + err.Error(), cause: err}
	}
	for _, member := range s.members {
		field := "metadata." + member.key
		text, err := json.Marshal(member.value)
		if err != nil {
			return nil, &ValidationError{Field: field, Message: "cannot be written as JSON: " + err.Error(), cause: err}
		}
		if err := checkJSON(field, text, limit, member.value); err != nil {
			return nil, err
		}
		merged[member.key] = text
	}
	return encodeJSON("metadata", merged, limit)
}
