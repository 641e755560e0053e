package health

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// Live returns the handler of a liveness probe: 200 while every source is live, 503 otherwise. Without sources it says that
// the process answers. With several sources each loop's name begins with that of its source, and a slash.
func Live(sources ...Source) http.Handler {
	return handler(sources, func(h Health) bool { return h.Live })
}

// Ready returns the handler of a readiness probe: 200 while every source is ready, 503 otherwise. Names are as in [Live].
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
		seen := map[string]int{}
		for i, source := range sources {
			h := source.Health()
			body.OK = body.OK && good(h)
			prefix := ""
			if len(sources) > 1 {
				prefix = prefixOf(h.Name, i, seen)
			}
			for _, loop := range h.Loops {
				loop.Name = prefix + loop.Name
				body.Loops = append(body.Loops, loop)
			}
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

// prefixOf is what stands before the loops of the source at place i. One without a name has its number, and one with the name of
// another has a number behind it: two workers of a process, in two schemas, may have one id.
func prefixOf(name string, i int, seen map[string]int) string {
	name = cmp.Or(name, strconv.Itoa(i+1))
	seen[name]++
	if n := seen[name]; n > 1 {
		name += fmt.Sprintf("#%d", n)
	}
	return name + "/"
}
