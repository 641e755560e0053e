package metrics_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// sample is one line of a scrape.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// scraped is what a Prometheus would have got.
type scraped []sample

// scrape asks for the metrics over HTTP and parses the answer. Whatever the registry finds wrong fails the test.
func scrape(t testing.TB, from prometheus.Gatherer) scraped {
	t.Helper()
	server := httptest.NewServer(promhttp.HandlerFor(from, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer server.Close()
	answer, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("the scrape was answered with %s: %s", answer.Status, body)
	}
	if !utf8.Valid(body) {
		t.Fatal("the scrape is not valid UTF-8")
	}
	var all scraped
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		one, err := parseSample(line)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, one)
	}
	return all
}

// parseSample parses `name{label="value",…} 1.5`.
func parseSample(line string) (sample, error) {
	one := sample{labels: map[string]string{}}
	rest := line
	if at := strings.IndexAny(rest, "{ "); at > 0 {
		one.name, rest = rest[:at], rest[at:]
	}
	if labels, found := strings.CutPrefix(rest, "{"); found {
		for {
			name, value, found := strings.Cut(labels, `="`)
			if !found {
				return one, fmt.Errorf("no label in %q", labels)
			}
			end := 0
			for ; end < len(value) && value[end] != '"'; end++ {
				if value[end] == '\\' {
					end++
				}
			}
			text, err := strconv.Unquote(`"` + value[:end] + `"`)
			if err != nil {
				return one, err
			}
			one.labels[name], labels = text, value[end+1:]
			if after, more := strings.CutPrefix(labels, ","); more {
				labels = after
				continue
			}
			rest = strings.TrimPrefix(labels, "}")
			break
		}
	}
	var err error
	one.value, err = strconv.ParseFloat(strings.TrimSpace(rest), 64)
	return one, err
}

// find returns the samples of a name that have the labels, given as name and value by turns.
func (s scraped) find(name string, labels ...string) (found []sample) {
next:
	for _, one := range s {
		if one.name != name {
			continue
		}
		for i := 0; i < len(labels); i += 2 {
			if one.labels[labels[i]] != labels[i+1] {
				continue next
			}
		}
		found = append(found, one)
	}
	return found
}

// sum adds up what find finds; nothing is zero.
func (s scraped) sum(name string, labels ...string) (total float64) {
	for _, one := range s.find(name, labels...) {
		total += one.value
	}
	return total
}

// want fails the test unless the sum is this.
func (s scraped) want(t testing.TB, value float64, name string, labels ...string) {
	t.Helper()
	if got := s.sum(name, labels...); got != value {
		t.Errorf("%s%q = %v, want %v", name, labels, got, value)
	}
}
