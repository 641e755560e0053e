package console

import (
	"errors"
	"net/http"
)

// serve takes a request through the guards and to its route.
func (c *Console) serve(route route, w http.ResponseWriter, r *http.Request) {
	identity := Identity{Name: "everybody", Role: Viewer}
	if c.config.Authenticator != nil {
		var err error
		if identity, err = c.config.Authenticator.Authenticate(r); err != nil {
			http.Error(w, http.StatusText(http.StatusUnauthorized), http.StatusUnauthorized)
			return
		}
	}
	if identity.Role < route.role {
		http.Error(w, http.StatusText(http.StatusForbidden), http.StatusForbidden)
		return
	}
	request := &request{Request: r, w: w, console: c, identity: identity}
	if err := route.handle(request); err != nil {
		request.fail(err)
	}
}

// httpError is an error with a status and a text for the one who asks.
type httpError struct {
	status int
	text   string
	err    error
}

func (e *httpError) Error() string { return e.text }
func (e *httpError) Unwrap() error { return e.err }

// fail answers with an error.
func (r *request) fail(err error) {
	status, text := http.StatusInternalServerError, "internal error"
	if known, ok := errors.AsType[*httpError](err); ok {
		status, text = known.status, known.text
	} else {
		r.console.logger.ErrorContext(r.Context(), "console: a request failed", "path", r.URL.Path, "error", err)
	}
	http.Error(r.w, text, status)
}
