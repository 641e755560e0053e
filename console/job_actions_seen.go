package console

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// seenValue is what the page of an action shows of the value that it changes, for the form; empty: it changes none, or the version tells of it.
func seenValue(action string, job *pgqueue.JobDetail) string {
	switch action {
	case "reschedule":
		return job.RunAt.UTC().Format(time.RFC3339Nano)
	case "priority":
		return strconv.Itoa(job.Priority)
	case "max-attempts":
		return strconv.Itoa(job.MaxAttempts)
	default:
		return ""
	}
}

// Seen is the value that the form was made for.
func (p *jobConfirm) Seen() string { return p.typed("seen", seenValue(p.Action, p.Job)) }

// seenRounds is how often an action is begun anew because somebody else was at the job at the same time.
const seenRounds = 5

// ifSeen acts on a job whose value still is the one that the form shows, and whose state is: neither a new due time, priority or number of
// attempts nor a retry makes another version.
//
// The look and the action are one transaction in REPEATABLE READ: where the job has changed between them, Postgres refuses (40001), and it
// is looked at again. To lock the row first would take a right on the table, which an operator does not have.
func (r *request) ifSeen(action string, id int64, act func(*pgqueue.Inspector) error) error {
	seen, state, ctx := r.PostForm.Get("seen"), r.PostForm.Get("state"), r.Context()
	if seen == "" {
		return act(r.inspector())
	}
	for round := 1; ; round++ {
		err := pgx.BeginTxFunc(ctx, r.console.config.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
			inspector := r.inspector().On(tx)
			job, err := inspector.Peek(ctx, id, 0)
			if err != nil {
				return err
			}
			if state != "" && state != string(job.State) {
				return conflict(fmt.Sprintf("Job %d has changed: it is %s, no longer %s.", id, job.State, state))
			}
			if have := seenValue(action, job); have != seen {
				return conflict(fmt.Sprintf("Somebody else was faster: %s of job %d is %s now, no longer %s.",
					map[string]string{"reschedule": "the due time", "priority": "the priority", "max-attempts": "the number of attempts"}[action], id, have, seen))
			}
			return act(inspector)
		})
		if failed, ok := errors.AsType[*pgconn.PgError](err); ok && failed.Code == "40001" && round < seenRounds {
			continue
		}
		return err
	}
}

// jobFormAgain answers a form for a job action whose token is not taken: with the same form, which has a token of now and what was typed.
// Nothing was done; to send it again is a decision of who reads it. All other refusals stay what they are. It was not another site's
// form: that ends before the form is read.
func (r *request) jobFormAgain(route route, refused error) error {
	name, ok := strings.CutPrefix(route.path, "/jobs/{id}/")
	if !ok || route.method != http.MethodPost || !r.can(route.role) || r.PostForm == nil || r.csrf != "" || explain(refused).status != http.StatusForbidden {
		return refused
	}
	action, ok := jobActionOf(name)
	id, err := r.id("id")
	if !ok || err != nil {
		return refused
	}
	r.giveToken()
	return askForJobAction(r, id, action, &httpError{
		status: http.StatusForbidden, text: "This form was too old. Look at it, and send it again if it is what you want",
	}, r.PostForm)
}
