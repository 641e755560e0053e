-- A shop on a busy afternoon, the same each time but for the clock: what the screens of the guides show. pgqueue.* is the schema.

-- Successes of the last two hours, or of the day while it is younger, because yesterday has no partition here: mails are quick, thumbnails
-- slower, exports slow.
INSERT INTO pgqueue.history (id, queue, kind, state, claimed_by, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority,
                             failures, max_attempts, payload, metadata, tags, key, result)
SELECT n, q.queue, q.kind, CASE WHEN n % 97 = 0 THEN 'cancelled' ELSE 'succeeded' END, q.worker || (n % 2 + 1), f.finished_at - q.run * f.slow - q.wait * f.slow,
       f.finished_at - q.run * f.slow - q.wait * f.slow, f.finished_at - q.run * f.slow, f.finished_at, (f.finished_at AT TIME ZONE 'UTC')::date, 1 + (n % 31 = 0)::int, 1, (n % 31 = 0)::int,
       q.priority, 0, 3, jsonb_build_object('order_id', 10000 + n, 'customer', jsonb_build_object('id', n % 400)), '{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}',
       q.tags, q.kind || '-' || n, CASE WHEN q.kind = 'export' THEN '{"rows": 1204, "file": "orders.csv"}'::jsonb END
FROM generate_series(1, 6000) n
     CROSS JOIN LATERAL (SELECT * FROM (VALUES
        (0, 'mail', 'send_receipt', 'mail-', interval '40 ms', interval '3 ms', 1, ARRAY['receipt']),
        (1, 'mail', 'send_receipt', 'mail-', interval '35 ms', interval '4 ms', 1, ARRAY['receipt']),
        (2, 'images', 'thumbnail', 'images-', interval '320 ms', interval '12 ms', 1, ARRAY['catalogue']),
        (3, 'images', 'thumbnail', 'images-', interval '410 ms', interval '25 ms', 4, ARRAY['catalogue', 'backfill']),
        (4, 'reports', 'export', 'reports-', interval '4 s', interval '200 ms', 4, ARRAY['monthly'])) v(of, queue, kind, worker, run, wait, priority, tags)
        WHERE v.of = CASE WHEN n % 40 = 0 THEN 4 ELSE n % 4 END) q
     CROSS JOIN LATERAL (SELECT now() - (6000 - n) * least(interval '1.2 s', (now() - date_trunc('day', now(), 'UTC')) / 6000.0) AS finished_at, 0.5 + (abs(hashint4(n)) % 1000) / 500.0 + CASE WHEN n % 50 = 0 THEN 6 ELSE 0 END AS slow) f;

-- Failed and dead: three troubles, of which one is large.
INSERT INTO pgqueue.history (id, queue, kind, state, claimed_by, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority,
                             failures, max_attempts, payload, metadata, tags, key, errors)
SELECT 7000 + n, t.queue, t.kind, t.state, 'mail-1', now() - n * interval '41 s' - interval '5 min', now() - n * interval '41 s' - interval '6 min', now() - n * interval '41 s' - interval '2 s',
       now() - n * interval '41 s', 'infinity', t.tries, 1, t.tries, 1, t.tries, t.tries, jsonb_build_object('order_id', 20000 + n), '{}', '{}', 'failed-' || n,
       (SELECT jsonb_agg(jsonb_build_object('attempt', a, 'code', t.code, 'message', t.message, 'by', 'mail-1', 'at', now() - n * interval '41 s' - (t.tries - a) * interval '1 min',
                                            'started', now() - n * interval '41 s' - (t.tries - a) * interval '1 min' - interval '2 s') ORDER BY a) FROM generate_series(1, t.tries) a)
FROM generate_series(1, 60) n
     CROSS JOIN LATERAL (SELECT * FROM (VALUES
        (0, 'mail', 'send_receipt', 'dead', 'smtp_timeout', 'no answer from the relay within 10 s', 3),
        (1, 'images', 'thumbnail', 'failed', 'not_an_image', 'the upload is a PDF', 1),
        (2, 'billing', 'charge', 'dead', 'lease_expired', 'the process ended', 5)) v(of, queue, kind, state, code, message, tries)
        WHERE v.of = CASE WHEN n % 10 = 0 THEN 2 WHEN n % 6 = 0 THEN 1 ELSE 0 END) t;

-- Live work: ready, due later, waiting for a retry, running.
INSERT INTO pgqueue.jobs (id, queue, kind, state, run_at, created_at, priority, payload, tags, key, attempt, failures, error_count, errors, claimed_at, lease_expires_at, claimed_by, claimed_generation)
SELECT 8000 + n, j.queue, j.kind, j.state, j.run_at, now() - interval '3 min', j.priority, jsonb_build_object('order_id', 30000 + n), ARRAY['today'], 'live-' || n, j.attempt, j.failures, j.failures,
       CASE WHEN j.failures > 0 THEN jsonb_build_array(jsonb_build_object('attempt', 1, 'code', 'smtp_timeout', 'message', 'no answer from the relay within 10 s', 'by', 'mail-1', 'at', now() - interval '1 min')) END,
       CASE WHEN j.state = 'running' THEN now() - interval '4 s' END, CASE WHEN j.state = 'running' THEN now() + interval '10 min' END,
       CASE WHEN j.attempt > 0 THEN 'mail-1' END, (j.state = 'running')::int
