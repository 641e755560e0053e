package console

import (
	"mime"
	"net/http"
)

const (
	// maxForm is how large a form may be: a payload to be edited is the largest thing in one, and a character may take three.
	maxForm = 16 << 20
	// maxFormMemory is how much of a multipart form is held in memory.
	maxFormMemory = 1 << 20
)

// readForm reads the body of a POST, which must be a form: other sites can make a browser send text/plain with anything in it.
// Afterwards r.PostForm has the fields.
func (r *request) readForm() error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" && kind != "multipart/form-data" {
		return forbidden("A POST must be a form. Nothing was changed.")
	}
	r.Body = http.MaxBytesReader(r.w, r.Body, maxForm)
	if kind == "multipart/form-data" {
		err = r.ParseMultipartForm(maxFormMemory)
	} else {
		err = r.ParseForm()
	}
	if err != nil {
		if known := explain(err); known.status == http.StatusRequestEntityTooLarge {
			return known
		}
		return badRequest("The form cannot be read. Nothing was changed.")
	}
	return nil
}
