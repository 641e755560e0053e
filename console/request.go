package console

import (
	"net/http"
	"net/url"
)

// request is a request that has passed the guards, with what a screen needs to answer it.
type request struct {
	*http.Request
	w        http.ResponseWriter
	console  *Console
	identity Identity
}

// can says whether the one who asks has a role.
func (r *request) can(role Role) bool { return r.identity.Role >= role }

// url makes an address of the console: its prefix, a path below it, and a query.
func (r *request) url(path string, query url.Values) string {
	address := r.console.config.Prefix + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	return address
}

// redirect answers a POST: look there (303).
func (r *request) redirect(path string, query url.Values) error {
	http.Redirect(r.w, r.Request, r.url(path, query), http.StatusSeeOther)
	return nil
}
