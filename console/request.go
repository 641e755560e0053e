package console

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// request is a request that has passed the guards, with what a screen needs to answer it. Its Context ends when the browser has
// left, when the console closes, and when it takes too long, and with it the queries that were given it.
type request struct {
	*http.Request
	w        http.ResponseWriter
	console  *Console
	identity Identity
	csrf     string // the token for forms
	isLive   bool
	deadline *time.Timer
}

// inspector is the inspector in the name of the one who asks. It writes the audit log.
func (r *request) inspector() *pgqueue.Inspector { return r.console.inspector.As(r.identity.Name) }

// can says whether the one who asks has a role.
func (r *request) can(role Role) bool { return r.identity.Role >= role }

// allow gives an answer that is long on purpose, a download, so much time from now.
func (r *request) allow(d time.Duration) {
	if r.deadline != nil {
		r.deadline.Reset(d)
	}
}

// url makes an address of the console: its prefix, a path below it, and a query. Names in the path are escaped with segment.
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

// id is the number in a wildcard of the route: {id}. What is no number is a page that does not exist.
func (r *request) id(wildcard string) (int64, error) {
	id, err := strconv.ParseInt(r.PathValue(wildcard), 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != r.PathValue(wildcard) { // 017 and +17 are no second addresses of 17
		return 0, notFound("There is no such job.")
	}
	return id, nil
}

// json answers with a JSON document, which no browser takes for anything else.
func (r *request) json(status int, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	r.send(status, "application/json", append(text, '\n'))
	return nil
}

// download answers with a file to be stored and not shown.
func (r *request) download(name, contentType string, content []byte) error {
	r.attachment(name)
	r.send(http.StatusOK, contentType, content)
	return nil
}

// attachment says that what follows is a file of that name.
func (r *request) attachment(name string) {
	r.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
}

// send sends an answer whole.
func (r *request) send(status int, contentType string, content []byte) {
	r.w.Header().Set("Content-Type", contentType)
	r.w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	r.w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = r.w.Write(content) // nobody is left to be told
	}
}
