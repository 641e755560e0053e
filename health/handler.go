package health

import (
	"encoding/json"
	"net/http"
)

// Live returns the handler of a liveness probe: 200 while every source is live, 503 otherwise. Without sources it says that
// the process answers.
func Live(sources ...Source) http.Handler {
	return handler(sources, func(h Health) bool { return h.Live })
}

// Ready returns the handler of a readiness probe: 200 while every source is ready, 503 otherwise.
func Ready(sources ...Source) http.Handler {
	return handler(sources, func(h Health) bool { return h.Ready })
}

// answer is the body of both.
type answer struct {
	OK    bool   `json:"ok"`
	Loops []Loop `json:"loops"`
}

// handler asks every source and answers with all loops. GET and HEAD only: a probe changes nothing.
func handler(sources []Source, good func(Health) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		body := answer{OK: true, Loops: []Loop{}}
		for _, source := range sources {
			h := source.Health()
			body.OK = body.OK && good(h)
			body.Loops = append(body.Loops, h.Loops...)
		}
		header := w.Header()
		header.Set("Content-Type", "application/json")
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		if !body.OK {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if r.Method == http.MethodHead {
			return
		}
		_ = json.NewEncoder(w).Encode(body) // whoever asked has gone away
	})
}
