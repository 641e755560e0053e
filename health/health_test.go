package health_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/health"
)

// source is a Source that always answers the same.
type source health.Health

func (s source) Health() health.Health { return health.Health(s) }

func ask(handler http.Handler, method string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(method, "/healthz", nil))
	return answer
}

func TestHandlers(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	well := source{Ready: true, Live: true, Loops: []health.Loop{{Name: "claim:a", OK: true, Since: at}}}
	away := source{Ready: false, Live: true, Loops: []health.Loop{{Name: "probe", Detail: "no progress for 3s: SQLSTATE 57P01"}}}
	dead := source{Ready: false, Live: false, Loops: []health.Loop{{Name: "flush:b", Dead: true, Detail: "has ended"}}}
	for name, test := range map[string]struct {
		sources     []health.Source
		live, ready int
	}{
		"nothing":            {nil, 200, 200},
		"well":               {[]health.Source{well}, 200, 200},
		"database away":      {[]health.Source{away}, 200, 503},
		"one of two is dead": {[]health.Source{well, dead}, 503, 503},
		"one of two is away": {[]health.Source{away, well}, 200, 503},
	} {
		t.Run(name, func(t *testing.T) {
			for want, handler := range map[*int]http.Handler{&test.live: health.Live(test.sources...), &test.ready: health.Ready(test.sources...)} {
				got, head := ask(handler, http.MethodGet), ask(handler, http.MethodHead)
				if got.Code != *want || head.Code != *want {
					t.Errorf("GET %d, HEAD %d, want %d", got.Code, head.Code, *want)
				}
				if head.Body.Len() != 0 {
					t.Errorf("HEAD has a body: %s", head.Body)
				}
				var body struct {
					OK    bool
					Loops []health.Loop
				}
				if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil {
					t.Fatalf("%v: %s", err, got.Body)
				}
				loops := 0
				for _, s := range test.sources {
					loops += len(s.Health().Loops)
				}
				if body.OK != (*want == 200) || len(body.Loops) != loops || body.Loops == nil {
					t.Errorf("body %s", got.Body)
				}
				if got.Header().Get("Content-Type") != "application/json" || got.Header().Get("Cache-Control") != "no-store" {
					t.Errorf("header %v", got.Header())
				}
			}
		})
	}
	if body := ask(health.Ready(well, dead), http.MethodGet).Body.String(); !strings.Contains(body, `"name":"1/claim:a","ok":true,"since":"2026-01-02T03:04:05Z"`) ||
		!strings.Contains(body, `"name":"2/flush:b","ok":false,"dead":true,"detail":"has ended"`) {
		t.Errorf("body %s", body)
	}
}

// Loops of several sources are told apart, by the names of these.
func TestNamesOfSeveralSources(t *testing.T) {
	of := func(name string) source {
		return source{Name: name, Ready: true, Live: true, Loops: []health.Loop{{Name: "claim:default", OK: true}}}
	}
	for want, sources := range map[string][]health.Source{
		"claim:default": {of("pod-0")},
		"pod-0/claim:default pod-1/claim:default":                   {of("pod-0"), of("pod-1")},
		"pod-0/claim:default pod-0#2/claim:default 3/claim:default": {of("pod-0"), of("pod-0"), of("")},
	} {
		var body struct{ Loops []health.Loop }
		if err := json.Unmarshal(ask(health.Ready(sources...), http.MethodGet).Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, loop := range body.Loops {
			names = append(names, loop.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A probe asks; nothing else is taken.
func TestOtherMethods(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		if got := ask(health.Live(), method); got.Code != http.StatusMethodNotAllowed || got.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d %v", method, got.Code, got.Header())
		}
	}
}
