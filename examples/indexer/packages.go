package main

import (
	"context"
	"fmt"
	"strconv"
)

// packagesSQL has the totals of the largest packages, and of all.
const packagesSQL = `
SELECT coalesce(import_path, 'all ' || count(DISTINCT import_path) || ' packages') AS package,
       count(*) AS files, sum(lines)::bigint AS lines, sum(cardinality(exported))::bigint AS exported,
       coalesce(100 * sum(documented) / nullif(sum(cardinality(exported)), 0), 100)::bigint AS "documented %"
FROM demo.source_index
GROUP BY GROUPING SETS ((import_path), ())
ORDER BY GROUPING(import_path), sum(lines) DESC, import_path`

// packagesShown is how many packages are printed.
const packagesShown = 15

// printPackages prints the totals of the largest packages, and the sum of all.
func (r *demoRun) printPackages(ctx context.Context) error {
	got, err := ask(ctx, r.pool, packagesSQL)
	if err != nil {
		return err
	}
	if sum := len(got.rows) - 1; sum > packagesShown {
		got.rows = append(got.rows[:packagesShown:packagesShown], got.rows[sum])
	}
	fmt.Fprintf(r.out, "\nThe largest packages:\n\n")
	got.print(r.out)
	return nil
}

// byName reads an answer of two columns, a name and a number.
func (a answer) byName() (map[string]int, error) {
	numbers := make(map[string]int, len(a.rows))
	for _, row := range a.rows {
		number, err := strconv.Atoi(row[1])
		if err != nil {
			return nil, fmt.Errorf("read the number of %q: %w", row[0], err)
		}
		numbers[row[0]] = number
	}
	return numbers, nil
}
