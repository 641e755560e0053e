package main

import (
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
)

// The measures of a plot in pixels.
const (
	plotWidth = 760
	plotNames = 240 // left of the bars
	plotValue = 90  // right of them
	plotBar   = 18
	plotGap   = 6
	plotHead  = 34 // a panel's heading
)

// plot draws the figures of a scenario as an SVG: a panel of bars for each metric, each with a scale of its own. The background is
// drawn too, so that it can be read on a dark page.
func plot(title string, results []result) string {
	var metrics []string
	for _, r := range results {
		if r.Metric != "ratio" && !slices.Contains(metrics, r.Metric) {
			metrics = append(metrics, r.Metric)
		}
	}
	var body strings.Builder
	y := 40
	for _, metric := range metrics {
		y = panel(&body, metric, slices.DeleteFunc(slices.Clone(results), func(r result) bool { return r.Metric != metric }), y)
	}
	height := y + 10
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" role="img" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">
<title>%s</title>
<rect width="100%%" height="100%%" fill="#ffffff"/>
<text x="12" y="26" font-size="17" font-weight="bold" fill="#1b1f24">%s</text>
%s</svg>
`, plotWidth, height, plotWidth, height, html.EscapeString(title), html.EscapeString(title), body.String())
}

// panel draws the bars of one metric from y down, and answers where the next begins.
func panel(body *strings.Builder, metric string, results []result, y int) int {
	better := "less is better"
	if strings.HasSuffix(metric, "_per_s") {
		better = "more is better"
	}
	if ambiguous(metric) {
		better = ""
	}
	fmt.Fprintf(body, `<text x="12" y="%d" font-weight="bold" fill="#1b1f24">%s <tspan font-weight="normal" fill="#57606a">%s</tspan></text>`+"\n",
		y+20, html.EscapeString(metric), better)
	y += plotHead
	highest := 0.0
	for _, r := range results {
		highest = max(highest, r.Value)
	}
	for _, r := range results {
		width := 0.0
		if highest > 0 {
			width = max(0, r.Value) / highest * (plotWidth - plotNames - plotValue)
		}
		color := "#8c959f"
		switch family(r.Engine) {
		case "pgqueue":
			color = "#0969da"
		case "raw":
			color = "#c8d1da"
		}
		name := r.Engine
		if r.Engine != "" && keeps(results, r.Engine) {
			name += ", history " + onOff(r.History)
		}
		fmt.Fprintf(body, `<text x="%d" y="%d" text-anchor="end" fill="#1b1f24">%s</text><rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+
			`<text x="%.1f" y="%d" fill="#1b1f24">%s</text>`+"\n",
			plotNames-8, y+plotBar-5, html.EscapeString(name), plotNames, y, width, plotBar, color,
			plotNames+width+6, y+plotBar-5, strconv.FormatFloat(r.Value, 'f', -1, 64))
		y += plotBar + plotGap
	}
	return y + 8
}

// ambiguous are shares and comparisons, where more or less is no matter of better, or is said by the name.
func ambiguous(metric string) bool {
	for _, part := range []string{"share", "_to_", "reached", "in_flight", "overload_reached"} {
		if strings.Contains(metric, part) {
			return true
		}
	}
	return false
}

// keeps tells whether an engine stands in results with history and without.
func keeps(results []result, engine string) bool {
	n := 0
	for _, r := range results {
		if r.Engine == engine {
			n++
		}
	}
	return n > 1
}
