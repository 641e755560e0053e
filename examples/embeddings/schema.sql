-- The application's tables. documents is the source; embeddings has one row for each document, which is both the result
-- (the vector) and the queue (what is still to be done about it). No table of pgqueue's is needed.

CREATE SCHEMA IF NOT EXISTS search;

CREATE TABLE IF NOT EXISTS search.documents (
    id        bigint  PRIMARY KEY,
    body      text    NOT NULL,
    hash      text    NOT NULL,               -- of the body: the revision of the content
    withdrawn boolean NOT NULL DEFAULT false  -- must not be found any more, so it must not get a vector either
);

CREATE TABLE IF NOT EXISTS search.embeddings (
    document_id bigint PRIMARY KEY REFERENCES search.documents ON DELETE CASCADE,

    -- The result, and of which content it is. A vector stays until a newer one replaces it: a search that is a little
    -- behind is better than one that finds nothing.
    vector      real[],
    vector_hash text,
    embedded_at timestamptz,

    -- What is to be done. hash is the revision that is wanted; stale_since is when the content first moved away from the
    -- vector, and stays put when it moves on: a document that is edited all day must not look fresh.
    state       text        NOT NULL DEFAULT 'waiting'
                CHECK (state IN ('waiting', 'claimed', 'stored', 'failed', 'dead', 'cancelled')),
    hash        text        NOT NULL,
    stale_since timestamptz DEFAULT statement_timestamp(),
    due_at      timestamptz NOT NULL DEFAULT statement_timestamp(),
    attempts    integer     NOT NULL DEFAULT 0,  -- claims so far
    failures    integer     NOT NULL DEFAULT 0,  -- of these, that failed since the content last changed

    -- The open claim. token is drawn anew for each, so that nothing else can ever pass for it: not a later claim, and not
    -- the claim of a document that was deleted and created again under the same id.
    token            uuid,
    claimed_hash     text,         -- the revision that the claim was given
    claimed_at       timestamptz,
    lease_expires_at timestamptz,

    error_code    text,
    error_message text
);

-- What claims walk, in the order in which they take, and what the reaper walks.
CREATE INDEX IF NOT EXISTS embeddings_waiting ON search.embeddings (due_at, document_id) WHERE state = 'waiting';
CREATE INDEX IF NOT EXISTS embeddings_claimed ON search.embeddings (lease_expires_at) WHERE state = 'claimed';
