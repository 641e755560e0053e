package metrics_test

import (
	"path/filepath"
	"slices"
	"testing"
)

// Every page that names a metric names one that there is. Roles and tables are no metrics.
func TestEveryPageNamesMetricsThatExist(t *testing.T) {
	others := []string{
		"pgqueue_worker", "pgqueue_producer", "pgqueue_operator", "pgqueue_watcher", "pgqueue_viewer", "pgqueue_janitor", "pgqueue_console", "pgqueue_recorder", "pgqueue_timekeeper", // roles
		"pgqueue_migrations", "pgqueue_all", "pgqueue_clock", // a table, a policy, a schema for tests
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 10 {
		t.Fatalf("only %d pages", len(pages))
	}
	names := series()
	for _, page := range append(pages, "../README.md", "../deploy/README.md", "../CONTRIBUTING.md") {
		if matches, err := filepath.Glob(page); err != nil || len(matches) == 0 {
			continue
		}
		for _, name := range nameInQuery.FindAllString(readFile(t, page), -1) {
			if names[name] == nil && names[name+"_count"] == nil && !slices.Contains(others, name) {
				t.Errorf("%s: no metric %s", page, name)
			}
		}
	}
}
