package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed schema.sql
var schemaSQL string

// db is what can run a statement: a pool, a connection or a transaction. The producer's side takes the caller's
// transaction, so that work exists exactly when the content does.
type db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// hashOf is the revision of a body.
func hashOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// saveDocument creates a document or changes its body, and enqueues the work with it. The same content again is no change.
func saveDocument(ctx context.Context, tx db, id int64, body string) error {
	_, err := tx.Exec(ctx, `
		WITH changed AS (
			INSERT INTO search.documents AS d (id, body, hash) VALUES ($1, $2, $3)
			ON CONFLICT (id) DO UPDATE SET body = excluded.body, hash = excluded.hash WHERE d.hash <> excluded.hash
			RETURNING d.id, d.hash, d.withdrawn
		)
		INSERT INTO search.embeddings AS e (document_id, hash)
		SELECT id, hash FROM changed WHERE NOT withdrawn
		-- A run may be under way with the old content. It is not disturbed: when it reports, hash differs from claimed_hash,
		-- its vector is not stored, and the row is waiting again. New content has a whole budget, and is due at once, but
		-- keeps its place in the line if it had one.
		ON CONFLICT (document_id) DO UPDATE SET
			hash = excluded.hash,
			failures = 0,
			stale_since = coalesce(e.stale_since, statement_timestamp()),
			state = CASE e.state WHEN 'claimed' THEN 'claimed' ELSE 'waiting' END,
			due_at = CASE WHEN e.state IN ('claimed', 'waiting') THEN least(e.due_at, statement_timestamp()) ELSE statement_timestamp() END`,
		id, body, hashOf(body))
	if err != nil {
		return fmt.Errorf("save document %d: %w", id, err)
	}
	return nil
}

// withdrawDocument takes a document out of the search: its vector goes, and a run that is under way cannot bring one back.
func withdrawDocument(ctx context.Context, tx db, id int64) error {
	_, err := tx.Exec(ctx, `
		WITH withdrawn AS (
			UPDATE search.documents SET withdrawn = true WHERE id = $1 RETURNING id
		)
		UPDATE search.embeddings e
		SET vector = NULL, vector_hash = NULL, embedded_at = NULL, stale_since = NULL,
		    state = CASE e.state WHEN 'claimed' THEN 'claimed' ELSE 'cancelled' END
		FROM withdrawn w
		WHERE e.document_id = w.id`, id)
	if err != nil {
		return fmt.Errorf("withdraw document %d: %w", id, err)
	}
	return nil
}

// deleteDocument deletes a document, and with it the work, claimed or not. Whoever has claimed it learns that its report is lost.
func deleteDocument(ctx context.Context, tx db, id int64) error {
	if _, err := tx.Exec(ctx, `DELETE FROM search.documents WHERE id = $1`, id); err != nil {
		return fmt.Errorf("delete document %d: %w", id, err)
	}
	return nil
}