FROM generate_series(1, 260) n
     CROSS JOIN LATERAL (SELECT * FROM (VALUES
        (0, 'billing', 'charge', 'pending', now() - interval '9 min' + n * interval '1 s', 1, 0, 0),
        (1, 'mail', 'send_receipt', 'pending', now() + n * interval '1 min', 1, 0, 0),
        (2, 'mail', 'send_receipt', 'pending', now() + interval '40 s', 1, 1, 1),
        (3, 'images', 'thumbnail', 'running', now() - interval '5 s', 4, 1, 0)) v(of, queue, kind, state, run_at, priority, attempt, failures)
        WHERE v.of = CASE WHEN n <= 180 THEN 0 WHEN n <= 230 THEN 1 WHEN n <= 248 THEN 2 ELSE 3 END) j;
INSERT INTO pgqueue.job_progress (job_id, updated_at, attempt, progress) VALUES (8255, now(), 1, '{"done": 12, "of": 40}');

INSERT INTO pgqueue.queues (name, paused_at, paused_reason) VALUES ('billing', now() - interval '9 min', 'the bank is down until 15:00');
INSERT INTO pgqueue.paused_kinds (queue, kind, reason, paused_until) VALUES ('mail', 'newsletter', 'wrong template', now() + interval '50 min');
INSERT INTO pgqueue.workers (id, host, pid, version, started_at, seen_at, heartbeat_every, stopping, queues, kinds)
SELECT w.id, 'web-' || w.n, 4000 + w.n, 'v2.4.1', now() - interval '3 h', now() + w.fresh, '5 s', w.stopping,
       jsonb_build_object(w.queue, jsonb_build_object('workers', 16, 'in_flight', w.busy, 'buffered', 0, 'stuck', 0)), jsonb_build_object(w.kind, jsonb_build_object('workers', 0, 'in_flight', jsonb_build_object(w.queue, w.busy)))
FROM (VALUES ('mail-1', 1, 'mail', 'send_receipt', 5, interval '1 h', false), ('mail-2', 2, 'mail', 'send_receipt', 3, interval '1 h', true),
             ('images-1', 3, 'images', 'thumbnail', 12, interval '1 h', false), ('reports-1', 4, 'reports', 'export', 0, interval '-20 min', false)) w(id, n, queue, kind, busy, fresh, stopping);

INSERT INTO pgqueue.schedules (name, spec, time_zone, queue, kind, source, payload, metadata, tags, next_run_at, last_run_at, last_job_id, enabled, last_error, failures)
VALUES ('invoices', '30 2 1 * *', 'Europe/Copenhagen', 'billing', 'invoice_run', 'shop', '{}', '{}', '{}', now() + interval '9 days', now() - interval '21 days', 17, true, NULL, 0),
       ('exchange-rates', '@every 10m', 'UTC', 'reports', 'fetch_rates', 'shop', '{}', '{}', '{}', now() + interval '4 min', now() - interval '6 min', 5990, true, NULL, 0),
       ('newsletter', '0 9 * * 1', 'Europe/London', 'mail', 'newsletter', '', '{"list": "all"}', '{}', '{weekly}', now() + interval '3 days', NULL, NULL, false, NULL, 0),
       ('stock', '*/5 * * * *', 'UTC', 'reports', 'stock_report', 'shop', '{}', '{}', '{}', now() - interval '2 min', now() - interval '7 min', 5900, true, 'the arguments: connection refused', 4);
INSERT INTO pgqueue.schedule_ticks (name, tick, job_id, enqueued_at)
SELECT 'exchange-rates', now() - n * interval '10 min', 6000 - n, now() - n * interval '10 min' + interval '20 ms' FROM generate_series(1, 12) n;

INSERT INTO pgqueue.audit (at, actor, role, via, action, queue, subject, detail, job_ids, job_count, filter)
VALUES (now() - interval '2 h', 'olga', 'on_call', 'cli', 'retry', '', '', '', '{17, 18, 19}', 3, '{"queue": "mail", "state": ["dead"]}'),
       (now() - interval '1 h', 'vera', 'on_call', 'console', 'schedule_disable', '', 'newsletter', '', '{}', 0, NULL),
       (now() - interval '9 min', 'olga', 'on_call', 'console', 'pause', 'billing', '', 'the bank is down until 15:00', '{}', 0, NULL);
SELECT pg_catalog.setval('pgqueue.jobs_id_seq', 9000);
