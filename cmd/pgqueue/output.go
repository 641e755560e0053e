package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// writeJSON writes one JSON document and a line end.
func (a *app) writeJSON(value any) error { return writeJSONTo(a.out, value) }

// writeJSONTo writes one document, in which what a terminal would obey is an escape.
func writeJSONTo(w io.Writer, value any) error { return writeLine(w, value) }

// printf writes text for people; a failed write is returned, so that a full disk under a redirected output is no success. What
// others have written belongs into visible or block first.
func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.out, format, args...)
	return err
}

// notef writes a line about what is going on, which is no data, to where errors go. With --json it is a line of JSON, so that whoever reads
// errors can read all that stands there.
func (a *app) notef(format string, args ...any) {
	if a.flags.json {
		_ = writeLine(a.err, map[string]string{"note": fmt.Sprintf(format, args...)})
		return
	}
	fmt.Fprintf(a.err, format+"\n", args...)
}

// writeTable writes rows under a head, in columns. Cells may hold what others have written: they pass visible. A table without rows
// is its head alone; say in words that there is nothing, see notef.
func (a *app) writeTable(head []string, rows [][]string) error {
	widths := make([]int, len(head))
	all := make([][]string, 0, len(rows)+1)
	for _, row := range append([][]string{head}, rows...) {
		line := make([]string, len(head))
		for i := range line {
			if i < len(row) {
				line[i] = visible(row[i])
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i]))
		}
		all = append(all, line)
	}
	w := bufio.NewWriter(a.out)
	for _, line := range all {
		var text strings.Builder
		for i, value := range line {
			text.WriteString(value)
			if i < len(line)-1 {
				text.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(value)+2))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(text.String(), " "))
	}
	return w.Flush()
}

// writeFacts writes pairs of a name and a value, one a line, the values in a column. Pairs with an empty value are left out, and
// values may have several lines.
func (a *app) writeFacts(facts [][2]string) error {
	width := 0
	for _, fact := range facts {
		if fact[1] != "" {
			width = max(width, utf8.RuneCountInString(fact[0]))
		}
	}
	w := bufio.NewWriter(a.out)
	for _, fact := range facts {
		if fact[1] == "" {
			continue
		}
		indent := strings.Repeat(" ", width+2)
		value := strings.ReplaceAll(block(fact[1]), "\n", "\n"+indent)
		fmt.Fprintf(w, "%s%s%s\n", visible(fact[0]), indent[utf8.RuneCountInString(fact[0]):], value)
	}
	return w.Flush()
}

// block is visible for text of several lines: line ends and tabs stay.
func block(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && hidden(r) }) < 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		parts := strings.Split(line, "\t")
		for n, part := range parts {
			parts[n] = visible(part)
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}
