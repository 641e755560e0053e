package metrics_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/metrics"
)

// series is what may stand in a query: the names that a scrape has, with the labels of each. The label database is that of ConstLabels.
func series() map[string][]string {
	all := map[string][]string{}
	for _, d := range metrics.Definitions() {
		labels := append([]string{"database", "schema", "instance", "job"}, d.Labels...)
		if d.Kind != "histogram" {
			all[d.Name] = labels
			continue
		}
		all[d.Name+"_bucket"] = append([]string{"le"}, labels...)
		all[d.Name+"_sum"], all[d.Name+"_count"] = labels, labels
	}
	return all
}

// fixedValues are the values of labels that are no names of queues and kinds.
func fixedValues(t *testing.T) map[string]map[string]bool {
	registry := prometheus.NewRegistry()
	everyEvent(t.Context(), newMetrics(t, metrics.PrometheusConfig{Registerer: registry}), "mail", "send")
	values := map[string]map[string]bool{}
	for _, one := range scrape(t, registry) {
		for label, value := range one.labels {
			if values[label] == nil {
				values[label] = map[string]bool{}
			}
			values[label][value] = true
		}
	}
	delete(values, "queue")
	delete(values, "kind")
	delete(values, "schema")
	return values
}

var (
	nameInQuery   = regexp.MustCompile(`\bpgqueue_[a-z0-9_]+`)
	selectorInIt  = regexp.MustCompile(`\b(pgqueue_[a-z0-9_]+)\{([^}]*)\}`)
	matcherInIt   = regexp.MustCompile(`^\s*([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"\s*$`)
	groupingInIt  = regexp.MustCompile(`\b(?:by|on)\s*\(([^)]*)\)`)
	functionsInIt = regexp.MustCompile(`\b([a-z_]+)\s*\(`)
)

