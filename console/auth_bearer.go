package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Token is a secret that stands for somebody, for programs and for proxies that sign people in.
type Token struct {
	Name string // for the audit log
	Role Role
	// Secret is sent as `Authorization: Bearer <secret>`. It has at least 20 bytes; make it of 32 random ones.
	Secret string
}

const minSecret = 20

type bearer struct{ tokens []bearerToken }

type bearerToken struct {
	identity Identity
	digest   [sha256.Size]byte
}

// BearerTokens takes tokens in the Authorization header, and nowhere else: not in an address. All are compared, in constant time. What
// is wrong with a token is an error that names its Name and not its Secret.
func BearerTokens(tokens ...Token) (Authenticator, error) {
	if len(tokens) == 0 {
		return nil, errors.New("console: BearerTokens: there are no tokens")
	}
	b := &bearer{}
	seen := map[[sha256.Size]byte]bool{}
	for i, token := range tokens {
		digest := sha256.Sum256([]byte(token.Secret))
		switch {
		case token.Name == "":
			return nil, fmt.Errorf("console: BearerTokens: token %d has no name", i)
		case token.Role != Viewer && token.Role != Operator:
			return nil, fmt.Errorf("console: BearerTokens: the role of %q must be viewer or operator", token.Name)
		case len(token.Secret) < minSecret:
			return nil, fmt.Errorf("console: BearerTokens: the secret of %q must have %d bytes or more", token.Name, minSecret)
		case seen[digest]:
			return nil, fmt.Errorf("console: BearerTokens: the secret of %q is another's, too", token.Name)
		}
		seen[digest] = true
		b.tokens = append(b.tokens, bearerToken{Identity{Name: token.Name, Role: token.Role}, digest})
	}
	return b, nil
}

// Authenticate takes the Authorization header.
func (b *bearer) Authenticate(r *http.Request) (Identity, error) {
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return Identity{}, ErrUnauthenticated
	}
	digest := sha256.Sum256([]byte(secret))
	found := -1
	for i := range b.tokens {
		if subtle.ConstantTimeCompare(digest[:], b.tokens[i].digest[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return Identity{}, ErrUnauthenticated
	}
	return b.tokens[found].identity, nil
}

// Challenge says how to sign in.
func (b *bearer) Challenge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="pgqueue"`)
	plain(w, http.StatusUnauthorized, "Sign in first.")
}
