package console

import (
	"errors"
	"net/http"
)

// Role says what somebody may do.
type Role int

// The roles. The zero value may do nothing.
const (
	// Viewer sees everything.
	Viewer Role = iota + 1
	// Operator acts, too.
	Operator
)

// Identity is who asks.
type Identity struct {
	// Name is for the audit log and the page's head; it must not be empty.
	Name string
	Role Role
}

// ErrUnauthenticated says that a request names nobody, or nobody known. The console answers 401.
var ErrUnauthenticated = errors.New("console: not authenticated")

// Authenticator says who asks. It is called for every request but those for the static files, by many goroutines at once.
type Authenticator interface {
	// Authenticate returns who asks, or ErrUnauthenticated. Every other error is answered with 500 and logged.
	Authenticate(r *http.Request) (Identity, error)
}

// AuthenticatorFunc is a function as an Authenticator.
type AuthenticatorFunc func(r *http.Request) (Identity, error)

// Authenticate calls f.
func (f AuthenticatorFunc) Authenticate(r *http.Request) (Identity, error) { return f(r) }
