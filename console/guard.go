package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"time"
)

// ServeHTTP serves the console. Before any page stand, in this order: the headers of every answer, the name by which the console is
// addressed, the static files, who asks, the path, the route with its method and role, and for a POST where it comes from. What is
// unknown, ambiguous or not allowed ends there, so a new route is closed without its doing anything for it.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := &answer{ResponseWriter: w}
	setHeaders(answer)
	defer c.contain(answer, r)
	if !c.hosts.allow(r.Host) {
		plain(answer, http.StatusForbidden, "The console may not be addressed by this name: Config.AllowedHosts does not have it.")
		return
	}
	if file, immutable, ok := c.assets.find(r.URL.EscapedPath()); ok && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		file.serve(answer, r, immutable)
		return
	}
	identity, ok := c.authenticate(answer, r)
	if !ok {
		return
	}
	if c.closed.Err() != nil {
		plain(answer, http.StatusServiceUnavailable, "The console is stopping.")
		return
	}
	request := &request{Request: r, w: answer, console: c, identity: identity}
	if err := request.find(); err != nil {
		request.fail(err)
		return
	}
	c.mux.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), identityKey{}, identity)))
}

// answer knows whether an answer has begun: an error cannot become an error page then.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(content []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(content)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// identityKey is the key of the context's value for who asks, from the guards before the mux to those behind it.
type identityKey struct{}

// contain turns a panic of a page into an error, and keeps the server's other requests from it.
func (c *Console) contain(w *answer, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	c.logger.ErrorContext(r.Context(), "console: a page panicked", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if w.begun {
		panic(http.ErrAbortHandler) // what was sent must not look whole
	}
	plain(w, http.StatusInternalServerError, "Something went wrong. The log of the console says what.")
}

// plain answers those who are not let in, in few words.
func plain(w http.ResponseWriter, status int, text string) { http.Error(w, text, status) }

// authenticate says who asks, or answers.
func (c *Console) authenticate(w http.ResponseWriter, r *http.Request) (Identity, bool) {
	if c.config.Authenticator == nil {
		return Identity{Name: "everybody", Role: Viewer}, true
	}
	identity, err := c.config.Authenticator.Authenticate(r)
	switch {
	case err == nil && identity.Name != "" && (identity.Role == Viewer || identity.Role == Operator):
		return identity, true
	case err == nil:
		c.logger.WarnContext(r.Context(), "console: the authenticator named somebody without a name or a role", "role", int(identity.Role))
		plain(w, http.StatusForbidden, "You may not see the console.")
	case errors.Is(err, ErrUnauthenticated):
		if challenger, ok := c.config.Authenticator.(Challenger); ok {
			challenger.Challenge(w, r)
			return Identity{}, false
		}
		plain(w, http.StatusUnauthorized, "Sign in first.")
	case errors.Is(err, ErrThrottled):
		w.Header().Set("Retry-After", "30")
		plain(w, http.StatusTooManyRequests, "Too many failed attempts. Wait half a minute.")
	default:
		c.logger.ErrorContext(r.Context(), "console: the authenticator failed", "error", err)
		plain(w, http.StatusInternalServerError, "Who you are could not be found out. The log of the console says why.")
	}
	return Identity{}, false
}

// find looks whether there is a route. Only clean paths below the prefix are looked at: a mux would redirect the others, or a proxy
// before us understand them in another way than we do.
func (r *request) find() error {
	requested := r.URL.EscapedPath()
	clean := path.Clean(requested)
	if strings.HasSuffix(requested, "/") && clean != "/" {
		clean += "/"
	}
	if requested != clean || needlessEscape(requested) || r.Method == http.MethodConnect {
		return notFound("There is no such page.")
	}
	if _, pattern := r.console.mux.Handler(r.Request); pattern != "" {
		return nil
	}
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := r.console.mux.Handler(other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return notFound("There is no such page.")
	}
	r.w.Header().Set("Allow", strings.Join(allowed, ", "))
	return &httpError{status: http.StatusMethodNotAllowed, text: "This address takes " + strings.Join(allowed, " and ") + "."}
}

// needlessEscape says whether a path has an escape for a character that needs none: %31 for 1. The same page would have two addresses.
func needlessEscape(escaped string) bool {
	for rest := escaped; ; {
		at := strings.IndexByte(rest, '%')
		if at < 0 || len(rest) < at+3 {
			return false
		}
		char, err := url.PathUnescape(rest[at : at+3])
		if err != nil || char == "-" || char == "." || char == "_" || char == "~" || isAlphanumeric(char[0]) {
			return true
		}
		rest = rest[at+3:]
	}
}

func isAlphanumeric(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' }

// mount makes the handler of the whole table. What is in no route is an error page.
func (c *Console) mount() *http.ServeMux {
	mux := http.NewServeMux()
	routes := c.routes()
	c.menu = menuOf(routes)
	for _, route := range routes {
		mux.HandleFunc(route.method+" "+c.config.Prefix+route.path, func(w http.ResponseWriter, r *http.Request) { c.serve(route, w, r) })
	}
	if c.config.Prefix != "" {
		mux.HandleFunc("GET "+c.config.Prefix, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, c.config.Prefix+"/", http.StatusSeeOther)
		})
	}
	return mux
}

// serve takes a request, whose sender is known, through the other guards and to its route.
func (c *Console) serve(route route, w http.ResponseWriter, r *http.Request) {
	identity, _ := r.Context().Value(identityKey{}).(Identity) // nobody, if this were reached in another way
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(c.closed, func() { cancel(errClosed) })
	defer stop()
	request := &request{Request: r.WithContext(ctx), w: w, console: c, identity: identity}
	request.deadline = time.AfterFunc(request.timeout(), func() { cancel(errTooSlow) })
	defer request.deadline.Stop()
	err := request.answer(route)
	switch cause := context.Cause(ctx); {
	case err == nil:
	case r.Context().Err() != nil:
		c.logger.DebugContext(ctx, "console: the browser has left", "path", r.URL.Path)
	case cause != nil:
		request.fail(fmt.Errorf("%w: %w", cause, err))
	default:
		request.fail(err)
	}
}

// unmark takes the mark of segment off the names in the path.
func (r *request) unmark(route route) {
	for _, part := range strings.Split(route.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimRight(name, ".}")
			r.SetPathValue(name, strings.TrimPrefix(r.PathValue(name), segmentMark))
		}
	}
}

// admit says whether a request may do what its route does.
func (r *request) admit(route route) error {
	if !r.can(route.role) {
		return forbidden("You are signed in as a " + r.identity.Role.String() + ", and this is for an " + route.role.String() + ".")
	}
	if route.method != http.MethodPost {
		r.giveToken()
		return nil
	}
	if err := r.console.origins.Check(r.Request); err != nil {
		return forbidden("This form comes from another site. Nothing was changed.")
	}
	if err := r.readForm(); err != nil {
		return err
	}
	return r.checkToken()
}