// checkQuery says what is wrong with a query, as far as that can be said without Prometheus: every name and every label exists,
// every value of a fixed label too, and what is opened is closed.
func checkQuery(t *testing.T, query string, names map[string][]string, values map[string]map[string]bool) (wrong []string) {
	t.Helper()
	found := nameInQuery.FindAllString(query, -1)
	if len(found) == 0 {
		wrong = append(wrong, "no metric of ours")
	}
	labels := []string{"database", "schema", "instance"}
	for _, name := range found {
		if names[name] == nil {
			wrong = append(wrong, "no metric "+name)
		}
		labels = append(labels, names[name]...)
	}
	for _, selector := range selectorInIt.FindAllStringSubmatch(query, -1) {
		for matcher := range strings.SplitSeq(selector[2], ",") {
			parts := matcherInIt.FindStringSubmatch(matcher)
			switch {
			case parts == nil:
				wrong = append(wrong, fmt.Sprintf("no matcher: %q", matcher))
			case !slices.Contains(names[selector[1]], parts[1]):
				wrong = append(wrong, selector[1]+" has no label "+parts[1])
			case values[parts[1]] != nil && parts[2] == "=" && !values[parts[1]][parts[3]]:
				wrong = append(wrong, fmt.Sprintf("%s is never %q", parts[1], parts[3]))
			}
		}
	}
	for _, grouping := range groupingInIt.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(grouping[1], ",") {
			if !slices.Contains(labels, strings.TrimSpace(label)) {
				wrong = append(wrong, "no label "+label+" to group by")
			}
		}
	}
	known := []string{"sum", "max", "min", "by", "on", "rate", "increase", "histogram_quantile", "time", "unless", "or", "label_values", "absent", "max_over_time"}
	for _, function := range functionsInIt.FindAllStringSubmatch(query, -1) {
		if !slices.Contains(known, function[1]) {
			wrong = append(wrong, "no function "+function[1])
		}
	}
	var open []rune
	for _, c := range query {
		switch c {
		case '(', '{', '[':
			open = append(open, c)
		case ')', '}', ']':
			if len(open) == 0 || open[len(open)-1] != map[rune]rune{')': '(', '}': '{', ']': '['}[c] {
				return append(wrong, "closed what is not open")
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		wrong = append(wrong, "not closed")
	}
	return wrong
}

func TestTheCheckOfQueriesFindsMistakes(t *testing.T) {
	names, values := series(), fixedValues(t)
	if wrong := checkQuery(t, `max by (schema, queue) (rate(pgqueue_attempts_total{outcome="panic", schema=~"a"}[5m])) > 0`, names, values); wrong != nil {
		t.Errorf("a good query: %v", wrong)
	}
	for _, query := range []string{
		"up", "pgqueue_typo_total", `pgqueue_workers{queue="x"}`, `pgqueue_attempts_total{outcome="won"}`, "sum by (kind) (pgqueue_workers)",
		"sum(pgqueue_workers", "sum pgqueue_workers)", "smu(pgqueue_workers)", "pgqueue_attempt_duration_seconds", "pgqueue_workers{schema}",
	} {
		if checkQuery(t, query, names, values) == nil {
			t.Errorf("nothing is wrong with %s", query)
		}
	}
}

// mixed says where a query takes what two databases or schemas have in queues, or processes, of one name for one. every: in an alert, no
// aggregation may drop their labels; in a panel, a sum over all that is selected is meant.
func mixed(query string, every bool) (wrong []string) {
	for _, grouping := range groupingInIt.FindAllStringSubmatch(query, -1) {
		kept := map[string]bool{}
		for label := range strings.SplitSeq(grouping[1], ",") {
			kept[strings.TrimSpace(label)] = true
		}
		if (every || kept["queue"] || kept["instance"]) && (!kept["database"] || !kept["schema"]) {
			wrong = append(wrong, "drops the labels database or schema: "+grouping[0])
		}
	}
	if every && aggregatesAll.MatchString(query) {
		wrong = append(wrong, "drops all labels")
	}
	return wrong
}

// aggregatesAll is an aggregation without by.
var aggregatesAll = regexp.MustCompile(`\b(?:sum|min|max)\s*\(`)

func TestTheCheckOfLabelsFindsMistakes(t *testing.T) {
	if wrong := mixed(`sum(max by (database, schema, queue) (pgqueue_ready_jobs))`, false); wrong != nil {
		t.Errorf("a good panel: %v", wrong)
	}
	for _, query := range []string{"sum(pgqueue_workers)", "max by (schema) (pgqueue_workers)", "a unless on (database, queue) b"} {
		if mixed(query, true) == nil {
			t.Errorf("nothing is wrong with %s", query)
		}
	}
	if mixed("max by (queue) (pgqueue_ready_jobs)", false) == nil {
		t.Error("nothing is wrong with a panel by queue alone")
	}
}

const deploy = "../deploy"

func readFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// queriesIn finds the queries of panels and variables at any depth.
func queriesIn(value any, found *[]string) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if text, isText := inner.(string); isText && (key == "expr" || key == "definition") {
				*found = append(*found, text)
			} else {
				queriesIn(inner, found)
			}
		}
	case []any:
		for _, inner := range value {
			queriesIn(inner, found)
		}
	}
}

func TestTheDashboardAsksForMetricsThatExist(t *testing.T) {
	names, values := series(), fixedValues(t)
	text := readFile(t, deploy, "grafana/dashboards/pgqueue.json")
	var dashboard map[string]any
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
		t.Fatal(err)
	}
	var queries []string
	queriesIn(dashboard, &queries)
	if len(queries) < 50 {
		t.Fatalf("only %d queries were found", len(queries))
	}
	for _, query := range queries {
		for _, wrong := range checkQuery(t, strings.ReplaceAll(query, "$__rate_interval", "1m"), names, values) {
			t.Errorf("%s: %s", query, wrong)
		}
		for _, wrong := range mixed(query, false) {
			t.Errorf("%s: %s", query, wrong)
		}
		chosen := strings.Count(query, `database=~"$database", schema=~"$schema"`)
		if !strings.HasPrefix(query, "label_values") && chosen != len(nameInQuery.FindAllString(query, -1)) {
			t.Errorf("%s: shows what was not chosen", query)
		}
	}
	ids := map[any]bool{}
	for _, panel := range dashboard["panels"].([]any) {
		id := panel.(map[string]any)["id"]
		if ids[id] {
			t.Errorf("two panels with id %v", id)
		}
		ids[id] = true
	}
	for _, d := range metrics.Definitions() {
		if !strings.Contains(text, d.Name) {
			t.Errorf("the dashboard does not show %s", d.Name)
		}
	}
}

