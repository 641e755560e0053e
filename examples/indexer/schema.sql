-- The application's own tables. pgqueue's are in the schema pgqueue, made by migrations.Up.
CREATE SCHEMA IF NOT EXISTS demo;

-- The tree as it was last seen. A row changes in the transaction that enqueues the job for that content, so a recorded
-- hash means: there is, or was, a job for it.
CREATE TABLE IF NOT EXISTS demo.files (
    path        text        PRIMARY KEY,
    hash        text        NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now()
);

-- The index: one row for each file that parses, written by the handler.
CREATE TABLE IF NOT EXISTS demo.source_index (
    path        text        PRIMARY KEY,
    revision    text        NOT NULL,          -- the hash of the content that was read
    import_path text        NOT NULL,          -- the folder
    package     text        NOT NULL,          -- the package clause
    lines       int         NOT NULL,
    exported    text[]      NOT NULL,          -- names of exported identifiers
    documented  int         NOT NULL,          -- how many of them have a doc comment
    indexed_at  timestamptz NOT NULL DEFAULT now()
);

-- A witness. The handler appends here in the same transaction, and nothing keeps it from appending twice: there is no
-- unique key on purpose. So each completed run leaves one row, and a job whose effects were committed twice is seen.
CREATE TABLE IF NOT EXISTS demo.runs (
    path       text        NOT NULL,
    revision   text        NOT NULL,
    job        bigint      NOT NULL,
    attempt    int         NOT NULL,
    worker_pid int         NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp()
);
