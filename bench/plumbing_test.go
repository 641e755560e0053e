package main

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shipped is a statement of package jobstore as it is sent: without its comments.
func shipped(t *testing.T, file, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "pgqueue", "internal", "jobstore", file))
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(text), "-- name: "+name+"\n")
	if !found {
		t.Fatalf("%s has no statement %s", file, name)
	}
	body, _, _ = strings.Cut(body, "-- name: ")
	return code(body)
}

// code is a statement without comments and line breaks.
func code(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "--")
		words = append(words, strings.Fields(line)...)
	}
	return strings.Join(words, " ")
}

func TestRawSendsTheShippedStatements(t *testing.T) {
	for name, file := range map[string]string{"claim": "claim.sql", "complete_at": "verdict.sql", "complete_forget_at": "verdict.sql"} {
		want := strings.ReplaceAll(shipped(t, file, name), "{schema}", "pgqueue")
		if got := code(rawStatement(name)); got != want {
			t.Errorf("raw.sql: %s is not what pgqueue sends; copy it from %s\n got %s\nwant %s", name, file, got, want)
		}
	}
}

func TestPayloadHasItsSize(t *testing.T) {
	for _, at := range []int64{0, 7, stamp()} {
		args := payload(at)
		text, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) != payloadBytes {
			t.Errorf("the payload stamped %d has %d bytes, want %d", at, len(text), payloadBytes)
		}
	}
}

func TestTurnsAlternate(t *testing.T) {
	first := map[int]bool{}
	for round := range 5 {
		order := turn(5, round)
		if got := slices.Sorted(slices.Values(order)); !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
			t.Fatalf("round %d runs %v", round, order)
		}
		first[order[0]] = true
	}
	if len(first) < 3 {
		t.Errorf("only %d engines are ever first", len(first))
	}
	if got := turn(3, 1); !slices.Equal(got, []int{0, 2, 1}) {
		t.Errorf("the second round runs %v, want the first one's successor backwards", got)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		figures []float64
		want    float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2}} {
		if got := median(c.figures); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.figures, got, c.want)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("the median of nothing is a number")
	}
}

func TestFloorIsOfTheDrainBesideRaw(t *testing.T) {
	ratio := func(figure, to string, value float64) result {
		return result{Metric: "ratio", Figure: figure, Of: "pgqueue", To: to, Value: value}
	}
	for name, test := range map[string]struct {
		results []result
		fails   bool
	}{
		"above":          {[]result{ratio("jobs_per_s", "raw", 0.7), ratio("jobs_per_s", "river", 0.1)}, false},
		"below":          {[]result{ratio("jobs_per_s", "raw", 0.7), ratio("jobs_per_s", "raw", 0.4)}, true},
		"not compared":   {[]result{ratio("jobs_per_s", "river", 3)}, true},
		"another figure": {[]result{ratio("wal_bytes_per_job", "raw", 0.9)}, true},
	} {
		if err := aboveFloor(test.results, 0.5); (err != nil) != test.fails {
			t.Errorf("%s: %v", name, err)
		}
		if err := aboveFloor(test.results, 0); err != nil {
			t.Errorf("%s: %v without a floor", name, err)
		}
	}
}

func TestFloorIsAShare(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "0.5": 0.5, "1": 1, "0": -1, "1.5": -1, "-0.5": -1, "NaN": -1, "half": -1} {
		got, err := readSettings(func(name string) string { return map[string]string{"FLOOR": text}[name] })
		if (err != nil) != (want < 0) || err == nil && got.floor != want {
			t.Errorf("FLOOR=%q: %v, %v", text, got.floor, err)
		}
	}
}

func TestSettingsAreRead(t *testing.T) {
	env := map[string]string{"JOBS": "5", "ROUNDS": "2", "SECONDS": "7", "ENGINES": "raw,river-defaults", "SCENARIOS": "latency,1,6"}
	got, err := readSettings(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if got.jobs != 5 || got.rounds != 2 || got.seconds != 7 || !slices.Equal(got.scenarios, []int{1, 4, 6}) {
		t.Errorf("settings are %+v", got)
	}
	chosen, err := chooseEngines(got.engines)
	if err != nil {
		t.Fatal(err)
	}
	if len(chosen) != 3 {
		t.Errorf("%d engines, want raw twice and river with its defaults", len(chosen))
	}
	if want, got := "make bench SCENARIOS=latency,1,6 ENGINES=raw,river-defaults JOBS=5 SECONDS=7 ROUNDS=2", command(func(name string) string { return env[name] },
		"bench"); got != want {
		t.Errorf("the command is %q, want %q", got, want)
	}
	for name, value := range map[string]string{"JOBS": "0", "ROUNDS": "many", "SECONDS": "-1", "SCENARIOS": "drian"} {
		_, err := readSettings(func(asked string) string {
			if asked == name {
				return value
			}
			return ""
		})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: error is %v, want one that names the variable", name, value, err)
		}
	}
	if _, err := chooseEngines([]string{"rivre"}); err == nil || !strings.Contains(err.Error(), "rivre") {
		t.Errorf("an engine that does not exist: error is %v", err)
	}
}

func TestScenariosAreTheTwelve(t *testing.T) {
	all := scenarios()
	for i, s := range all {
		if s.number != i+1 {
			t.Errorf("scenario %q has number %d, want %d", s.name, s.number, i+1)
		}
	}
	if len(all) != 12 {
		t.Errorf("%d scenarios, want 12", len(all))
	}
}

func TestPercentile(t *testing.T) {
	figures := []float64{5, 1, 4, 2, 3}
	for p, want := range map[float64]float64{0: 1, 20: 1, 50: 3, 99: 5, 100: 5} {
		if got := percentile(figures, p); got != want {
			t.Errorf("percentile %v of 1 to 5 is %v, want %v", p, got, want)
		}
	}
	if !math.IsNaN(percentile(nil, 50)) {
		t.Error("a percentile of nothing is a number")
	}
}

func TestPlotIsXMLWithABarForEachFigure(t *testing.T) {
	text := plot("a < b", []result{{Metric: "x_per_s", Engine: "pgqueue", Value: 10}, {Metric: "x_per_s", Engine: "river & co", Value: 5},
		{Metric: "ratio", Figure: "x_per_s", Of: "pgqueue", To: "river", Value: 2}, {Metric: "y_ms", Engine: "river", Value: 0}})
	bars := 0
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "rect" {
			bars++
		}
	}
	if bars != 1+3 {
		t.Errorf("%d rectangles, want the background and 3 bars: %s", bars, text)
	}
}

func TestWithDatabase(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://me@localhost:5432/postgres?sslmode=disable": "postgres://me@localhost:5432/new?sslmode=disable",
		"host=localhost dbname=postgres":                        "host=localhost dbname=postgres dbname=new",
	} {
		if got, err := withDatabase(url, "new"); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", url, got, err, want)
		}
	}
}

func TestNodeIsNewEnough(t *testing.T) {
	for version, want := range map[string]bool{"v22.18.0": true, "v22.23.3": true, "v24.0.1": true, "v22.17.9": false, "v20.20.2": false, "": false} {
		if got := newEnough(version); got != want {
			t.Errorf("%q: %t, want %t", version, got, want)
		}
	}
}
