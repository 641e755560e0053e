package doctor

import (
	"context"
	"fmt"
	"math"
)

// numbers is where the sequence of the job numbers stands, and the largest number that a job has.
type numbers struct {
	Next, Largest int64
}

// jobNumbers reads both in one statement: the rows of its snapshot took their numbers before the sequence is read.
func (x *examination) jobNumbers(ctx context.Context) (numbers, error) {
	rows, err := readByIndex[numbers](ctx, x, `
		SELECT s.last_value + s.is_called::int, n.largest
		FROM (SELECT greatest((SELECT max(j.id) FROM {schema}.jobs j), (SELECT max(h.id) FROM {schema}.history h), 0) AS largest OFFSET 0) n
		     CROSS JOIN {schema}.jobs_id_seq s`)
	if err != nil || len(rows) == 0 {
		return numbers{Next: 1}, err
	}
	return rows[0], nil
}

// setNext is the statement that sets the sequence behind the largest number.
func (x *examination) setNext(n numbers) []string {
	return []string{fmt.Sprintf("SELECT setval(%s, %d)", literal(ident(x.o.Schema, "jobs_id_seq")), max(n.Largest, 1))}
}

// sequenceBehind: the next job would get a number that is taken, as after a restore of the tables alone.
func sequenceBehind(ctx context.Context, x *examination) ([]Finding, error) {
	n, err := x.jobNumbers(ctx)
	if err != nil || n.Next > n.Largest {
		return nil, err
	}
	return []Finding{{
		Severity: Error, Subject: "sequence jobs_id_seq",
		Summary: fmt.Sprintf("The next job would get the number %d, and %d is taken.", n.Next, n.Largest),
		Why:     "Enqueues fail with a duplicate key, or two jobs of one number stand in history: a restore brought the rows and not the sequence.",
		Fix:     "Set it behind the largest number. Producers may go on meanwhile.",
		FixSQL:  x.setNext(n),
	}}, nil
}

// sequenceLimit: the numbers come to an end, or to where other programs can no longer tell them apart.
func sequenceLimit(ctx context.Context, x *examination) ([]Finding, error) {
	const exact = 1 << 53 // the integers that a float64 holds, as in JavaScript
	n, err := x.jobNumbers(ctx)
	if err != nil || n.Next <= exact {
		return nil, err
	}
	f := Finding{
		Severity: Warning, Subject: "sequence jobs_id_seq",
		Summary: fmt.Sprintf("The next job gets the number %d.", n.Next),
		Why:     "Beyond 2^53 programs that keep numbers as floating point, such as a browser, mistake one job for another; at 2^63 enqueue fails.",
		Fix:     "No queue counts that far by itself: somebody set the sequence. Set it back to behind the largest number of a job.",
	}
	if n.Next > math.MaxInt64/10*9 {
		f.Severity = Error
	}
	if n.Largest <= exact {
		f.FixSQL = x.setNext(n)
	}
	return []Finding{f}, nil
}
