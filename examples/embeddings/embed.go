package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/runner"
)

// dimensions of a vector.
const dimensions = 64

// Vector is an embedding. Nil is none.
type Vector []float32

// check says why a vector cannot be stored.
func (v Vector) check() error {
	if len(v) != dimensions {
		return fmt.Errorf("the vector has %d dimensions, not %d", len(v), dimensions)
	}
	for i, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("dimension %d of the vector is no number", i)
		}
	}
	return nil
}

// embed stands in for a model: each word moves the vector along one dimension. Equal bodies have equal vectors, and bodies
// with words in common have close ones.
func embed(body string) Vector {
	v := make(Vector, dimensions)
	for word := range strings.FieldsSeq(strings.ToLower(body)) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(word)) // never fails
		sum := h.Sum32()
		if sum&1 == 0 {
			v[sum>>1%dimensions]++
		} else {
			v[sum>>1%dimensions]--
		}
	}
	var length float64
	for _, x := range v {
		length += float64(x) * float64(x)
	}
	if length > 0 {
		for i := range v {
			v[i] /= float32(math.Sqrt(length))
		}
	}
	return v
}

// replicaLag is how long a document that cannot be read at its revision is left alone.
const replicaLag = time.Second

// embedder is the handler.
type embedder struct {
	readers *pgxpool.Pool // for reading only, a replica's if there is one: slow reads never keep a claim waiting
	latency time.Duration // how long the model takes
}

// Handle reads the document at the revision of the claim and embeds it. The vector is returned, not written: the queue
// stores it together with the success, or not at all.
func (e *embedder) Handle(ctx context.Context, task *runner.Task[Document]) (Vector, error) {
	var body string
	err := e.readers.QueryRow(ctx, `SELECT body FROM search.documents WHERE id = $1 AND hash = $2`,
		task.Payload.ID, task.Payload.Hash).Scan(&body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		// The replica has not seen this revision yet, and it will be there in a moment; or the content has changed or gone
		// since the claim, and then the queue answers Superseded or Lost. A snooze is right in either case, and spends nothing.
		return nil, runner.SnoozeFor(replicaLag)
	case err != nil:
		return nil, fmt.Errorf("read document %d: %w", task.Payload.ID, err)
	}
	if err := wait(ctx, e.latency); err != nil {
		return nil, err
	}
	return embed(body), nil
}

// wait takes time, unless ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