func TestTheAlertsAskForMetricsThatExist(t *testing.T) {
	names, values := series(), fixedValues(t)
	parsed, err := parseYAML(readFile(t, deploy, "prometheus/pgqueue.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := map[string]string{}
	for _, group := range parsed.(map[string]any)["groups"].([]any) {
		for _, rule := range group.(map[string]any)["rules"].([]any) {
			rule := rule.(map[string]any)
			name, expr := rule["alert"].(string), rule["expr"].(string)
			if alerts[name] != "" {
				t.Errorf("two alerts %s", name)
			}
			alerts[name] = expr
			for _, wrong := range checkQuery(t, expr, names, values) {
				t.Errorf("%s: %s", name, wrong)
			}
			for _, wrong := range mixed(expr, true) {
				t.Errorf("%s: %s", name, wrong)
			}
			grouped := map[string]bool{}
			for _, grouping := range groupingInIt.FindAllStringSubmatch(expr, -1) {
				for label := range strings.SplitSeq(grouping[1], ",") {
					grouped[strings.TrimSpace(label)] = true
				}
			}
			notes := rule["annotations"].(map[string]any)
			for _, note := range []string{"summary", "description"} {
				for _, used := range regexp.MustCompile(`\$labels\.([a-z_]+)`).FindAllStringSubmatch(notes[note].(string), -1) {
					if !grouped[used[1]] {
						t.Errorf("%s: the %s uses the label %s, which the expression does not keep", name, note, used[1])
					}
				}
			}
			if severity := rule["labels"].(map[string]any)["severity"]; severity != "warning" && severity != "critical" {
				t.Errorf("%s: severity %v", name, severity)
			}
		}
	}
	for _, metric := range []string{
		"pgqueue_oldest_ready_seconds", "pgqueue_listener_connected", "pgqueue_dead_jobs", "pgqueue_handlers_stuck", "pgqueue_leases_lost_total",
		"pgqueue_stats_age_seconds", "pgqueue_notify_queue_usage_ratio", "pgqueue_reaper_outage", `loop="heartbeat"`, "absent(pgqueue_workers)",
	} {
		if !slices.ContainsFunc(slices.Collect(maps.Values(alerts)), func(expr string) bool { return strings.Contains(expr, metric) }) {
			t.Errorf("no alert looks at %s", metric)
		}
	}
	// With default timeouts a process whose every call hangs comes to one error in 10 s and more.
	if expr := alerts["PgqueueStoreErrors"]; !regexp.MustCompile(`> 0\.0[1-5]$`).MatchString(expr) {
		t.Errorf("PgqueueStoreErrors cannot fire: %s", expr)
	}
	if expr := alerts["PgqueueNotifyQueueFills"]; !strings.Contains(expr, "> 0.5") { // C70: a warning at half
		t.Errorf("PgqueueNotifyQueueFills: %s", expr)
	}
}

// What the containers mount is there, and Prometheus reads the rules from where they are mounted.
func TestTheOpsProfileIsWired(t *testing.T) {
	parsed, err := parseYAML(readFile(t, "../docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	services := parsed.(map[string]any)["services"].(map[string]any)
	mounted := map[string]bool{}
	for _, name := range []string{"prometheus", "grafana"} {
		service := services[name].(map[string]any)
		if fmt.Sprint(service["profiles"]) != "[ops]" {
			t.Errorf("%s has the profiles %v", name, service["profiles"])
		}
		for _, volume := range service["volumes"].([]any) {
			from, to, _ := strings.Cut(strings.TrimSuffix(volume.(string), ":ro"), ":")
			mounted[to] = true
			if strings.HasPrefix(from, "./") {
				if _, err := os.Stat(filepath.Join("..", from)); err != nil {
					t.Errorf("%s mounts what is not there: %v", name, err)
				}
			}
		}
	}
	if services["postgres"].(map[string]any)["profiles"] != nil {
		t.Error("the database needs a profile")
	}
	config, err := parseYAML(readFile(t, deploy, "prometheus/prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range config.(map[string]any)["rule_files"].([]any) {
		if !mounted[path.(string)] {
			t.Errorf("Prometheus reads %v, which is mounted nowhere", path)
		}
	}
	for _, file := range []string{"datasources/prometheus.yml", "dashboards/pgqueue.yml"} {
		if _, err := parseYAML(readFile(t, deploy, "grafana/provisioning", file)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
