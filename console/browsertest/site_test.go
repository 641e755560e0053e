package browsertest

import (
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/console"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// site is a console over a database of its own, mounted the way an application mounts it.
type site struct {
	URL    string // without the prefix
	prefix string
	db     *pgqueuetest.DB
}

// newSite serves a console with two users: olga, an operator, and vera, a viewer.
func newSite(t *testing.T) *site {
	t.Helper()
	return newSiteOn(t, pgqueuetest.New(t))
}

func newSiteOn(t *testing.T, db *pgqueuetest.DB) *site {
	t.Helper()
	const prefix = "/admin/jobs"
	ui, err := console.New(console.Config{Pool: db.Pool, Schema: db.Schema, Prefix: prefix, Authenticator: console.AuthenticatorFunc(whoIs),
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", challenge(ui))
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.Close()
		if err := ui.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &site{URL: server.URL, prefix: prefix, db: db}
}

func passwordOf(user string) string { return "secret-of-" + user }

// challenge makes browsers send the credentials that they were given.
func challenge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, ok := r.BasicAuth(); !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="pgqueue"`)
		}
		next.ServeHTTP(w, r)
	})
}

func whoIs(r *http.Request) (console.Identity, error) {
	user, password, _ := r.BasicAuth()
	role, known := map[string]console.Role{"olga": console.Operator, "vera": console.Viewer}[user]
	if !known || password != passwordOf(user) {
		return console.Identity{}, console.ErrUnauthenticated
	}
	return console.Identity{Name: user, Role: role}, nil
}

//go:embed testdata/shop.sql
var shopSQL string

// shop fills the database with a shop on a busy afternoon.
func (s *site) shop(t *testing.T) {
	t.Helper()
	if _, err := s.db.Pool.Exec(t.Context(), strings.ReplaceAll(shopSQL, "pgqueue.", pgx.Identifier{s.db.Schema}.Sanitize()+"."), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("the shop: %v", err)
	}
}
