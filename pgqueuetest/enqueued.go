package pgqueuetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// queryTimeout bounds one look at the jobs.
const queryTimeout = time.Minute

// Querier is what jobs are looked for with: a transaction, a connection or a pool. A job that was enqueued in a
// transaction that is still open is seen through that transaction only.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// EnqueuedJob is a live job: one that is pending or running. Times are the database's.
type EnqueuedJob[T pgqueue.Args] struct {
	pgqueue.JobInfo
	// State is "pending" or "running".
	State string
	// Due says that the job's time had come when the test looked.
	Due bool
	// Args are decoded as for a handler.
	Args T
}

// Enqueued returns the live jobs of T's kind that match, in the order in which they were enqueued. It does not fail when
// there are none. A job that has finished is not live any more; count those by [pgqueue.DrainResult].
//
// It ends the test when the jobs cannot be read, or the arguments of one do not fit T.
func Enqueued[T pgqueue.Args](t testing.TB, q Querier, matchers ...Matcher) []EnqueuedJob[T] {
	t.Helper()
	found := look[T](t, q, matchers)
	return export[T](found.matching)
}

// RequireEnqueued returns the one live job of T's kind that matches. If there is none, or more than one, it ends the
// test, with what is wrong with the jobs that come close.
func RequireEnqueued[T pgqueue.Args](t testing.TB, q Querier, matchers ...Matcher) EnqueuedJob[T] {
	t.Helper()
	found := look[T](t, q, matchers)
	if len(found.matching) != 1 {
		t.Fatalf("pgqueuetest: %s", found.report(t.Context(), q))
	}
	return export[T](found.matching)[0]
}

// RequireNotEnqueued ends the test if a live job of T's kind matches.
func RequireNotEnqueued[T pgqueue.Args](t testing.TB, q Querier, matchers ...Matcher) {
	t.Helper()
	found := look[T](t, q, matchers)
	if len(found.matching) > 0 {
		t.Fatalf("pgqueuetest: %s", found.unwanted())
	}
}

// liveJob is a job whose arguments are of a type that only the caller knows.
type liveJob struct {
	pgqueue.JobInfo
	State   string
	Due     bool
	payload json.RawMessage
	args    any // the T
}

// candidates are the live jobs of one kind.
type candidates struct {
	search   *search
	matching []*liveJob
	close    []*near
}

// near is a job that does not match.
type near struct {
	job         *liveJob
	differences []different
}

func export[T pgqueue.Args](jobs []*liveJob) []EnqueuedJob[T] {
	exported := make([]EnqueuedJob[T], len(jobs))
	for i, job := range jobs {
		args, _ := job.args.(T)
		exported[i] = EnqueuedJob[T]{JobInfo: job.JobInfo, State: job.State, Due: job.Due, Args: args}
	}
	return exported
}

// look reads the live jobs of T's kind and sorts them into those that match and others.
func look[T pgqueue.Args](t testing.TB, q Querier, matchers []Matcher) *candidates {
	t.Helper()
	found := &candidates{search: newSearch(kindOf[T](), matchers)}
	if _, raw := any(*new(T)).(pgqueue.Raw); !raw && found.search.kind == "" {
		t.Fatalf("pgqueuetest: the zero value of %s has no kind; name one by OfKind", reflect.TypeFor[T]())
	}
	for _, condition := range found.search.conditions {
		if condition.args != nil && condition.args != reflect.TypeFor[T]() {
			t.Fatalf("pgqueuetest: a matcher for arguments of type %s cannot judge jobs of type %s", condition.args, reflect.TypeFor[T]())
		}
	}
	jobs, err := found.search.read(t.Context(), q)
	if err != nil {
		t.Fatalf("pgqueuetest: %v", err)
	}
	for _, job := range jobs {
		if job.args, err = decodeArgs[T](job.Kind, job.payload); err != nil {
			t.Fatalf("pgqueuetest: the arguments of job %d, kind %q, do not fit %s: %v: %s", job.ID, job.Kind, reflect.TypeFor[T](), err,
				short(string(job.payload)))
		}
		var differences []different
		for _, condition := range found.search.conditions {
			differences = append(differences, condition.check(job)...)
		}
		if len(differences) == 0 {
			found.matching = append(found.matching, job)
		} else {
			found.close = append(found.close, &near{job, differences})
		}
	}
	return found
}

// read returns the live jobs of the wanted kind. Infinite times, which only SQL by hand can write, become zero.
func (s *search) read(ctx context.Context, q Querier) ([]*liveJob, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := q.Query(ctx, s.sql(`
		SELECT id, queue, kind, coalesce(key, ''), coalesce(revision, ''), priority, tags, metadata::text, attempt, failures, max_attempts,
		       generation, state, run_at <= clock_timestamp(), payload::text,
		       CASE WHEN isfinite(run_at) THEN run_at END, CASE WHEN isfinite(created_at) THEN created_at END,
		       CASE WHEN state = 'running' AND isfinite(claimed_at) THEN claimed_at END
		FROM {schema}.jobs WHERE $1::text = '' OR kind = $1::text ORDER BY id`), s.kind)
	if err != nil {
		return nil, s.explain(err)
	}
	jobs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*liveJob, error) {
		job := &liveJob{}
		var metadata, payload string
		var runAt, createdAt, claimedAt *time.Time
		err := row.Scan(&job.ID, &job.Queue, &job.Kind, &job.Key, &job.Revision, &job.Priority, &job.Tags, &metadata, &job.Attempt,
			&job.Failures, &job.MaxAttempts, &job.Generation, &job.State, &job.Due, &payload, &runAt, &createdAt, &claimedAt)
		job.Metadata, job.payload = json.RawMessage(metadata), json.RawMessage(payload)
		job.RunAt, job.CreatedAt, job.ClaimedAt = orZero(runAt), orZero(createdAt), orZero(claimedAt)
		return job, err
	})
	return jobs, s.explain(err)
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// sql puts the schema into a statement.
func (s *search) sql(text string) string {
	return strings.ReplaceAll(text, "{schema}", quote(s.schema))
}

// explain says in an error where the jobs were looked for.
func (s *search) explain(err error) error {
	var fromServer *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &fromServer) && fromServer.Code == "42P01": // no such table
		return fmt.Errorf("there is no table jobs in schema %q; name another schema by InSchema, or migrate the database: %w", s.schema, err)
	default:
		return fmt.Errorf("look for jobs in schema %q: %w", s.schema, err)
	}
}

// decodeArgs decodes arguments as a handler's are, and puts [pgqueue.Raw] together again.
func decodeArgs[T pgqueue.Args](kind string, payload json.RawMessage) (args T, err error) {
	if raw, ok := any(&args).(*pgqueue.Raw); ok {
		*raw = pgqueue.Raw{Name: kind, Payload: payload}
		return args, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	return args, decoder.Decode(&args)
}

// kindOf asks the zero value of T for its kind, or a pointer to a zero value where T is a pointer; "" if it cannot tell.
func kindOf[T pgqueue.Args]() (kind string) {
	defer func() {
		if recover() != nil {
			kind = ""
		}
	}()
	var zero T
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		value, ok := reflect.New(t.Elem()).Interface().(T)
		if !ok {
			return ""
		}
		zero = value
	}
	return zero.Kind()
}
