-- What a worker looks at before it starts: reads of the catalog, which need no right, and no table of ours.

-- name: start_check
-- $1 schema  $2 kind[]  $3 object[]  $4 privilege[]: the rights that are needed. One row for each one that is missing, or by which
-- row-level security does not let every row through, and one row with NULLs where there is none: the session's own columns are the
-- same in all. A schema or table that is not there gives no row; the version of the schema tells about that.
--
-- row_security_active knows superusers, BYPASSRLS, owners and FORCE. With the setting row_security off, Postgres then refuses every
-- statement, whatever the policies say. Whether the policies that hold for us show everything is read off their conditions: only
-- "true" is taken to, and only "false" to show nothing. Permissive ones are alternatives, so one of them is enough; a restrictive one
-- takes away. USING counts for the rows that are there, WITH CHECK, or USING in its stead, for those that are written. A condition that
-- is not there is none: it lets nothing through where the policy is permissive, and holds nothing back where it is restrictive.
SELECT pg_catalog.pg_is_in_recovery() AS standby,
       pg_catalog.current_setting('transaction_read_only') = 'on' AS read_only,
       pg_catalog.current_setting('client_encoding') AS encoding,
       pg_catalog.current_setting('DateStyle') AS date_style,
       pg_catalog.current_setting('array_nulls') = 'on' AS array_nulls,
       current_user::text AS role,
       l.problem, l.target, l.privilege
FROM (VALUES (true)) AS session (exists)
     LEFT JOIN LATERAL (
        SELECT CASE WHEN NOT o.has THEN 'missing' WHEN p.barred THEN 'barred' WHEN NOT coalesce(p.some, true) THEN 'hidden' ELSE 'partial' END AS problem,
               o.target, w.privilege, w.ord
        FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS w (kind, object, privilege, ord)
             JOIN pg_catalog.pg_namespace n ON n.nspname = $1::text
             CROSS JOIN LATERAL (
                SELECT 'schema ' || pg_catalog.quote_ident(n.nspname) AS target, pg_catalog.has_schema_privilege(n.oid, w.privilege) AS has, NULL::oid AS tab
                WHERE w.kind = 'schema'
                UNION ALL
                SELECT 'table ' || pg_catalog.format('%I.%I', n.nspname, c.relname), pg_catalog.has_table_privilege(c.oid, w.privilege), c.oid
                FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relname = w.object AND w.kind = 'table'
                UNION ALL
                SELECT 'function ' || pg_catalog.format('%I.%I(%s)', n.nspname, f.proname, pg_catalog.pg_get_function_identity_arguments(f.oid)),
                       pg_catalog.has_function_privilege(f.oid, w.privilege), NULL
                FROM pg_catalog.pg_proc f WHERE f.pronamespace = n.oid AND f.proname = w.object AND w.kind = 'function') AS o
             LEFT JOIN LATERAL (
                SELECT pg_catalog.current_setting('row_security') = 'off' AS barred,
                       coalesce(bool_or(y.polpermissive AND y.seen <> 'false') AND bool_or(y.polpermissive AND y.written <> 'false')
                                AND bool_and(y.polpermissive OR (y.seen <> 'false' AND y.written <> 'false')), false) AS some,
                       coalesce(bool_or(y.polpermissive AND y.seen = 'true') AND bool_or(y.polpermissive AND y.written = 'true')
                                AND bool_and(y.polpermissive OR (y.seen = 'true' AND y.written = 'true')), false) AS every
                FROM (SELECT q.polpermissive,
                             CASE WHEN w.privilege = 'INSERT' THEN e.written ELSE e.seen END AS seen,
                             CASE WHEN w.privilege IN ('INSERT', 'UPDATE') THEN e.written ELSE e.seen END AS written
                      FROM pg_catalog.pg_policy q
                           CROSS JOIN LATERAL (
                              SELECT coalesce(pg_catalog.pg_get_expr(q.polqual, q.polrelid), (NOT q.polpermissive)::text) AS seen,
                                     coalesce(pg_catalog.pg_get_expr(coalesce(q.polwithcheck, q.polqual), q.polrelid), (NOT q.polpermissive)::text) AS written) AS e
                      WHERE q.polrelid = o.tab
                        AND q.polcmd IN ('*', CASE w.privilege WHEN 'SELECT' THEN 'r' WHEN 'INSERT' THEN 'a' WHEN 'UPDATE' THEN 'w' ELSE 'd' END::"char")
                        AND EXISTS (SELECT FROM unnest(q.polroles) AS g (id) WHERE g.id = 0 OR pg_catalog.pg_has_role(g.id, 'USAGE'))) AS y
             ) AS p ON o.tab IS NOT NULL AND pg_catalog.row_security_active(o.tab)
        WHERE NOT o.has OR p.barred OR NOT coalesce(p.every, true)) AS l ON true
ORDER BY l.ord;
