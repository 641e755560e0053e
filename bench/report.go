package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// result is one line of output. Figures are medians over the rounds.
type result struct {
	Scenario string  `json:"scenario"`
	Metric   string  `json:"metric,omitempty"` // what Value is; the drain has JobsPerS instead
	Engine   string  `json:"engine,omitempty"`
	Of       string  `json:"of,omitempty"` // with the metric "ratio": of what to what
	To       string  `json:"to,omitempty"`
	History  bool    `json:"history"` // of Of, in a ratio
	Jobs     int     `json:"jobs,omitempty"`
	JobsPerS float64 `json:"jobs_per_s,omitempty"`
	Value    float64 `json:"value,omitempty"`
	Settings string  `json:"settings,omitempty"`
	PoolSize int     `json:"pool_size,omitempty"`

	Rounds []float64 `json:"rounds,omitempty"` // each round's figure, in order
}

func newResult(scenario string, engine engine) result {
	return result{Scenario: scenario, Engine: engine.name, History: engine.history, Settings: engine.settings, PoolSize: poolSize}
}

// add notes the figure of one round, with so many decimals.
func (r *result) add(figure float64, decimals int) {
	r.Rounds = append(r.Rounds, rounded(figure, decimals))
}

// newRatio compares two results of one scenario.
func newRatio(of, to result, value float64) result {
	return result{Scenario: of.Scenario, Metric: "ratio", Of: of.Engine, To: to.Engine, History: of.History, Value: rounded(value, 2)}
}

// median is the middle one, or the lower of the two in the middle: a figure that was measured.
func median(figures []float64) float64 {
	if len(figures) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(figures))[(len(figures)-1)/2]
}

func rounded(figure float64, decimals int) float64 {
	scale := math.Pow(10, float64(decimals))
	return math.Round(figure*scale) / scale
}

// writeLines writes one JSON object a line.
func writeLines(w io.Writer, results []result) error {
	out := json.NewEncoder(w)
	for _, result := range results {
		if err := out.Encode(result); err != nil {
			return err
		}
	}
	return nil
}

// writeTable writes the same for people, in Markdown.
func writeTable(w io.Writer, heading string, results []result) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s\n\n", heading)
	text.WriteString("| scenario | engine | history | figure | value | settings |\n|---|---|---|---|--:|---|\n")
	for _, r := range results {
		engine, figure, value := r.Engine, r.Metric, fmt.Sprint(r.Value)
		switch r.Metric {
		case "ratio":
			engine, value = r.Of+" / "+r.To, fmt.Sprintf("%.2f", r.Value)
		case "":
			figure, value = "jobs_per_s", fmt.Sprintf("%.0f", r.JobsPerS)
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n", r.Scenario, engine, onOff(r.History), figure, value, r.Settings)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
