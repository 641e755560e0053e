package console

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed static
var staticFS embed.FS

// staticFiles serves what is built of assets/.
func staticFiles() http.Handler {
	files, err := fs.Sub(staticFS, "static")
	if err != nil { // a constant path
		return http.NotFoundHandler()
	}
	return http.FileServerFS(files)
}
