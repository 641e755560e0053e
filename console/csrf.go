package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// A POST must come from a page of this console. Two guards say so, each enough by itself: what the browser says about where the
// request comes from (http.CrossOriginProtection), and a token in the form that nobody else can know.
//
// The token is made of a secret in a cookie, which scripts cannot read and other sites do not send, and of the name of the one who
// asks: it is of no use to somebody else, nor after a change of user. Nothing is kept on the server, so any of several replicas takes
// the forms of the others.

const (
	csrfField  = "csrf"
	csrfCookie = "pgqueue_csrf"
	// hostCookie is the name over TLS: browsers take a cookie of such a name from this very host alone, and not from a
	// neighbour in the same domain.
	hostCookie = "__Host-" + csrfCookie
)

// overTLS says whether the browser speaks TLS, to us or to a proxy before us. Who lies about it harms only his own forms.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// csrfSecret is the secret in the request's cookie, or "".
func csrfSecret(r *http.Request) string {
	name := csrfCookie
	if overTLS(r) {
		name = hostCookie
	}
	cookie, err := r.Cookie(name)
	if err != nil || len(cookie.Value) < 32 {
		return ""
	}
	return cookie.Value
}

// csrfToken is the token of somebody whose cookie holds secret.
func csrfToken(secret string, identity Identity) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte("pgqueue console form\x00" + identity.Name)) // a hash does not fail
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// giveToken makes the token for the forms of a page, and the cookie if there is none yet. Who cannot act gets neither.
func (r *request) giveToken() {
	if r.identity.Role < Operator {
		return
	}
	secret := csrfSecret(r.Request)
	if secret == "" {
		secret = rand.Text() + rand.Text()
		cookie := &http.Cookie{
			Name: csrfCookie, Value: secret, Path: r.console.config.Prefix + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		}
		if overTLS(r.Request) {
			cookie.Name, cookie.Path, cookie.Secure = hostCookie, "/", true
		}
		http.SetCookie(r.w, cookie)
	}
	r.csrf = csrfToken(secret, r.identity)
}

// checkToken refuses a form without the token.
func (r *request) checkToken() error {
	secret := csrfSecret(r.Request)
	given := r.PostForm[csrfField]
	if secret == "" || len(given) != 1 || !hmac.Equal([]byte(given[0]), []byte(csrfToken(secret, r.identity))) {
		return forbidden("This form is too old, or does not come from this console. Nothing was changed. Go back, load the page again, and repeat.")
	}
	r.csrf = given[0]
	return nil
}
