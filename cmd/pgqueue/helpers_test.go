package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// patience is how long a test waits for what must happen; only a broken program makes it wait so long.
const patience = 60 * time.Second

// cli runs the program as main does, with an environment of its own.
type cli struct {
	t   testing.TB
	env map[string]string
	in  io.Reader // nil: empty
}

// newCLI is the program on a database. A nil database: no connection is named.
func newCLI(t testing.TB, db *pgqueuetest.DB) *cli {
	c := &cli{t: t, env: map[string]string{"PGQUEUE_ACTOR": "tester"}}
	if db != nil {
		c.env["PGQUEUE_DATABASE_URL"], c.env["PGQUEUE_SCHEMA"] = db.URL, db.Schema
	}
	return c
}

// result is what a command wrote and its exit code.
type result struct {
	t        testing.TB
	args     []string
	code     int
	out, err string
}

// with is the same program with another variable in its environment.
func (c *cli) with(name, value string) *cli {
	other := &cli{t: c.t, env: map[string]string{}, in: c.in}
	for name, value := range c.env {
		other.env[name] = value
	}
	other.env[name] = value
	return other
}

// reading is the same program with an input.
func (c *cli) reading(text string) *cli {
	other := c.with("PGQUEUE_ACTOR", c.env["PGQUEUE_ACTOR"])
	other.in = strings.NewReader(text)
	return other
}

// run runs a command to its end.
func (c *cli) run(args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	return c.runUntil(ctx, args...)
}

// runUntil runs a command that ctx stops, as a signal does.
func (c *cli) runUntil(ctx context.Context, args ...string) result {
	c.t.Helper()
	var out, err lockedBuffer
	code := run(ctx, args, c.streams(&out, &err), c.lookup)
	return result{t: c.t, args: args, code: code, out: out.String(), err: err.String()}
}

func (c *cli) streams(out, err io.Writer) streams {
	in := c.in
	if in == nil {
		in = strings.NewReader("")
	}
	return streams{in: in, out: out, err: err}
}

func (c *cli) lookup(name string) (string, bool) {
	value, ok := c.env[name]
	return value, ok
}

// want checks the exit code.
func (r result) want(code int) result {
	r.t.Helper()
	if r.code != code {
		r.t.Fatalf("pgqueue %q: exit code %d, want %d\nstdout: %s\nstderr: %s", r.args, r.code, code, r.out, r.err)
	}
	return r
}

// says checks that the command wrote texts, to stdout or stderr.
func (r result) says(texts ...string) result {
	r.t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.out+r.err, text) {
			r.t.Errorf("pgqueue %q does not say %q\nstdout: %s\nstderr: %s", r.args, text, r.out, r.err)
		}
	}
	return r
}

// decoded is stdout as one JSON document, with nothing beside it.
func decoded[T any](r result) (value T) {
	r.t.Helper()
	decoder := json.NewDecoder(strings.NewReader(r.out))
	if err := decoder.Decode(&value); err != nil {
		r.t.Fatalf("pgqueue %q wrote no JSON: %v\nstdout: %s\nstderr: %s", r.args, err, r.out, r.err)
	}
	if rest, _ := io.ReadAll(decoder.Buffered()); strings.TrimSpace(string(rest)) != "" {
		r.t.Errorf("pgqueue %q wrote more than one document: %s", r.args, r.out)
	}
	return value
}

// lockedBuffer is a buffer that may be read while it is written.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// terminal is an input or output at which somebody sits.
type terminal struct{ io.ReadWriter }

func (terminal) IsTerminal() bool { return true }

// eventually waits until ready says so.
func eventually(t testing.TB, what string, ready func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		<-tick.C
	}
}
