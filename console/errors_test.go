package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/doctor"
	"github.com/pgqueue/pgqueue/internal/pgproxy"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/schedule"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestErrorsHaveAStatus(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
		shown  bool // the error's own text
	}{
		{fmt.Errorf("retry job 7: %w", pgqueue.ErrNotFound), 404, true},
		{fmt.Errorf("cancel job 7: %w: it is dead", pgqueue.ErrJobEnded), 409, true},
		{pgqueue.ErrJobLive, 409, true},
		{pgqueue.ErrJobRunning, 409, true},
		{fmt.Errorf("x: %w", &pgqueue.ChangedError{ID: 7}), 409, true},
		{&pgqueue.KeyTakenError{ID: 7, Other: 8}, 409, true},
		{&pgqueue.ReferencedError{ID: 7, Table: "orders"}, 409, true},
		{fmt.Errorf("x: %w", &pgqueue.ValidationError{Field: "queue", Message: "is too long"}), 400, true},
		{&schedule.ConfigError{Field: "spec", Message: "is wrong"}, 400, true},
		{schedule.ErrNoSchedule, 404, true},
		{schedule.ErrNeedsProgram, 409, true},
		{&doctor.OptionError{Field: "Schema", Message: "is wrong"}, 400, true},
		{fmt.Errorf("MARK: %w", pgqueue.ErrSchema), 503, false},
		{fmt.Errorf("MARK: %w", pgqueue.ErrReadOnly), 503, false},
		{fmt.Errorf("MARK: %w", context.DeadlineExceeded), 504, false},
		{fmt.Errorf("MARK: %w", errTooSlow), 504, false},
		{fmt.Errorf("MARK: %w", &pgconn.PgError{Code: "57014", Message: "MARK"}), 504, false},
		{&pgconn.PgError{Code: "42P01", Message: "MARK"}, 503, false},
		{&pgconn.PgError{Code: "42501", Message: "MARK"}, 403, false},
		{&pgconn.PgError{Code: "25006", Message: "MARK"}, 503, false},
		{&pgconn.PgError{Code: "57P03", Message: "MARK"}, 503, false},
		{&pgconn.PgError{Code: "57P05", Message: "MARK"}, 503, false},
		{&pgconn.PgError{Code: "08P01", Message: "MARK"}, 503, false},
		{fmt.Errorf("MARK: %w", pgconn.ErrConnClosed), 503, false},
		{fmt.Errorf("MARK: %w", io.ErrUnexpectedEOF), 503, false},
		{fmt.Errorf("MARK: %w", &net.OpError{Op: "MARK", Err: errors.New("MARK")}), 503, false},
		{&pgconn.PgError{Code: "55P03", Message: "MARK"}, 409, false},
		{&pgconn.PgError{Code: "22P02", Message: "MARK"}, 500, false},
		{errors.New("MARK"), 500, false},
		{&http.MaxBytesError{Limit: 7}, 413, false},
		{fmt.Errorf("x: %w", notFound("There is no such page.")), 404, false},
	} {
		got := explain(test.err)
		if got.status != test.status || test.shown != (got.text == test.err.Error()) || strings.Contains(got.text, "MARK") {
			t.Errorf("%v: status %d, text %q", test.err, got.status, got.text)
		}
	}
}

// What a database that is not there says holds names of hosts and roles: it is for the log.
func TestADatabaseThatIsNotThere(t *testing.T) {
	db := pgqueuetest.New(t)
	config := db.Pool.Config().Copy()
	config.ConnConfig.Port = 1
	config.ConnConfig.Fallbacks = nil
	config.ConnConfig.Host = "127.0.0.1"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	c := newConsole(t, db, func(config *Config) { config.Pool, config.Logger = pool, discard() })
	c.add(route{http.MethodGet, "/x/asks", Viewer, func(r *request) error {
		_, err := r.inspector().Workers(r.Context())
		return err
	}})
	reply := c.get("/x/asks").want(t, http.StatusServiceUnavailable)
	if strings.Contains(reply.body, "127.0.0.1") || !strings.Contains(reply.body, "cannot be reached") {
		t.Error(reply.short())
	}
}

func TestARequestThatTakesTooLong(t *testing.T) {
	c := newConsole(t, pgqueuetest.New(t), func(config *Config) { config.Timeout, config.Logger = 100*time.Millisecond, discard() })
	sleeps := func(r *request) error {
		_, err := r.console.config.Pool.Exec(r.Context(), "SELECT pg_sleep(0.5)")
		if err == nil {
			return r.json(http.StatusOK, "done")
		}
		return err
	}
	c.add(route{http.MethodGet, "/x/page", Viewer, sleeps})
	c.add(route{http.MethodGet, "/x/download", Viewer, func(r *request) error { r.allow(time.Minute); return sleeps(r) }})
	c.get("/x/page").want(t, http.StatusGatewayTimeout)
	c.get("/x/download").want(t, http.StatusOK)
}

// A connection that is cut while it is waited for is the database's going away, on a page and in a bulk action, and no riddle.
func TestAConnectionThatIsCut(t *testing.T) {
	db := pgqueuetest.New(t)
	config := db.Pool.Config().Copy()
	proxy, err := pgproxy.Start(pgconn.NetworkAddress(config.ConnConfig.Host, config.ConnConfig.Port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	config.ConnConfig.Host, config.ConnConfig.Port, config.ConnConfig.Fallbacks, config.ConnConfig.TLSConfig = proxy.Host(), proxy.Port(), nil, nil
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	c := newConsole(t, db, func(config *Config) { config.Pool, config.Logger = pool, discard() })
	const query = "SELECT pg_sleep(60) /* cut */"
	c.add(route{http.MethodGet, "/x/asks", Viewer, func(r *request) error {
		_, err := r.console.config.Pool.Exec(r.Context(), query)
		return fmt.Errorf("x: %w: %s", err, problemOf(err))
	}})
	ended := make(chan *reply, 1)
	go func() { ended <- c.get("/x/asks") }()
	for countSQL(t, db.Pool, "pg_stat_activity WHERE state = 'active' AND query = '"+query+"'") == 0 {
		<-time.After(10 * time.Millisecond)
	}
	proxy.Cut()
	if reply := <-ended; reply.status != http.StatusServiceUnavailable || !strings.Contains(reply.body, "connection to it was lost") {
		t.Errorf("status %d: %s", reply.status, reply.short())
	}
	if text := problemOf(io.ErrUnexpectedEOF); text != lost {
		t.Errorf("a bulk action says %q", text)
	}
}
