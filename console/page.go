package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
)

//go:embed templates/*.html
var templateFiles embed.FS

// pages are the parsed templates: for each file of templates/ but layout.html and parts*.html, that file with those.
type pages struct {
	byName map[string]*template.Template
	times  *regexp.Regexp // the words in a <time>, which change although nothing happens
}

func loadPages(funcs template.FuncMap) (*pages, error) {
	shared, err := template.New("").Funcs(funcs).ParseFS(templateFiles, "templates/layout.html", "templates/parts*.html")
	if err != nil {
		return nil, err
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	loaded := &pages{byName: map[string]*template.Template{}, times: regexp.MustCompile(`(<time [^>]*>)[^<]*`)}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" || strings.HasPrefix(name, "parts") {
			continue
		}
		page, err := shared.Clone()
		if err != nil {
			return nil, err
		}
		if loaded.byName[name], err = page.ParseFS(templateFiles, file); err != nil {
			return nil, err
		}
	}
	return loaded, nil
}

// version names what a page shows: it is the same as long as nothing but the passing of time has changed.
func (p *pages) version(main []byte) string {
	digest := sha256.Sum256(p.times.ReplaceAll(main, []byte("$1")))
	return base64.RawURLEncoding.EncodeToString(digest[:12])
}

// live marks a page, before it is rendered, as one that browsers keep up to date: live.ts asks again each second for the same
// address with `HX-Request: true` and `If-None-Match: <the data-version of main, or the ETag of the last answer>`.
func (r *request) live() { r.isLive = true }

// page renders templates/<name>.html inside the layout. It is rendered whole before the first byte is sent, so that an error is
// an error page and no torn one.
//
// A script that asks with the header `HX-Request: true` gets what is inside <main> and nothing around it, with an ETag; or 204 where
// that is what If-None-Match names.
func (r *request) page(status int, name, section, title string, data any) error {
	page, ok := r.console.pages.byName[name]
	if !ok {
		return fmt.Errorf("there is no template %q", name)
	}
	v := r.view(section, title, data)
	var main bytes.Buffer
	if err := page.ExecuteTemplate(&main, "content", v); err != nil {
		return fmt.Errorf("template %q: %w", name, err)
	}
	v.Version = r.console.pages.version(main.Bytes())
	v.Main = template.HTML(main.String())
	out := &main
	if r.partial() {
		tag := `"` + v.Version + `"`
		r.w.Header().Set("ETag", tag)
		if status == http.StatusOK && r.Header.Get("If-None-Match") == tag {
			r.w.WriteHeader(http.StatusNoContent)
			return nil
		}
	} else {
		out = new(bytes.Buffer)
		if err := page.ExecuteTemplate(out, "layout", v); err != nil {
			return fmt.Errorf("template %q: %w", name, err)
		}
	}
	r.send(status, "text/html; charset=utf-8", out.Bytes())
	return nil
}

// partial says whether a script asks, which has the layout already.
func (r *request) partial() bool { return r.Header.Get("HX-Request") == "true" }
