-- What the catalog says about the objects of a schema, as facts: kind, name, property, value. For Validate.
-- $1 the schema  $2 its channel
--
-- Nothing in here names the schema, so the facts are the same in a schema of any name; and nothing is told that differs between servers
-- without meaning anything: positions, numbers, owners, statistics.
-- Partitions of history are left out: they come and go by the day, except for history_attention, which is always there.
-- Tables of others in the same schema are told, too: the comparison leaves them out.
WITH ns AS (SELECT n.oid, quote_ident(n.nspname) || '.' AS dot FROM pg_namespace n WHERE n.nspname = $1::text),
rel AS (
    SELECT c.*, ns.dot
    FROM pg_class c JOIN ns ON ns.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'S', 'f', 'm') AND c.relname !~ '^history_[0-9]{8}$'
),
col AS (
    SELECT r.relname || '.' || a.attname AS name, r.relkind, a.*, pg_get_expr(d.adbin, d.adrelid) AS adsrc,
           col_description(r.oid, a.attnum) AS comment
    FROM rel r
         JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
         LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE r.relkind <> 'S' AND NOT r.relispartition
),
con AS (
    SELECT r.relname || '.' || k.conname AS name, k.*
    FROM rel r JOIN pg_constraint k ON k.conrelid = r.oid
    -- 'n' is NOT NULL, which Postgres 18 keeps here and every version in the column; 't' is a trigger.
    WHERE NOT r.relispartition AND k.contype NOT IN ('n', 't')
),
idx AS (
    SELECT c.relname AS name, r.relname AS table_name, i.*
    FROM rel r JOIN pg_index i ON i.indrelid = r.oid JOIN pg_class c ON c.oid = i.indexrelid
),
fn AS (
    SELECT p.proname || '(' || replace(pg_get_function_identity_arguments(p.oid), ns.dot, '') || ')' AS name, ns.dot, p.*,
           obj_description(p.oid, 'pg_proc') AS comment
    FROM pg_proc p JOIN ns ON ns.oid = p.pronamespace
)
SELECT f.kind, f.name, f.property, f.value
FROM (
    SELECT CASE WHEN r.relkind IN ('v', 'm') THEN 'view' WHEN r.relkind = 'S' THEN 'sequence' ELSE 'table' END AS kind,
           r.relname::text AS name, p.property, p.value
    FROM rel r
         LEFT JOIN pg_sequence s ON s.seqrelid = r.oid
         CROSS JOIN LATERAL (VALUES
            ('kind', r.relkind::text),
            ('persistence', r.relpersistence::text),
            ('partitioned by', pg_get_partkeydef(r.oid)),
            ('partition', pg_get_expr(r.relpartbound, r.oid)),
            ('replica identity', CASE WHEN r.relkind IN ('r', 'p') THEN r.relreplident::text END),
            ('type', format_type(s.seqtypid, NULL)),
            ('increment', s.seqincrement::text),
            ('largest', s.seqmax::text),
            ('cycle', s.seqcycle::text)) p (property, value)
    UNION ALL
    SELECT 'storage', r.relname || o.prefix || '.' || split_part(o.option, '=', 1), 'value', substr(o.option, strpos(o.option, '=') + 1)
    FROM rel r
         CROSS JOIN LATERAL (
            SELECT '' AS prefix, unnest(r.reloptions) AS option
            UNION ALL
            SELECT '.toast', unnest(t.reloptions) FROM pg_class t WHERE t.oid = r.reltoastrelid) o
    UNION ALL
    SELECT 'column', c.name, p.property, p.value
    FROM col c
         CROSS JOIN LATERAL (VALUES
            ('type', format_type(c.atttypid, c.atttypmod)),
            ('not null', CASE WHEN c.relkind IN ('r', 'p') THEN c.attnotnull::text END),
            ('default', c.adsrc),
            ('identity', nullif(c.attidentity::text, '')),
            ('generated', nullif(c.attgenerated::text, ''))) p (property, value)
    UNION ALL
    SELECT 'constraint', k.name, p.property, p.value
    FROM con k
         CROSS JOIN LATERAL (VALUES
            ('definition', pg_get_constraintdef(k.oid)),
            ('validated', k.convalidated::text)) p (property, value)
    UNION ALL
    SELECT 'index', i.name::text, p.property, p.value
    FROM idx i
         CROSS JOIN LATERAL (VALUES
            ('table', i.table_name::text),
            ('unique', i.indisunique::text),
            -- What an interrupted CREATE or REINDEX CONCURRENTLY leaves: everybody keeps it up to date, and no query may use it.
            ('valid', (i.indisvalid AND i.indisready)::text),
            ('constraint', (SELECT k.conname::text FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x') LIMIT 1)),
            ('definition', substring(pg_get_indexdef(i.indexrelid) FROM ' USING (.*)$'))) p (property, value)
    UNION ALL
    SELECT 'trigger', r.relname || '.' || t.tgname, p.property, p.value
    FROM rel r
         JOIN pg_trigger t ON t.tgrelid = r.oid AND NOT t.tgisinternal AND t.tgparentid = 0
         CROSS JOIN LATERAL (VALUES
            ('definition', replace(substring(pg_get_triggerdef(t.oid, true) FROM '^CREATE (?:CONSTRAINT )?TRIGGER (?:"(?:[^"]|"")*"|\S+) (.*)$'), r.dot, '')),
            ('enabled', t.tgenabled::text)) p (property, value)
    UNION ALL
    SELECT 'function', f.name, p.property, p.value
    FROM fn f
         CROSS JOIN LATERAL (VALUES
            ('arguments', replace(replace(pg_get_function_arguments(f.oid), '''' || replace($2::text, '''', '''''') || '''', '{channel}'), f.dot, '')),
            ('result', replace(pg_get_function_result(f.oid), f.dot, '')),
            ('language', (SELECT l.lanname::text FROM pg_language l WHERE l.oid = f.prolang)),
            ('security definer', f.prosecdef::text),
            ('settings', array_to_string(ARRAY (SELECT unnest(f.proconfig) ORDER BY 1), '; ')),
            ('volatile', f.provolatile::text),
            ('strict', f.proisstrict::text),
            ('parallel', f.proparallel::text),
            ('public may execute', has_function_privilege('public', f.oid, 'EXECUTE')::text)) p (property, value)
    UNION ALL
    -- That there is a comment, not which: a comment is for people, and they may have put theirs.
    SELECT 'comment', c.what, 'there', CASE WHEN c.comment IS NOT NULL THEN 'yes' END
    FROM (
        SELECT CASE WHEN r.relkind IN ('v', 'm') THEN 'view ' WHEN r.relkind = 'S' THEN 'sequence ' ELSE 'table ' END || r.relname AS what,
               obj_description(r.oid, 'pg_class') AS comment FROM rel r
        UNION ALL
        SELECT 'column ' || c.name, c.comment FROM col c
        UNION ALL
        SELECT 'index ' || i.name, obj_description(i.indexrelid, 'pg_class') FROM idx i
        UNION ALL
        SELECT 'function ' || f.name, f.comment FROM fn f) c (what, comment)
) f (kind, name, property, value)
WHERE f.value IS NOT NULL AND f.value <> ''
ORDER BY f.kind, f.name COLLATE "C", f.property
