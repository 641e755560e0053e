package console

import (
	"html/template"
	"slices"
)

// view is what a template gets: the page around, and the screen's own Data.
type view struct {
	Title    string
	Section  string // which entry of the menu is the current one
	Identity Identity
	Prefix   string
	CSRF     string // for {{template "csrf" .}}
	Live     bool   // browsers keep it up to date
	Done     string // a sentence about the action that led here; empty: none
	Data     any

	// For the layout alone: what is inside <main>, and a name for exactly that.
	Main    template.HTML
	Version string

	request *request
}

func (r *request) view(section, title string, data any) *view {
	return &view{
		Title: title, Section: section, Identity: r.identity, Prefix: r.console.config.Prefix, CSRF: r.csrf, Live: r.isLive,
		Done: doneText(r.URL.Query().Get("done")), Data: data, request: r,
	}
}

// With is the same page around other data, for a template that hands one of its parts to another:
// {{template "job-row" ($.With .)}}.
func (v *view) With(data any) *view {
	other := *v
	other.Data = data
	return &other
}

// Can says whether the viewer has a role: {{if .Can "operator"}}.
func (v *view) Can(role string) bool {
	needed, err := parseRole(role)
	return err == nil && v.request.can(needed)
}

// URL is an address of the console: {{.URL "/jobs/17"}}. Names in a path are escaped with segment:
// {{.URL (printf "/queues/%s" (segment .Name))}}.
func (v *view) URL(path string) string { return v.request.url(path, nil) }

// Menu is the main menu.
func (v *view) Menu() []menuEntry { return v.request.console.menu }

// menuEntry is a line of the main menu.
type menuEntry struct {
	Section string
	Title   string
	Path    string // below the prefix
	Key     string // of the keyboard: g and then this
}

// menuOf is the menu, as far as there are routes for it.
func menuOf(routes []route) []menuEntry {
	return slices.DeleteFunc([]menuEntry{
		{"overview", "Overview", "/", "o"},
		{"jobs", "Jobs", "/jobs", "j"},
		{"queues", "Queues", "/queues", "q"},
		{"attention", "Attention", "/attention", "a"},
		{"schedules", "Schedules", "/schedules", "s"},
		{"workers", "Workers", "/workers", "w"},
		{"database", "Database", "/database", "d"},
		{"performance", "Performance", "/performance", "p"},
		{"audit", "Audit", "/audit", "u"},
	}, func(entry menuEntry) bool {
		return !slices.ContainsFunc(routes, func(r route) bool { return r.path == entry.Path || r.path == entry.Path+"{$}" })
	})
}
