package metrics_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/metrics"
)

// The page has every metric, as it is registered. PGQUEUE_UPDATE=1 writes the table.
func TestDocumentationHasEveryMetric(t *testing.T) {
	const page, begin, end = "../docs/metrics.md", "<!-- metrics: begin -->\n", "<!-- metrics: end -->"
	var table strings.Builder
	table.WriteString("\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, d := range metrics.Definitions() {
		labels := ""
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", d.Name, d.Kind, labels, d.Help)
	}
	table.WriteString("\n")
	text := readFile(t, page)
	before, rest, found := strings.Cut(text, begin)
	written, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", page)
	}
	if written == table.String() {
		return
	}
	if os.Getenv("PGQUEUE_UPDATE") == "" {
		t.Fatalf("the table of %s is not that of the metrics; PGQUEUE_UPDATE=1 writes it", page)
	}
	if err := os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The page and the rules speak of the same alerts, and of metrics and outcomes that exist.
func TestDocumentationNamesWhatExists(t *testing.T) {
	text := readFile(t, "../docs/metrics.md")
	for _, name := range nameInQuery.FindAllString(text, -1) {
		if names := series(); names[name] == nil && names[name+"_count"] == nil && name != "pgqueue_update" {
			t.Errorf("no metric %s", name)
		}
	}
	alert := regexp.MustCompile(`\bPgqueue[A-Za-z]+`)
	rules := map[string]bool{}
	for _, name := range alert.FindAllString(readFile(t, deploy, "prometheus/pgqueue.rules.yml"), -1) {
		rules[name] = true
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("the alert %s is not described", name)
		}
	}
	for _, name := range alert.FindAllString(text, -1) {
		if !rules[name] {
			t.Errorf("no alert %s", name)
		}
	}
	for outcome := range fixedValues(t)["outcome"] {
		if !strings.Contains(text, "`"+outcome+"`") {
			t.Errorf("the outcome %s is not described", outcome)
		}
	}
}

// Names and helps are what Prometheus' own conventions ask for.
func TestNamesFollowTheConventions(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range metrics.Definitions() {
		if seen[d.Name] {
			t.Errorf("%s twice", d.Name)
		}
		seen[d.Name] = true
		if !strings.HasPrefix(d.Name, "pgqueue_") || strings.HasSuffix(d.Name, "_total") != (d.Kind == "counter") {
			t.Errorf("a %s must not be named %s", d.Kind, d.Name)
		}
		if !strings.HasSuffix(d.Help, ".") || strings.ContainsAny(d.Help, "|\n") {
			t.Errorf("%s: help %q", d.Name, d.Help)
		}
		for _, unit := range []string{"_ms", "_milliseconds", "_minutes", "_bytes_total_", "_percent"} {
			if strings.Contains(d.Name, unit) {
				t.Errorf("%s is not in a base unit", d.Name)
			}
		}
	}
	registry := prometheus.NewPedanticRegistry() // which compares what is collected with what was described
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry})
	everyEvent(t.Context(), m, "mail", "send")
	scrape(t, registry)
}
