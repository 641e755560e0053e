package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// indexQueue is the queue of the demo's jobs.
const indexQueue = "index"

// IndexFile asks for one file to be indexed. What version of it is the job's revision.
type IndexFile struct {
	Path string `json:"path"`
}

// Kind names the handler; it is stored with each job.
func (IndexFile) Kind() string { return "index_file" }

// enqueueBatch is how many files one transaction records and enqueues.
const enqueueBatch = 500

// treeDiff says how the tree differs from what was recorded.
type treeDiff struct {
	changed  []sourceFile // new, or with another hash
	vanished []string     // recorded, and no longer there
}

// diffTree compares the tree with demo.files.
func diffTree(ctx context.Context, pool *pgxpool.Pool, tree []sourceFile) (treeDiff, error) {
	recorded, err := recordedFiles(ctx, pool)
	if err != nil {
		return treeDiff{}, err
	}
	var diff treeDiff
	for _, file := range tree {
		if record, ok := recorded[file.path]; !ok || record.hash != file.hash || record.again {
			diff.changed = append(diff.changed, file)
		}
		delete(recorded, file.path)
	}
	for path := range recorded {
		diff.vanished = append(diff.vanished, path)
	}
	return diff, nil
}

// record is what demo.files knows about a file.
type record struct {
	hash  string
	again bool // its job ended badly for a reason that does not lie in the content
}

// recordedFiles returns the record of each file by path.
func recordedFiles(ctx context.Context, pool *pgxpool.Pool) (map[string]record, error) {
	// A file that does not parse will not parse tomorrow. One that could not be read, or changed before its job ran, may.
	rows, err := pool.Query(ctx, `
		SELECT f.path, f.hash, last.path IS NOT NULL AS again
		FROM demo.files f
		LEFT JOIN (
			SELECT DISTINCT ON (h.key) h.key AS path, h.revision, h.state, h.errors -> -1 ->> 'code' AS code
			FROM pgqueue.history h
			WHERE h.queue = $1 AND h.state IN ('failed', 'dead')
			ORDER BY h.key, h.finished_at DESC
		) last ON last.path = f.path AND last.revision = f.hash
			AND (last.state = 'dead' OR last.code IS DISTINCT FROM $2)
			AND NOT EXISTS (SELECT FROM demo.source_index i WHERE i.path = f.path AND i.revision = f.hash)
			AND NOT EXISTS (SELECT FROM pgqueue.jobs j WHERE j.queue = $1 AND j.key = f.path)`, indexQueue, codeParse)
	if err != nil {
		return nil, fmt.Errorf("read the recorded files: %w", err)
	}
	recorded := map[string]record{}
	var path string
	var found record
	_, err = pgx.ForEachRow(rows, []any{&path, &found.hash, &found.again}, func() error {
		recorded[path] = found
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the recorded files: %w", err)
	}
	return recorded, nil
}

// enqueueChanged records and enqueues the changed files, batch by batch, and adds to placed what has been committed.
func enqueueChanged(ctx context.Context, pool *pgxpool.Pool, client *pgqueue.Client, files []sourceFile, placed *atomic.Int64) error {
	for len(files) > 0 {
		batch := files[:min(enqueueBatch, len(files))]
		files = files[len(batch):]
		// Record and job are committed together: there is no moment at which a file is recorded and its job is not, or
		// the other way round, and no process has to look for such files later.
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := recordFiles(ctx, tx, batch); err != nil {
				return err
			}
			_, err := client.EnqueueMany(ctx, tx, jobsFor(batch))
			return err
		})
		if err != nil {
			return fmt.Errorf("enqueue %d files from %s on: %w", len(batch), batch[0].path, err)
		}
		placed.Add(int64(len(batch)))
	}
	return nil
}

// jobsFor makes one job for each file. The key allows one live job per file; the revision makes enqueueing the same
// content again a no-op, and new content replace what is still waiting.
func jobsFor(files []sourceFile) []pgqueue.NewJob {
	jobs := make([]pgqueue.NewJob, len(files))
	for i, file := range files {
		jobs[i] = pgqueue.NewJob{
			Args: IndexFile{Path: file.path},
			Options: []pgqueue.EnqueueOption{
				pgqueue.OnQueue(indexQueue),
				pgqueue.WithKey(file.path),
				pgqueue.WithRevision(file.hash),
			},
		}
	}
	return jobs
}

// recordFiles writes the files' hashes and forgets what was known about their former content.
func recordFiles(ctx context.Context, tx pgx.Tx, files []sourceFile) error {
	paths := make([]string, len(files))
	hashes := make([]string, len(files))
	for i, file := range files {
		paths[i], hashes[i] = file.path, file.hash
	}
	if err := forgetIndexed(ctx, tx, paths); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO demo.files (path, hash)
		SELECT path, hash FROM unnest($1::text[], $2::text[]) AS u(path, hash)
		ON CONFLICT (path) DO UPDATE SET hash = excluded.hash, recorded_at = now()`, paths, hashes)
	if err != nil {
		return fmt.Errorf("record files: %w", err)
	}
	return nil
}

// removeVanished forgets files that are no longer in the tree.
func removeVanished(ctx context.Context, pool *pgxpool.Pool, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := forgetIndexed(ctx, tx, paths); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM demo.files WHERE path = ANY ($1)`, paths); err != nil {
			return fmt.Errorf("remove vanished files: %w", err)
		}
		return nil
	})
}

// forgetIndexed removes index rows, and the witness rows with them: a file that is changed and changed back is
// rightly indexed at the same revision a second time.
func forgetIndexed(ctx context.Context, tx pgx.Tx, paths []string) error {
	for _, statement := range []string{
		`DELETE FROM demo.source_index WHERE path = ANY ($1)`,
		`DELETE FROM demo.runs WHERE path = ANY ($1)`,
	} {
		if _, err := tx.Exec(ctx, statement, paths); err != nil {
			return fmt.Errorf("forget the former content of files: %w", err)
		}
	}
	return nil
}
