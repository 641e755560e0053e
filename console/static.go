package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
)

//go:embed static
var staticFS embed.FS

// assets are the static files, which are built of assets/. All have one version, the hash of all, as a directory in their
// addresses: a module finds its neighbours by relative addresses, and no mixture of two builds is ever put together.
type assets struct {
	prefix  string
	version string
	files   map[string]asset
}

type asset struct {
	contentType string
	content     []byte
}

func loadAssets(prefix string) (*assets, error) {
	a := &assets{prefix: prefix, files: map[string]asset{}}
	var names []string
	err := fs.WalkDir(staticFS, "static", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := staticFS.ReadFile(file)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(file, "static/")
		a.files[name] = asset{contentType: contentType(name), content: content}
		names = append(names, name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	digest := sha256.New()
	for _, name := range names {
		fmt.Fprintf(digest, "%s %d\n", name, len(a.files[name].content))
		_, _ = digest.Write(a.files[name].content) // a hash does not fail
	}
	a.version = hex.EncodeToString(digest.Sum(nil)[:8])
	return a, nil
}

// contentType is the type of a file by its name. The system's own table is not asked: it differs, and a script under a wrong
// type is not run.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".ico":
		return "image/x-icon"
	case ".woff2":
		return "font/woff2"
	case ".json", ".map":
		return "application/json"
	case ".txt", "":
		return "text/plain; charset=utf-8"
	default:
		return "application/octet-stream"
	}
}

// address is where a file is served.
func (a *assets) address(name string) (string, error) {
	if _, ok := a.files[name]; !ok {
		return "", fmt.Errorf("there is no static file %q", name)
	}
	return a.prefix + "/static/" + a.version + "/" + name, nil
}

// find returns the file that is served at an address, and whether its content can never change there. It compares with the names
// that there are, and takes nothing apart: these addresses are open to everybody.
func (a *assets) find(requested string) (file asset, immutable, ok bool) {
	name, ok := strings.CutPrefix(requested, a.prefix+"/static/")
	if !ok {
		return asset{}, false, false
	}
	// During a rolling deployment a page of one version asks another, which gives what it has.
	if version, rest, versioned := strings.Cut(name, "/"); versioned && len(version) == len(a.version) {
		if file, ok = a.files[rest]; ok {
			return file, version == a.version, true
		}
	}
	file, ok = a.files[name]
	return file, false, ok
}

// serve answers with a file.
func (file asset) serve(w http.ResponseWriter, r *http.Request, immutable bool) {
	header := w.Header()
	header.Set("Content-Type", file.contentType)
	if immutable {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	header.Set("Content-Length", fmt.Sprint(len(file.content)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(file.content) // nobody is left to be told
	}
}
