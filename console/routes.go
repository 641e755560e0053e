package console

import (
	"net/http"
	"slices"
)

// route is one path of the console. Tests walk the whole table.
type route struct {
	method string // GET (which serves HEAD) or POST
	path   string // below the prefix, as http.ServeMux has it
	role   Role   // the least that is needed
	handle func(*request) error
}

// routes is the table of all routes but the static files.
func (c *Console) routes() []route {
	return slices.Concat(
		overviewRoutes(),
	)
}

// mount makes the handler of the whole table.
func (c *Console) mount() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+c.config.Prefix+"/static/", http.StripPrefix(c.config.Prefix+"/static/", staticFiles()))
	for _, route := range c.routes() {
		mux.HandleFunc(route.method+" "+c.config.Prefix+route.path, func(w http.ResponseWriter, r *http.Request) { c.serve(route, w, r) })
	}
	return mux
}
