package console

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func operationsRoutes() []route {
	return []route{
		{http.MethodGet, "/operations", Viewer, listOperations},
		{http.MethodGet, "/operations/{operation}", Viewer, showOperation},
		{http.MethodPost, "/operations/{operation}/stop", Operator, stopOperation},
	}
}

// operationView is an operation as the screens show it.
type operationView struct {
	operationState
	Path      string // below the prefix
	Title     string
	Actor     string
	Badge     string // the state of a badge that looks like this one
	Facts     []fact // the filter
	Expected  int    // 0: not known
	Elapsed   time.Duration
	PerSecond float64
	Left      time.Duration // 0: not known
	Skips     []skipView
	Problem   string // why it failed
	ResumeURL string // where to go on; empty: nowhere
	AuditURL  string
}

// skipView is a job that was left as it was.
type skipView struct {
	pgqueue.Skip
	Why string
}

// viewOf makes a view of an operation.
func (r *request) viewOf(state operationState) operationView {
	work := state.Work
	v := operationView{
		operationState: state, Path: "/operations/" + url.PathEscape(state.ID), Title: work.Bulk.Title, Actor: work.actor,
		Badge: badgeOf(state.State), Facts: r.filterFacts(work.Bulk.Filter), Expected: work.expected,
		AuditURL: r.url("/audit", url.Values{"actor": {work.actor}, "action": {string(work.action)}}),
	}
	end := state.Ended
	if end.IsZero() {
		end = time.Now()
	}
	if !state.Started.IsZero() {
		v.Elapsed = end.Sub(state.Started)
	}
	if seconds := v.Elapsed.Seconds(); seconds > 0 {
		v.PerSecond = float64(state.Result.Matched) / seconds
	}
	if rest := v.Expected - state.Result.Matched; state.Running() && rest > 0 && v.PerSecond > 0 && v.Elapsed > time.Second {
		v.Left = time.Duration(float64(rest) / v.PerSecond * float64(time.Second)).Round(time.Second)
	}
	for _, skip := range state.Result.Skips {
		v.Skips = append(v.Skips, skipView{skip, skipWords(skip.Reason)})
	}
	if state.Err != nil {
		v.Problem = problemOf(state.Err)
	}
	if state.State == operationStopped || state.State == operationFailed {
		rest := *work.Bulk
		rest.Resume = state.Cursor
		v.ResumeURL = r.url("/bulk/confirm", rest.query())
	}
	return v
}

// badgeOf is the state of the badge that stands for a phase.
func badgeOf(phase operationPhase) string {
	switch phase {
	case operationWaiting:
		return "pending"
	case operationDone:
		return "succeeded"
	case operationStopped:
		return "cancelled"
	default:
		return string(phase)
	}
}

// skipWords says why a job was left as it was.
func skipWords(reason pgqueue.SkipReason) string {
	switch reason {
	case pgqueue.SkipKeyTaken:
		return "a newer job has its key"
	case pgqueue.SkipChanged:
		return "it changed meanwhile"
	case pgqueue.SkipLocked:
		return "somebody else holds its row"
	case pgqueue.SkipReferenced:
		return "another table refers to it"
	case pgqueue.SkipTimeout:
		return "statement_timeout ended it"
	case pgqueue.SkipRefused:
		return "Postgres refused"
	default:
		return string(reason)
	}
}

// problemOf is why an operation failed, for those who look at it. What Postgres says is shown, for whoever acts on a hundred thousand jobs
// has to know; the stack of a panic and the address of a server are for the log.
func problemOf(err error) string {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return explain(err).text + " Postgres says: " + refused.Message + " (" + refused.Code + ")."
	}
	return explain(err).text
}

// listOperations shows what runs, and what ended within an hour.
func listOperations(r *request) error {
	r.live()
	var views []operationView
	for _, state := range r.console.operations.list() {
		views = append(views, r.viewOf(state))
	}
	return r.page(http.StatusOK, "operations", "jobs", "Operations", views)
}

// operation is the operation that the address names.
func (r *request) operation() (*operation, error) {
	o := r.console.operations.get(r.PathValue("operation"))
	if o == nil {
		return nil, notFound("There is no such operation in this process: it ended more than an hour ago, or the console was started anew. " +
			"What it did is in the audit log, and the log of the console says where to go on.")
	}
	return o, nil
}

// showOperation shows how far an operation is.
func showOperation(r *request) error {
	o, err := r.operation()
	if err != nil {
		return err
	}
	state := o.snapshot()
	if state.Running() {
		r.live()
	}
	v := r.viewOf(state)
	return r.page(http.StatusOK, "operation", "jobs", v.Title, v)
}

// stopOperation asks an operation to end. It is no error where it has ended.
func stopOperation(r *request) error {
	o, err := r.operation()
	if err != nil {
		return err
	}
	o.stop(r.identity.Name)
	return r.redirect("/operations/"+url.PathEscape(o.id), url.Values{"done": {"stop"}})
}
