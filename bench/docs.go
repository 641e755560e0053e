package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pageName is the name of a scenario's page and plot, without an ending.
func pageName(s scenario) string { return fmt.Sprintf("%02d-%s", s.number, s.name) }

// writePage writes the page and the plot of a scenario, and the list of all pages that are there. Pages of other scenarios stay: each
// says for itself how it was measured, and figures of different runs are never put side by side.
func writePage(folder string, s scenario, where where, results []result) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	title := fmt.Sprintf("%d. %s", s.number, s.title)
	var page strings.Builder
	fmt.Fprintf(&page, "# %s\n\n", title)
	fmt.Fprintf(&page, "![%s](%s.svg)\n\n", s.title, pageName(s))
	fmt.Fprintf(&page, "Only the ratios mean anything elsewhere. What is measured, and how, is in [bench/README.md](../../bench/README.md).\n\n")
	fmt.Fprintf(&page, "| | |\n|---|---|\n| command | `%s` |\n| machine | %s |\n| server | %s |\n| versions | %s |\n| pool | %d connections |\n"+
		"| rounds | %d, in turns; the median counts |\n", where.command, where.machine, where.server, strings.Join(where.versions, ", "), poolSize,
		where.rounds)
	if err := writeTable(&page, "## Figures and ratios", results); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, pageName(s)+".md"), []byte(page.String()), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, pageName(s)+".svg"), []byte(plot(title, results)), 0o644); err != nil {
		return err
	}
	return writeIndex(folder)
}

// writeIndex lists the pages.
func writeIndex(folder string) error {
	var index strings.Builder
	index.WriteString("# Benchmarks\n\nWritten by `make bench-docs`; do not edit. One page for each scenario, each from one run on one machine.\n\n")
	for _, s := range scenarios() {
		if _, err := os.Stat(filepath.Join(folder, pageName(s)+".md")); err == nil {
			fmt.Fprintf(&index, "%d. [%s](%s.md)\n", s.number, s.title, pageName(s))
		}
	}
	return os.WriteFile(filepath.Join(folder, "README.md"), []byte(index.String()), 0o644)
}
