package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// editor is the application: it writes documents, and changes them while they are being embedded.
type editor struct {
	pool *pgxpool.Pool
	opts options
	rand *rand.Rand
	wake func() // after a commit
}

func newEditor(pool *pgxpool.Pool, opts options, wake func()) *editor {
	return &editor{pool: pool, opts: opts, rand: rand.New(rand.NewPCG(opts.seed, 0)), wake: wake}
}

// together is how many new documents are saved in one transaction.
const together = 100

// edit writes all documents and then makes all changes.
func (e *editor) edit(ctx context.Context, out io.Writer) error {
	for first := 1; first <= e.opts.documents; first += together {
		err := e.transaction(ctx, func(tx pgx.Tx) error {
			for id := first; id < first+together && id <= e.opts.documents; id++ {
				if err := saveDocument(ctx, tx, int64(id), e.body()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "documents  %d are written\n", e.opts.documents)
	for range e.opts.changes {
		if err := e.transaction(ctx, e.change(ctx)); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "changes    %d are made\n", e.opts.changes)
	return nil
}

// errRolledBack is a transaction that thought better of it.
var errRolledBack = errors.New("rolled back")

func (e *editor) transaction(ctx context.Context, do func(tx pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, e.pool, do)
	if errors.Is(err, errRolledBack) {
		return nil // and neither content nor work has changed
	}
	e.wake()
	return err
}

// change picks a document and what happens to it. Half of the changes hit the same few documents, so that many find a run
// under way.
func (e *editor) change(ctx context.Context) func(tx pgx.Tx) error {
	id := 1 + e.rand.Int64N(int64(e.opts.documents))
	if e.rand.IntN(2) == 0 {
		id = 1 + id%20
		id = min(id, int64(e.opts.documents))
	}
	body, dice := e.body(), e.rand.IntN(100)
	return func(tx pgx.Tx) error {
		switch {
		case dice < 75:
			return saveDocument(ctx, tx, id, body)
		case dice < 85:
			if err := deleteDocument(ctx, tx, id); err != nil {
				return err
			}
			return saveDocument(ctx, tx, id, body)
		case dice < 95:
			return withdrawDocument(ctx, tx, id)
		}
		if err := saveDocument(ctx, tx, id, body); err != nil {
			return err
		}
		return errRolledBack
	}
}

// body makes up a text.
func (e *editor) body() string {
	words := make([]string, 20)
	for i := range words {
		words[i] = fmt.Sprintf("word%d", e.rand.IntN(5000))
	}
	return strings.Join(words, " ")
}
