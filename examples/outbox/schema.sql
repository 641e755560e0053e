-- The application's tables, as they might have been there for years. Nothing in them is pgqueue's.

CREATE SCHEMA IF NOT EXISTS notify;

CREATE TABLE IF NOT EXISTS notify.notifications (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    recipient  text        NOT NULL,
    subject    text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS notify.deliveries (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    notification_id bigint      NOT NULL REFERENCES notify.notifications,
    provider        text        NOT NULL CHECK (provider IN ('email', 'sms', 'push')),
    status          text        NOT NULL DEFAULT 'pending'
                    CHECK (status IN ('pending', 'processing', 'delivered', 'failed', 'dead')),
    attempts        integer     NOT NULL DEFAULT 0,
    failures        integer     NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    attempted_at    timestamptz,
    finished_at     timestamptz,
    error_code      text,
    last_error      text,
    receipt         text,       -- what the provider calls the message
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (notification_id, provider)
);

-- Package outbox asks for these when it starts, with the statements to run: one for claims, one for stale claims.
CREATE INDEX IF NOT EXISTS deliveries_due ON notify.deliveries (next_attempt_at, created_at) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS deliveries_processing ON notify.deliveries (attempted_at) WHERE status = 'processing';
