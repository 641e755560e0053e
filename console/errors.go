package console

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/doctor"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/schedule"
)

// httpError is an error with a status and a text for the one who asks. A screen returns it, or an error of pgqueue as it is: one
// place says what that means, see explain.
type httpError struct {
	status int
	text   string
	err    error // for the log; nil: there is nothing to log
}

func (e *httpError) Error() string { return e.text }
func (e *httpError) Unwrap() error { return e.err }

func notFound(text string) error   { return &httpError{status: http.StatusNotFound, text: text} }
func badRequest(text string) error { return &httpError{status: http.StatusBadRequest, text: text} }
func conflict(text string) error   { return &httpError{status: http.StatusConflict, text: text} }
func forbidden(text string) error  { return &httpError{status: http.StatusForbidden, text: text} }

const lost = "The database cannot be reached, or the connection to it was lost. Try again."

const noTables = "The tables are missing, or of another version than this console: run `pgqueue migrate up`."

// explain makes of any error what the one who asks may read. Errors that pgqueue's users are meant to see are shown; of all others,
// which may quote what is stored, only the log has the text.
func explain(err error) *httpError {
	if known, ok := errors.AsType[*httpError](err); ok {
		return known
	}
	if status := ofPgqueue(err); status != 0 {
		return &httpError{status: status, text: err.Error()}
	}
	switch {
	case errors.Is(err, errClosed):
		return &httpError{http.StatusServiceUnavailable, "The console is stopping.", err}
	case errors.Is(err, pgqueue.ErrSchema):
		return &httpError{http.StatusServiceUnavailable, noTables, err}
	case errors.Is(err, pgqueue.ErrReadOnly):
		return &httpError{http.StatusServiceUnavailable, "This database is read-only, a standby perhaps: actions need the primary.", err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errTooSlow):
		return &httpError{http.StatusGatewayTimeout, "The database took too long. Ask for less, or look at the database page.", err}
	}
	if refused, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &httpError{http.StatusRequestEntityTooLarge, "That is more than a form may hold.", refused}
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return ofPostgres(refused, err)
	}
	if unreachable(err) {
		return &httpError{http.StatusServiceUnavailable, lost, err}
	}
	return &httpError{http.StatusInternalServerError, "Something went wrong. The log of the console says what.", err}
}

// ofPgqueue is the status for what pgqueue refuses by a decision, whose texts are written for people; 0: it is none of these.
func ofPgqueue(err error) int {
	changed, _ := errors.AsType[*pgqueue.ChangedError](err)
	taken, _ := errors.AsType[*pgqueue.KeyTakenError](err)
	referenced, _ := errors.AsType[*pgqueue.ReferencedError](err)
	option, _ := errors.AsType[*doctor.OptionError](err)
	switch {
	case changed != nil, taken != nil, referenced != nil,
		errors.Is(err, pgqueue.ErrJobLive), errors.Is(err, pgqueue.ErrJobRunning), errors.Is(err, pgqueue.ErrJobEnded),
		errors.Is(err, schedule.ErrNeedsProgram):
		return http.StatusConflict
	case errors.Is(err, pgqueue.ErrNotFound), errors.Is(err, schedule.ErrNoSchedule):
		return http.StatusNotFound
	case errors.Is(err, pgqueue.ErrInvalid), option != nil: // a schedule.ConfigError, too
		return http.StatusBadRequest
	default:
		return 0
	}
}

// unreachable says whether an error is of the connection and not of what was asked: there is none, or it was cut off.
func unreachable(err error) bool {
	connect, _ := errors.AsType[*pgconn.ConnectError](err)
	network, _ := errors.AsType[*net.OpError](err)
	return connect != nil || network != nil || errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET)
}

// ofPostgres explains what an administrator of the database can mend.
func ofPostgres(refused *pgconn.PgError, err error) *httpError {
	if strings.HasPrefix(refused.Code, "08") { // the connection failed, as a pooler says it
		return &httpError{http.StatusServiceUnavailable, lost, err}
	}
	switch refused.Code {
	case "42P01", "42883", "42703", "3F000": // no such table, function, column, schema
		return &httpError{http.StatusServiceUnavailable, noTables, err}
	case "42501": // insufficient_privilege
		return &httpError{http.StatusForbidden, "The console's database role has no right for this: docs/roles.md has the GRANTs.", err}
	case "25006": // read_only_sql_transaction
		return &httpError{http.StatusServiceUnavailable, "This database is read-only, a standby perhaps: actions need the primary.", err}
	case "57014": // query_canceled, by statement_timeout
		return &httpError{http.StatusGatewayTimeout, "The database took too long: a statement_timeout ended the query.", err}
	case "57P01", "57P02", "57P03", "57P04", "57P05", "53300": // it stops, starts, ended the session, or has no connection left
		return &httpError{http.StatusServiceUnavailable, lost, err}
	case "55P03", "40P01", "40001": // a lock was not to be had, a deadlock, a conflict
		return &httpError{http.StatusConflict, "Somebody else holds what this would change. Try again.", err}
	default:
		return &httpError{http.StatusInternalServerError, "Something went wrong. The log of the console says what.", err}
	}
}

// errorPage is the data of templates/error.html.
type errorPage struct {
	Status int
	Title  string
	Text   string
}

// fail answers with an error page, or, where an answer has begun already, ends the connection, so that it does not look whole.
func (r *request) fail(err error) {
	known := explain(err)
	if known.status >= http.StatusInternalServerError {
		r.console.logger.ErrorContext(r.Context(), "console: a request failed", "path", r.URL.Path, "status", known.status, "error", err)
	}
	if w, ok := r.w.(*answer); ok && w.begun {
		panic(http.ErrAbortHandler)
	}
	header := r.w.Header()
	header.Del("Content-Disposition")
	header.Del("Content-Encoding")
	r.isLive = false
	page := errorPage{Status: known.status, Title: http.StatusText(known.status), Text: known.text}
	if err := r.page(known.status, "error", "", page.Title, page); err != nil {
		r.console.logger.ErrorContext(r.Context(), "console: the error page failed", "error", err)
		http.Error(r.w, known.text, known.status)
	}
}
