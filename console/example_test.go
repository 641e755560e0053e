package console_test

import (
	"context"
	"log"
	"net/http"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/console"
)

// The console in a server of your own, behind the logins that you have.
func Example() {
	pool, err := pgxpool.New(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	whoIs := func(r *http.Request) (console.Identity, error) {
		cookie, err := r.Cookie("session")
		if err != nil || cookie.Value != "looked up in your sessions" {
			return console.Identity{}, console.ErrUnauthenticated
		}
		return console.Identity{Name: "alice@example.com", Role: console.Operator}, nil
	}
	ui, err := console.New(console.Config{
		Pool:          pool,
		Prefix:        "/admin/jobs",
		AllowedHosts:  []string{"ops.example.com"},
		Authenticator: console.AuthenticatorFunc(whoIs),
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/admin/jobs/", ui)
	log.Fatal(http.ListenAndServe("localhost:8080", mux)) // with a proxy before it that does TLS
}

// Users with passwords from a file, such as `pgqueue serve --users` reads.
func ExampleBasicAuth() {
	file, err := os.Open("users")
	if err != nil {
		log.Fatal(err)
	}
	users, err := console.ParseUsers(file)
	if err != nil {
		log.Fatal(err)
	}
	authenticator, err := console.BasicAuth(users...)
	if err != nil {
		log.Fatal(err)
	}
	_ = console.Config{Authenticator: authenticator}
}
