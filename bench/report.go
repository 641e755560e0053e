package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// result is one line of output. Figures are medians over the rounds.
type result struct {
	Scenario string  `json:"scenario"`
	Metric   string  `json:"metric"`           // what Value is
	Figure   string  `json:"figure,omitempty"` // with the metric "ratio": the metric of both
	Engine   string  `json:"engine,omitempty"`
	Of       string  `json:"of,omitempty"` // with the metric "ratio": of what to what
	To       string  `json:"to,omitempty"`
	History  bool    `json:"history"` // of Of, in a ratio
	Jobs     int     `json:"jobs,omitempty"`
	Seconds  int     `json:"seconds,omitempty"`
	JobsPerS float64 `json:"jobs_per_s,omitempty"` // of the drain: Value once more
	Value    float64 `json:"value"`
	Settings string  `json:"settings,omitempty"`
	PoolSize int     `json:"pool_size,omitempty"`

	Rounds []float64 `json:"rounds,omitempty"` // each round's figure, in order
}

// ratios compares pgqueue with the others, metric by metric. What stays in a peer's table is its history, so the ratio with history is the
// one of like with like where the peer keeps it; the one without is what a user of pgqueue can choose. The raw ceiling is
// compared with what does the same writes, and defaults with defaults.
func ratios(results []result) (ratios []result) {
	for _, of := range results {
		for _, to := range results {
			if of.Metric != to.Metric || family(of.Engine) != "pgqueue" || family(to.Engine) == "pgqueue" || to.Value == 0 {
				continue
			}
			if to.Engine == "raw" && (to.History != of.History || of.Engine != "pgqueue") {
				continue
			}
			if byDefault(of.Engine) != byDefault(to.Engine) && compared(results, of, to) {
				continue
			}
			ratios = append(ratios, result{Scenario: of.Scenario, Metric: "ratio", Figure: of.Metric, Of: of.Engine, To: to.Engine,
				History: of.History, Value: rounded(of.Value/to.Value, 2)})
		}
	}
	return ratios
}

// aboveFloor fails where pgqueue drains less than the share floor of what its own statements do in a bare loop, and where that was not
// measured. Both come from the same minutes on the same machine, so the share says something about the code, however
// slow the machine is.
func aboveFloor(results []result, floor float64) error {
	if floor == 0 {
		return nil
	}
	compared := 0
	for _, r := range results {
		if r.Metric != "ratio" || r.Figure != "jobs_per_s" || r.To != "raw" {
			continue
		}
		compared++
		if r.Value < floor {
			return fmt.Errorf("%s reaches %.2f of the raw statements with history %s, the floor is %.2f", r.Of, r.Value, onOff(r.History), floor)
		}
	}
	if compared == 0 {
		return errors.New("FLOOR needs a drain of pgqueue and of raw: SCENARIOS=1 ENGINES=pgqueue,raw")
	}
	return nil
}

func byDefault(engine string) bool { return strings.HasSuffix(engine, "-"+defaults) }

func family(engine string) string {
	return strings.TrimSuffix(strings.TrimSuffix(engine, "-"+defaults), "-"+window10)
}

// compared tells whether of is compared with to's other variant anyway.
func compared(results []result, of, to result) bool {
	return slices.ContainsFunc(results, func(r result) bool {
		return r.Metric == to.Metric && family(r.Engine) == family(to.Engine) && byDefault(r.Engine) == byDefault(of.Engine)
	})
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
		engine, figure, value := r.Engine, r.Metric, strconv.FormatFloat(r.Value, 'f', -1, 64)
		if r.Metric == "ratio" {
			engine, value = r.Of+" / "+r.To, fmt.Sprintf("%.2f", r.Value)
			figure = "ratio"
			if r.Figure != "jobs_per_s" {
				figure = "ratio of " + r.Figure
			}
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
