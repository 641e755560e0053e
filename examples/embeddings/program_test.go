package main

import (
	"bytes"
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// runProgram runs it on this database and returns its exit code, its output and its last line.
func runProgram(t *testing.T, url string, args ...string) (code int, output, last string) {
	t.Helper()
	t.Setenv("DATABASE_URL", url)
	var out, errs bytes.Buffer
	code = command(t.Context(), args, &out, &errs)
	output = out.String() + errs.String()
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return code, output, lines[len(lines)-1]
}

var lastLine = regexp.MustCompile(`^embeddings ok documents=(\d+) withdrawn=(\d+) stored=(\d+) superseded=(\d+) ineligible=\d+ lost=(\d+) ` +
	`fresh_p50_ms=\d+ fresh_p95_ms=\d+ fresh_max_ms=\d+$`)

func TestProgram(t *testing.T) {
	db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
	code, output, last := runProgram(t, db.URL, "-documents", "100", "-changes", "600")
	match := lastLine.FindStringSubmatch(last)
	if code != 0 || match == nil {
		t.Fatalf("exit code %d:\n%s", code, output)
	}
	numbers := make([]int, len(match))
	for i, text := range match[1:] {
		numbers[i+1], _ = strconv.Atoi(text)
	}
	if numbers[1]+numbers[2] != 100 || numbers[2] == 0 || numbers[3] < numbers[1] {
		t.Errorf("of 100 documents: %s", last)
	}
	if numbers[4] == 0 {
		t.Errorf("no change met a run: %s", last)
	}

	// Again, on what is there: the program takes up where it stands.
	if code, output, last := runProgram(t, db.URL, "-documents", "50", "-changes", "20", "-seed", "2"); code != 0 || !lastLine.MatchString(last) {
		t.Errorf("the second run: exit code %d:\n%s", code, output)
	}
}

// The proof must be able to fail.
func TestProofSeesWhatIsWrong(t *testing.T) {
	for name, spoil := range map[string]string{
		"a vector of other content": `UPDATE search.embeddings SET vector[1] = 7 WHERE document_id = 3`,
		"an old vector":             `UPDATE search.documents SET body = 'new', hash = 'new' WHERE id = 3`,
		"no vector":                 `UPDATE search.embeddings SET vector = NULL WHERE document_id = 3`,
		"no row":                    `DELETE FROM search.embeddings WHERE document_id = 3`,
		"one that is withdrawn":     `UPDATE search.documents SET withdrawn = true WHERE id = 3`,
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			for id := int64(1); id <= 5; id++ {
				f.save(id, "text "+strconv.FormatInt(id, 10))
			}
			outcomes := f.drain(f.embedder())
			if _, err := prove(t.Context(), f.pool, outcomes, f.queue.freshness.summary(), new(bytes.Buffer)); err != nil {
				t.Fatalf("before anything is spoiled: %v", err)
			}
			f.exec(spoil)
			if _, err := prove(t.Context(), f.pool, outcomes, f.queue.freshness.summary(), new(bytes.Buffer)); err == nil ||
				!strings.Contains(err.Error(), "document 3 ") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAProgramThatCannotRunSaysWhy(t *testing.T) {
	if code, output, last := runProgram(t, "postgres://127.0.0.1:1/nothing"); code != 1 ||
		!strings.HasPrefix(last, "embeddings failed: connect to the database") {
		t.Errorf("exit code %d:\n%s", code, output)
	}
	if code, output, _ := runProgram(t, "postgres://u:secret@[::bad/nothing"); code != 1 || strings.Contains(output, "secret") {
		t.Errorf("exit code %d:\n%s", code, output)
	}
	for _, args := range [][]string{{"-documents", "0"}, {"-workers", "x"}, {"more"}} {
		if code, output, _ := runProgram(t, "", args...); code != 2 || output == "" {
			t.Errorf("%q: exit code %d, %q", args, code, output)
		}
	}
	if code, _, _ := runProgram(t, "", "-help"); code != 0 {
		t.Errorf("-help: exit code %d", code)
	}
}

// An interruption ends the program in order, and the next run goes on.
func TestAnInterruptedRunIsContinued(t *testing.T) {
	db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &interrupting{text: "changes", then: interrupt}
	if _, err := runOn(ctx, db.URL, options{documents: 100, changes: 0, workers: 2, latency: 1e9, seed: 1}, out); err == nil {
		t.Fatalf("it was not interrupted:\n%s", out.String())
	}
	var claimed int
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM search.embeddings WHERE state = 'claimed'`).Scan(&claimed); err != nil {
		t.Fatal(err)
	}
	if claimed != 0 {
		t.Errorf("%d claims were not handed back", claimed)
	}
	if code, output, last := runProgram(t, db.URL, "-documents", "100", "-changes", "10"); code != 0 || !lastLine.MatchString(last) {
		t.Errorf("exit code %d:\n%s", code, output)
	}
}

// interrupting calls then when text is written.
type interrupting struct {
	bytes.Buffer
	text string
	then func()
}

func (i *interrupting) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte(i.text)) {
		i.then()
	}
	return i.Buffer.Write(text)
}
