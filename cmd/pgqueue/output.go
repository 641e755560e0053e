package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
)

// writeJSON writes one JSON document and a line end.
func (a *app) writeJSON(value any) error {
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// writeTable writes rows under a head, in columns.
func (a *app) writeTable(head []string, rows [][]string) error {
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.Join(head, "\t"))
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}
