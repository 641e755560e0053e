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
// The token is made of a secret in a cookie, which scripts cannot read, and of the name of the one who asks: it is of no use to
// somebody else, nor after a change of user. Nothing is kept on the server, so any of several replicas takes the forms of the others.
//
// The cookie is SameSite=Lax: other sites' forms and scripts do not send it, and a link in a chat or a mail does. Strict would keep
// it from such a link too, whose page would then be given another secret, and every form that is open would be refused. Nothing is
// lost: what follows a link is a GET, which changes nothing.

const (
	csrfField = "csrf"
	// csrfCookie begins the names of the cookies. Each secret has a cookie of its own, and any of them counts: two tabs that are
	// opened at once are both given one, and neither overwrites the other's.
	csrfCookie = "pgqueue_csrf"
	// hostCookie is the name over TLS: browsers take a cookie of such a name from this very host alone, and not from a
	// neighbour in the same domain.
	hostCookie = "__Host-" + csrfCookie
	// maxSecrets bounds how many of a browser's cookies are looked at.
	maxSecrets = 16
)

// overTLS says whether the browser speaks TLS, to us or to a proxy before us. Who lies about it harms only his own forms.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// csrfSecrets are the secrets in the request's cookies.
func csrfSecrets(r *http.Request) (secrets []string) {
	name := csrfCookie
	if overTLS(r) {
		name = hostCookie
	}
	for _, cookie := range r.Cookies() {
		behind, ok := strings.CutPrefix(cookie.Name, name)
		if ok && (behind == "" || behind[0] == '_') && len(cookie.Value) >= 32 && len(secrets) < maxSecrets {
			secrets = append(secrets, cookie.Value)
		}
	}
	return secrets
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
	secrets := csrfSecrets(r.Request)
	if len(secrets) == 0 {
		secrets = []string{rand.Text() + rand.Text()}
		cookie := &http.Cookie{
			Name: csrfCookie, Value: secrets[0], Path: r.console.config.Prefix + "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		}
		if overTLS(r.Request) {
			cookie.Name, cookie.Path, cookie.Secure = hostCookie, "/", true
		}
		cookie.Name += "_" + rand.Text()[:8]
		http.SetCookie(r.w, cookie)
	}
	r.csrf = csrfToken(secrets[0], r.identity)
}

// checkToken refuses a form without the token.
func (r *request) checkToken() error {
	given := r.PostForm[csrfField]
	for _, secret := range csrfSecrets(r.Request) {
		if len(given) == 1 && hmac.Equal([]byte(given[0]), []byte(csrfToken(secret, r.identity))) {
			r.csrf = given[0]
			return nil
		}
	}
	return forbidden("This form is too old, or does not come from this console. Nothing was changed. Go back, load the page again, and repeat.")
}
