package console

import (
	"maps"
	"net/http"
	"net/url"
)

// readBulk reads a bulk action and finds what is wrong with it.
func readBulk(r *request, values url.Values) (*bulk, error) {
	b, err := parseBulk(values)
	if err != nil {
		return nil, err
	}
	if err := b.check(r.Context(), r.inspector()); err != nil {
		return nil, err
	}
	return b, nil
}

// bulkTyped are the fields of the form that people fill in.
func bulkTyped() []string { return []string{"batch", "pause", "spread", "new_due", "new_priority"} }

// askForBulkAgain shows the form that was refused once more, with what was typed into it but for what is wrong. Where more than one field is
// wrong, all of these begin anew; where it is none of them, or nothing that a form can mend, the refusal is the answer.
func askForBulkAgain(r *request, refused error) error {
	if explain(refused).status != http.StatusBadRequest {
		return refused
	}
	without := [][]string{nil}
	for _, field := range bulkTyped() {
		if r.PostForm.Get(field) != "" {
			without = append(without, []string{field})
		}
	}
	for _, left := range append(without, bulkTyped()) {
		values := maps.Clone(r.PostForm)
		for _, field := range left {
			values.Del(field)
		}
		if b, err := readBulk(r, values); err == nil {
			return askForBulk(r, b, false, refused)
		}
	}
	return refused
}
