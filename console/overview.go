package console

import "net/http"

func overviewRoutes() []route {
	return []route{{http.MethodGet, "/{$}", Viewer, showOverview}}
}

func showOverview(r *request) error {
	return r.page(http.StatusOK, "overview", "overview", "Overview", nil)
}
