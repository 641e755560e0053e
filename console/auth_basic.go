package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
)

// basicAuth is what BasicAuth returns.
type basicAuth struct {
	users  map[string]*knownUser
	nobody passwordHash  // takes as long as a user's
	slots  chan struct{} // bounds how many passwords are checked at once: each is a second of a slow core
	key    []byte
	fails  *throttle

	mu       sync.Mutex
	verified map[string][]byte // by name: the digest of the password that was right last
}

// checksAtOnce is how many passwords are checked at once.
const checksAtOnce = 2

// BasicAuth asks for a name and a password with the dialog of the browser. It sends both with each request, so it is for TLS, or a
// loopback interface. What is wrong with a user is an error that names him.
//
// A password is checked in constant time, and takes as long for a name that nobody has. What was right once is recognised by a
// digest that is kept in memory alone, so that the next request is not slow. Who is wrong five times has to wait: one more attempt
// every ten seconds for a name from one address, one a second for all names from it. Behind a proxy all come from one address.
func BasicAuth(users ...User) (Authenticator, error) {
	if len(users) == 0 {
		return nil, errors.New("console: BasicAuth: there are no users")
	}
	known, err := newUsers(users)
	if err != nil {
		return nil, fmt.Errorf("console: BasicAuth: %w", err)
	}
	a := &basicAuth{
		users: known, slots: make(chan struct{}, checksAtOnce), key: make([]byte, 32), fails: newThrottle(), verified: map[string][]byte{},
		nobody: passwordHash{salt: make([]byte, hashSalt), key: make([]byte, hashKey)},
	}
	for _, user := range known {
		a.nobody.iterations = max(a.nobody.iterations, user.hash.iterations)
	}
	_, _ = rand.Read(a.key) // never fails, see crypto/rand
	_, _ = rand.Read(a.nobody.key)
	return a, nil
}

// Authenticate takes the Authorization header.
func (a *basicAuth) Authenticate(r *http.Request) (Identity, error) {
	name, password, ok := r.BasicAuth()
	if !ok {
		return Identity{}, ErrUnauthenticated
	}
	user := a.users[name]
	digest := a.digest(name, password)
	if user != nil && a.isVerified(name, digest) {
		return user.identity, nil
	}
	from := senderOf(r)
	if !a.fails.allow(from, name) {
		return Identity{}, ErrThrottled
	}
	right, err := a.check(r.Context(), user, password)
	if err != nil {
		return Identity{}, err
	}
	if !right {
		return Identity{}, ErrUnauthenticated
	}
	a.fails.forgive(from, name)
	a.mu.Lock()
	a.verified[name] = digest
	a.mu.Unlock()
	return user.identity, nil
}

// senderOf is the address of a request's sender, for counting: who has an IPv6 address has the other 2^64 beside it, too.
func senderOf(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	address := from.Addr().Unmap()
	if address.Is6() {
		if network, err := address.WithZone("").Prefix(64); err == nil {
			return network.String()
		}
	}
	return address.String()
}

// check checks a password, when it is its turn.
func (a *basicAuth) check(ctx context.Context, user *knownUser, password string) (bool, error) {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if user == nil {
		a.nobody.matches(password)
		return false, nil
	}
	return user.hash.matches(password), nil
}

// digest names a pair of name and password, and is of no use outside this process.
func (a *basicAuth) digest(name, password string) []byte {
	mac := hmac.New(sha256.New, a.key)
	fmt.Fprintf(mac, "%d:%s%s", len(name), name, password)
	return mac.Sum(nil)
}

func (a *basicAuth) isVerified(name string, digest []byte) bool {
	a.mu.Lock()
	known := a.verified[name]
	a.mu.Unlock()
	return hmac.Equal(known, digest)
}

// Challenge makes the browser ask for a name and a password.
func (a *basicAuth) Challenge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("WWW-Authenticate", `Basic realm="pgqueue", charset="UTF-8"`)
	plain(w, http.StatusUnauthorized, "Sign in first.")
}
