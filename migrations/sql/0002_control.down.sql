-- pgqueue, version 2, down. No CASCADE: what others have built upon the functions makes this fail and is named in the error.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;

DROP FUNCTION {schema}.set_max_attempts(bigint, int);
DROP FUNCTION {schema}.cancel(bigint);
DROP FUNCTION {schema}.retry(bigint);
DROP FUNCTION {schema}.resume(text);
DROP FUNCTION {schema}.pause(text, text);
