package console

import (
	"errors"
	"fmt"
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

// String is "viewer", "operator", or "nobody".
func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Operator:
		return "operator"
	default:
		return "nobody"
	}
}

// parseRole reads what String writes of the roles that exist.
func parseRole(name string) (Role, error) {
	switch name {
	case "viewer":
		return Viewer, nil
	case "operator":
		return Operator, nil
	default:
		return 0, fmt.Errorf("there is no role %q: it is viewer or operator", name)
	}
}

// Identity is who asks.
type Identity struct {
	// Name is for the audit log and the page's head; it must not be empty.
	Name string
	Role Role
}

var (
	// ErrUnauthenticated says that a request names nobody, or nobody known. The console answers 401, or lets a [Challenger] answer.
	ErrUnauthenticated = errors.New("console: not authenticated")
	// ErrThrottled says that a password was wrong too often. The console answers 429.
	ErrThrottled = errors.New("console: too many failed attempts")
)

// Authenticator says who asks. It is called for every request but those for the static files, by many goroutines at once, before
// anything else of the request is looked at. A request whose Identity has no name or no known role is refused.
//
// It should not take a secret from the address: addresses are logged, and sent on.
type Authenticator interface {
	// Authenticate returns who asks, or ErrUnauthenticated. ErrThrottled is answered with 429, every other error with 500 and logged.
	Authenticate(r *http.Request) (Identity, error)
}

// Challenger is an [Authenticator] that answers by itself whom it does not know: with a redirect to a login page, or with a
// status 401 of its own. The headers of the console are set before.
type Challenger interface {
	Authenticator
	// Challenge writes the whole answer to a request that got ErrUnauthenticated.
	Challenge(w http.ResponseWriter, r *http.Request)
}

// AuthenticatorFunc is a function as an Authenticator.
type AuthenticatorFunc func(r *http.Request) (Identity, error)

// Authenticate calls f.
func (f AuthenticatorFunc) Authenticate(r *http.Request) (Identity, error) { return f(r) }
