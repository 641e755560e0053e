package pgqueuetest

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"runtime"
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// Matcher narrows the jobs that [Enqueued] and its companions look for. Given several, a job must match them all.
type Matcher func(*search)

// search is what the matchers of one call add up to.
type search struct {
	schema     string
	kind       string // empty: any
	conditions []condition
}

// condition is one thing that a job must have.
type condition struct {
	args  reflect.Type                   // of the arguments that check understands; nil: any
	want  string                         // for people
	check func(job *liveJob) []different // nothing: the job matches
}

// different is one difference between a job and what is wanted.
type different struct{ what, want, is string }

func newSearch(kind string, matchers []Matcher) *search {
	s := &search{schema: migrations.DefaultSchema, kind: kind}
	for _, matcher := range matchers {
		if matcher != nil {
			matcher(s)
		}
	}
	return s
}

// equal adds the condition that a property is want.
func equal[V comparable](what string, want V, is func(*liveJob) V) Matcher {
	return func(s *search) {
		text := func(value V) string { return fmt.Sprintf("%#v", value) }
		s.conditions = append(s.conditions, condition{
			want: what + " " + text(want),
			check: func(job *liveJob) []different {
				if got := is(job); got != want {
					return []different{{what, text(want), text(got)}}
				}
				return nil
			},
		})
	}
}

// InSchema looks in the tables of another schema than "pgqueue".
func InSchema(schema string) Matcher {
	return func(s *search) { s.schema = schema }
}

// OfKind looks for another kind than that of T: for [pgqueue.Raw], whose kind is known at run time only. Without it, Raw
// stands for any kind.
func OfKind(kind string) Matcher {
	return func(s *search) { s.kind = kind }
}

// OnQueue matches the jobs of one queue. Without it, the queue does not matter.
func OnQueue(queue string) Matcher {
	return equal("queue", queue, func(job *liveJob) string { return job.Queue })
}

// WithKey matches the jobs of one key; the empty key matches jobs without one.
func WithKey(key string) Matcher {
	return equal("key", key, func(job *liveJob) string { return job.Key })
}

// WithRevision matches the jobs whose input is of one revision; the empty one matches jobs without.
func WithRevision(revision string) Matcher {
	return equal("revision", revision, func(job *liveJob) string { return job.Revision })
}

// WithPriority matches the jobs of one priority.
func WithPriority(priority int) Matcher {
	return equal("priority", priority, func(job *liveJob) int { return job.Priority })
}

// WithTag matches the jobs that have a tag, beside any others.
func WithTag(tag string) Matcher {
	return func(s *search) {
		s.conditions = append(s.conditions, condition{
			want: fmt.Sprintf("tag %q", tag),
			check: func(job *liveJob) []different {
				if slices.Contains(job.Tags, tag) {
					return nil
				}
				return []different{{"tags", fmt.Sprintf("%q among them", tag), fmt.Sprintf("%q", job.Tags)}}
			},
		})
	}
}

// Due matches the jobs that a worker could claim now: pending, and due by the database's clock.
func Due() Matcher {
	return func(s *search) {
		s.conditions = append(s.conditions, condition{want: "due now", check: func(job *liveJob) []different {
			switch {
			case job.State != "pending":
				return []different{{"state", "pending", job.State}}
			case !job.Due:
				return []different{{"due", "now", job.when()}}
			default:
				return nil
			}
		}})
	}
}

// Delayed matches the jobs that are not due yet: enqueued with a delay or for a time to come, snoozed, or waiting for
// another attempt.
func Delayed() Matcher {
	return func(s *search) {
		s.conditions = append(s.conditions, condition{want: "due later", check: func(job *liveJob) []different {
			if job.Due {
				return []different{{"due", "later", job.when()}}
			}
			return nil
		}})
	}
}

// DueBetween matches the jobs that become due from one time to another, both included.
func DueBetween(from, to time.Time) Matcher {
	return func(s *search) {
		want := fmt.Sprintf("from %s to %s", clock(from), clock(to))
		s.conditions = append(s.conditions, condition{want: "due " + want, check: func(job *liveJob) []different {
			if job.RunAt.IsZero() || job.RunAt.Before(from) || job.RunAt.After(to) {
				return []different{{"due", want, job.when()}}
			}
			return nil
		}})
	}
}

// DelayedBy matches the jobs that were enqueued to run after a delay, give or take a minute for the time that passes
// between the calls of a test.
func DelayedBy(delay time.Duration) Matcher {
	return func(s *search) {
		s.conditions = append(s.conditions, condition{want: "delayed by " + delay.String(), check: func(job *liveJob) []different {
			got := job.RunAt.Sub(job.CreatedAt)
			if job.RunAt.IsZero() || (got-delay).Abs() > time.Minute {
				return []different{{"delay", delay.String(), got.Round(time.Millisecond).String()}}
			}
			return nil
		}})
	}
}

// WithArgs matches the jobs whose arguments equal want, as a handler would decode both. A failure shows which fields differ.
func WithArgs[T pgqueue.Args](want T) Matcher {
	return func(s *search) {
		text, err := payloadOf(want)
		var decoded T
		if err == nil {
			decoded, err = decodeArgs[T](want.Kind(), text)
		}
		s.conditions = append(s.conditions, condition{
			args: reflect.TypeFor[T](),
			want: "args " + short(string(text)),
			check: func(job *liveJob) []different {
				if err != nil {
					return []different{{"args", "what cannot be written as JSON: " + err.Error(), short(string(job.payload))}}
				}
				if reflect.DeepEqual(job.args, any(decoded)) {
					return nil
				}
				return differentJSON(text, job.payload)
			},
		})
	}
}

// Matching matches the jobs for whose arguments match returns true.
func Matching[T pgqueue.Args](match func(args T) bool) Matcher {
	return func(s *search) {
		place := "a function"
		if function := runtime.FuncForPC(reflect.ValueOf(match).Pointer()); function != nil {
			file, line := function.FileLine(function.Entry())
			place = fmt.Sprintf("the function at %s:%d", path.Base(file), line)
		}
		s.conditions = append(s.conditions, condition{
			args: reflect.TypeFor[T](),
			want: "args that " + place + " accepts",
			check: func(job *liveJob) []different {
				if args, ok := job.args.(T); ok && match(args) {
					return nil
				}
				return []different{{"args", "what " + place + " accepts", short(string(job.payload))}}
			},
		})
	}
}

// payloadOf is what an enqueue of args would store, up to the form.
func payloadOf[T pgqueue.Args](args T) (json.RawMessage, error) {
	if raw, ok := any(args).(pgqueue.Raw); ok {
		if len(raw.Payload) == 0 {
			return json.RawMessage("{}"), nil
		}
		return raw.Payload, nil
	}
	text, err := json.Marshal(args)
	if string(text) == "null" {
		return json.RawMessage("{}"), err
	}
	return text, err
}
