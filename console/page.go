package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed templates/*.html
var templateFiles embed.FS

// pages are the parsed templates: for each file of templates/ but layout.html and parts*.html, that file with those.
type pages struct{ byName map[string]*template.Template }

func loadPages() (*pages, error) {
	shared, err := template.New("").Funcs(templateFuncs()).ParseFS(templateFiles, "templates/layout.html", "templates/parts*.html")
	if err != nil {
		return nil, err
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	loaded := &pages{byName: map[string]*template.Template{}}
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

// view is what a template gets: the page around, and the screen's own Data.
type view struct {
	Title    string
	Section  string // which entry of the menu is the current one
	Identity Identity
	Prefix   string
	CSRF     string // for {{template "csrf" .}}
	Data     any

	request *request
}

// Can says whether the viewer has a role: {{if .Can "operator"}}.
func (v *view) Can(role string) bool {
	return v.request.can(map[string]Role{"viewer": Viewer, "operator": Operator}[role])
}

// URL is an address of the console: {{.URL "/jobs/17"}}.
func (v *view) URL(path string) string { return v.request.url(path, nil) }

// page renders templates/<name>.html inside the layout. It is rendered whole before the first byte is sent, so that an error is
// an error page and no torn one.
func (r *request) page(status int, name, section, title string, data any) error {
	page, ok := r.console.pages.byName[name]
	if !ok {
		return fmt.Errorf("there is no template %q", name)
	}
	var out bytes.Buffer
	err := page.ExecuteTemplate(&out, "layout", &view{
		Title: title, Section: section, Identity: r.identity, Prefix: r.console.config.Prefix, Data: data, request: r,
	})
	if err != nil {
		return fmt.Errorf("template %q: %w", name, err)
	}
	r.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	r.w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = out.WriteTo(r.w) // nobody is left to be told
	}
	return nil
}
