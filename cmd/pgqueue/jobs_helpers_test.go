package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// atSize is the size of a failure case: small, or that of its text with PGQUEUE_TEST_FULL=1.
func atSize[T any](small, full T) T {
	if os.Getenv("PGQUEUE_TEST_FULL") == "1" {
		return full
	}
	return small
}

// jobExec runs a statement.
func jobExec(t testing.TB, db *pgqueuetest.DB, sql string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	if _, err := db.Pool.Exec(ctx, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// jobValue is the one value of a query.
func jobValue[T any](t testing.TB, db *pgqueuetest.DB, sql string, args ...any) (value T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := db.Pool.QueryRow(ctx, sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// placeJob puts a job into a state and returns its number.
func placeJob(t testing.TB, db *pgqueuetest.DB, state pgqueue.JobState) int64 {
	t.Helper()
	id := jobValue[int64](t, db, `INSERT INTO pgqueue.jobs (queue, kind, payload) VALUES ('default', 'task', '{"n": 1}') RETURNING id`)
	switch {
	case state == pgqueue.JobRunning:
		jobExec(t, db, `UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_generation = generation, claimed_by = 'w', claimed_at = now(),
			lease_expires_at = now() + interval '1 h' WHERE id = $1`, id)
	case !state.Live():
		jobExec(t, db, `DELETE FROM pgqueue.jobs WHERE id = $1`, id)
		insertEndedJobs(t, db, `SELECT $1::bigint, $2::text, NULL::text`, id, string(state))
	}
	return id
}

// insertEndedJobs writes jobs that have ended a minute ago: for each row of from, the columns id, state, key.
func insertEndedJobs(t testing.TB, db *pgqueuetest.DB, from string, args ...any) {
	t.Helper()
	jobExec(t, db, `INSERT INTO pgqueue.history (id, queue, kind, state, attempt, finished_at, day, run_at, created_at, generation, error_count, priority, failures,
			max_attempts, payload, metadata, tags, key, errors)
		SELECT id, 'default', 'task', state, 3, now() - interval '1 minute', CASE WHEN state IN ('failed', 'dead') THEN 'infinity'::date
				ELSE ((now() - interval '1 minute') AT TIME ZONE 'UTC')::date END, now(), now(), 1, 1, 1, 1, 3, '{"n": 1}', '{}', '{}', key,
			'[{"attempt": 3, "code": "boom", "message": "it broke", "at": "2026-01-02T03:04:05Z", "by": "w"}]'
		FROM (`+from+`) x (id, state, key)`, args...)
}

// insertDeadJobs writes dead jobs numbered 1 to n.
func insertDeadJobs(t testing.TB, db *pgqueuetest.DB, n int) {
	t.Helper()
	insertEndedJobs(t, db, `SELECT g::bigint, 'dead', NULL FROM generate_series(1, $1::int) g`, n)
	jobExec(t, db, `SELECT setval('pgqueue.jobs_id_seq', $1)`, n)
}

// number is a job's number as an argument.
func number(id int64) string { return strconv.FormatInt(id, 10) }

// lines decodes stdout line by line.
func lines[T any](r result) (values []T) {
	r.t.Helper()
	scanner := bufio.NewScanner(strings.NewReader(r.out))
	scanner.Buffer(nil, 100<<20)
	for scanner.Scan() {
		var value T
		if err := json.Unmarshal(scanner.Bytes(), &value); err != nil {
			r.t.Fatalf("pgqueue %q wrote a line that is no JSON: %v\n%s", r.args, err, scanner.Text())
		}
		values = append(values, value)
	}
	return values
}

// goesOn takes the command line out of a message that says how to go on, as a shell would read it.
func goesOn(t testing.TB, r result) []string {
	t.Helper()
	text := r.err
	for line := range strings.Lines(r.err) {
		var note struct{ Note string }
		if json.Unmarshal([]byte(line), &note) == nil { // with --json
			text += "\n" + note.Note
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if rest, ok := strings.CutPrefix(line, "  pgqueue "); ok {
			return shellSplit(t, rest)
		}
	}
	t.Fatalf("pgqueue %q does not say how to go on:\n%s", r.args, r.err)
	return nil
}

// shellSplit splits words in single quotes, which is what shellWord writes for what is visible; a comment or redirection ends them.
func shellSplit(t testing.TB, line string) (words []string) {
	t.Helper()
	word, inside, any := "", false, false
	for n := 0; n < len(line); n++ {
		switch c := line[n]; {
		case c == '\'':
			inside, any = !inside, true
		case c == '\\' && !inside:
			n++
			word += line[n : n+1]
		case c == ' ' && !inside:
			if any || word != "" {
				words = append(words, word)
			}
			word, any = "", false
		case (c == '#' || c == '>') && !inside && word == "":
			return words
		default:
			word += line[n : n+1]
		}
	}
	if inside {
		t.Fatalf("a quote is open: %s", line)
	}
	if any || word != "" {
		words = append(words, word)
	}
	return words
}

// cancellingWriter ends a context as soon as a text was written.
type cancellingWriter struct {
	lockedBuffer
	text   string
	cancel context.CancelFunc
}

func (w *cancellingWriter) Write(p []byte) (int, error) {
	n, err := w.lockedBuffer.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.cancel()
	}
	return n, err
}

// stoppedAt runs a command and stops it, as Ctrl-C does, when it has written a text to stderr.
func (c *cli) stoppedAt(text string, args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Minute)
	defer cancel()
	var out lockedBuffer
	errors := &cancellingWriter{text: text, cancel: cancel}
	code := run(ctx, args, c.streams(&out, errors), c.lookup)
	return result{t: c.t, args: args, code: code, out: out.String(), err: errors.String()}
}

// long runs a command that may take minutes at full size.
func (c *cli) long(args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Minute)
	defer cancel()
	return c.runUntil(ctx, args...)
}

func TestWordsOfAShell(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain-1.2/x": "plain-1.2/x", "": "''", "two words": "'two words'", "it's": `'it'\''s'`, "$HOME`id`": "'$HOME`id`'", "bell\a\n": `$'bell\007\012'`, "é": "'é'",
	} {
		if got := shellWord(text); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"it's", "two words", "", "a=b", "x'y'z \"q\"", "ü ß"} {
		if got := shellSplit(t, "pgqueue "+shellWord(text)); len(got) != 2 || got[1] != text {
			t.Errorf("%q came back as %q", text, got)
		}
	}
}

func TestWhatIsShownIsVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain ü 漢": "plain ü 漢", "\x1b[31m": `\x1b[31m`, "a\nb": `a\nb`, "\u009b2J": `\u009b2J`, "\u202egnp.exe": `\u202egnp.exe`, "\xff": `\ufffd`,
	} {
		if got := visible(text); got != want {
			t.Errorf("visible(%q) = %q, want %q", text, got, want)
		}
	}
	raw := []byte("{\n\t\"a\": \"x\u009b\u202e\x7f\U000E0001y\"\n}")
	safe := visibleJSON(raw)
	var a, b any
	if json.Unmarshal(raw, &a) != nil || json.Unmarshal(safe, &b) != nil || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%s means something else than %q", safe, raw)
	}
	if strings.ContainsAny(string(safe), "\u009b\u202e\x7f\U000E0001") {
		t.Errorf("%q holds what is hidden", safe)
	}
}
