package main

import (
	"encoding/json"
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
	for name, file := range map[string]string{"claim": "claim.sql", "complete": "verdict.sql", "complete_forget": "verdict.sql"} {
		want := strings.ReplaceAll(shipped(t, file, name), "{schema}", "pgqueue")
		if got := code(rawStatement(name)); got != want {
			t.Errorf("raw.sql: %s is not what pgqueue sends; copy it from %s\n got %s\nwant %s", name, file, got, want)
		}
	}
}

func TestPayloadHasItsSize(t *testing.T) {
	for _, args := range []any{noop{Padding: padding()}, riverArgs{Padding: padding()}} {
		text, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) != payloadBytes {
			t.Errorf("the payload of %T has %d bytes, want %d", args, len(text), payloadBytes)
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

func TestSettingsAreRead(t *testing.T) {
	env := map[string]string{"JOBS": "5", "ROUNDS": "2", "ENGINES": "raw,river", "SCENARIOS": "latency"}
	got, err := readSettings(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if got.jobs != 5 || got.rounds != 2 || !slices.Equal(got.engines, []string{"raw", "river"}) || !slices.Equal(got.scenarios, []string{"latency"}) {
		t.Errorf("settings are %+v", got)
	}
	chosen, err := chooseEngines(got.engines)
	if err != nil {
		t.Fatal(err)
	}
	if len(chosen) != 3 {
		t.Errorf("%d engines, want raw twice and river", len(chosen))
	}
	for name, value := range map[string]string{"JOBS": "0", "ROUNDS": "many", "SCENARIOS": "drian"} {
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
