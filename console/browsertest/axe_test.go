package browsertest

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/chromedp/chromedp"
)

// accessible fails for what axe-core finds and calls serious or critical, on the page as it is. axe is put into the page by the
// debugger, which no CSP concerns; the page itself loads nothing.
func (tb *tab) accessible() {
	tb.t.Helper()
	axe, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		tb.t.Fatalf("run scripts/setup-browser.sh: %v", err)
	}
	tb.run(chromedp.Evaluate(string(axe)+";0", nil))
	var found string
	tb.evaluate(`axe.run(document, {resultTypes: ["violations"]}).then(result => JSON.stringify(result.violations
		.filter(v => v.impact === "serious" || v.impact === "critical")
		.map(v => ({id: v.id, help: v.help, nodes: v.nodes.map(n => n.target.join(" ") + ": " + n.failureSummary)}))))`, &found)
	var violations []struct {
		ID    string   `json:"id"`
		Help  string   `json:"help"`
		Nodes []string `json:"nodes"`
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		tb.t.Fatalf("axe said %s: %v", found, err)
	}
	for _, v := range violations {
		tb.t.Errorf("axe, %s at %s: %s (%s)\n  %s", tb.name, tb.where(), v.ID, v.Help, strings.Join(v.Nodes, "\n  "))
	}
}
