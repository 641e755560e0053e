#!/usr/bin/env bash
# Starts a Citus cluster on this machine for `make test-citus`: a coordinator and workers, throwaway, one Postgres each. It needs a
# Postgres that has the extension already and installs nothing; docs/scaling.md says how to build one.
#
#   scripts/citus-cluster.sh start DIRECTORY     makes the cluster (WORKERS=2, PORT=9700 and up) and prints its URL
#   scripts/citus-cluster.sh stop DIRECTORY      ends it and removes the directory
#
# PGQUEUE_POSTGRES_BIN is the directory of the server's binaries; else pg_config tells. Run by root, it acts as the user postgres.
# SETTINGS are further options for each server, for example SETTINGS="-c fsync=off".
set -euo pipefail
usage() { sed -n '5,6s/^# *//p' "$0" >&2; exit 2; }
[ $# -eq 2 ] || usage
workers=${WORKERS:-2} port=${PORT:-9700}
bin=${PGQUEUE_POSTGRES_BIN:-$(pg_config --bindir)}

as_server() { if [ "$(id -u)" -eq 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
sql() { as_server "$bin/psql" -h "$dir/socket" -p "$1" -U postgres -d "${3:-postgres}" -v ON_ERROR_STOP=1 -qAtc "$2"; }

case $1 in
start)
  mkdir -p "$2" && dir=$(cd "$2" && pwd)
  [ -z "$(ls -A "$dir")" ] || { echo "$dir is not empty" >&2; exit 1; }
  mkdir "$dir/socket"
  [ "$(id -u)" -ne 0 ] || chown -R postgres "$dir"
  for ((i = 0; i <= workers; i++)); do
    as_server "$bin/initdb" -N -A trust -U postgres -E UTF8 --locale=C -D "$dir/$i" > "$dir/initdb.log"
    as_server "$bin/pg_ctl" -D "$dir/$i" -l "$dir/$i.log" -w -o "-p $((port + i)) -k '$dir/socket' -c listen_addresses=localhost \
      -c shared_preload_libraries=citus -c max_prepared_transactions=200 -c max_connections=300 -c wal_level=logical \
      -c citus.enable_statistics_collection=off ${SETTINGS:-}" start > /dev/null || { tail -n 20 "$dir/$i.log" >&2; exit 1; }
    sql $((port + i)) 'CREATE DATABASE pgqueue'
    sql $((port + i)) 'CREATE EXTENSION citus' pgqueue
  done
  sql "$port" "SELECT citus_set_coordinator_host('localhost', $port)" pgqueue > /dev/null
  for ((i = 1; i <= workers; i++)); do
    sql "$port" "SELECT citus_add_node('localhost', $((port + i)))" pgqueue > /dev/null
  done
  echo "postgres://postgres@localhost:$port/pgqueue?sslmode=disable"
  ;;
stop)
  dir=$(cd "$2" && pwd)
  for data in "$dir"/[0-9]*/; do as_server "$bin/pg_ctl" -D "$data" -m immediate stop > /dev/null || true; done
  rm -rf "$dir"
  ;;
*) usage ;;
esac
