-- pgqueue, version 5, down. No CASCADE: what others have built upon these makes this fail and is named in the error. The log is lost.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;

DROP FUNCTION {schema}.expire_audit(interval, int);
DROP FUNCTION {schema}.record_action(text, text, text, bigint[], text, text, text, jsonb, text);
DROP TABLE {schema}.audit;
