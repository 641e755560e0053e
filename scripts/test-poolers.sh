#!/usr/bin/env bash
# Runs the test binaries of the core, the schedules and the integration suite directly on a Postgres and then, with nothing but their URL
# changed, through PgBouncer in transaction mode: Debian's (1.18, no prepared statements) in each mode of pgx that is documented for it, and one that knows
# prepared statements (1.24) in pgx's default mode. What passes through a pooler must be what passes directly, less the tests that
# scripts/poolers-without.txt lists with their reasons. Tests of poolers themselves (build tag "poolers") run against both. See
# docs/poolers.md.
#
#   scripts/test-poolers.sh          all of it
#   scripts/test-poolers.sh quick    the tests of poolers themselves, and a part of the core suite through Debian's PgBouncer in mode exec
#
#   PGBOUNCER_NEWER=required         fail where no PgBouncer 1.24 can be had; so in CI, elsewhere it is only said
#   POOLERS="1.18/exec 1.24/cache_statement"    these runs only; the version selects the program, the mode is pgx's
#   SUITES="jobstore integration"               these suites only; none: only the tests of poolers
#   TESTS=PATTERN                               these tests of the suites only, as go test -run takes it
#   POOLER_LOGS=FOLDER               keep what the tests and the poolers said
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C # comm and sort
list=scripts/poolers-without.txt

what=${1-full}
case "$what" in
full) runs=(1.18/exec 1.18/simple_protocol 1.18/cache_describe 1.24/cache_statement) ;;
quick) runs=(1.18/exec) ;;
*) echo "usage: scripts/test-poolers.sh [quick]" >&2; exit 2 ;;
esac
[ -z "${POOLERS-}" ] || read -ra runs <<<"$POOLERS"
# What quick runs of the suites: enqueue, claim, completion, transactions, pauses, the listener, a drain, an Await, and real processes.
quick='^(TestC1[34]_|TestC15_|TestC76_|TestEnqueue|TestHandleTx|TestDrain|TestWorker|TestCompleteTx|TestC74_|TestAwait)'

pids=()
work=$(mktemp -d)
clean_up() {
  local code=$?
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  if [ -n "${POOLER_LOGS-}" ]; then mkdir -p "$POOLER_LOGS" && cp -r "$work"/. "$POOLER_LOGS"; fi
  rm -rf "$work"
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
# Root's poolers run as somebody else, who must get at their files.
account=
if [ "$(id -u)" -eq 0 ]; then
  account=postgres
  id "$account" >/dev/null 2>&1 || account=nobody
  chmod 711 "$work"
fi

# await WHAT SECONDS COMMAND...: until the command succeeds.
await() {
  local what=$1 tries=$(($2 * 10))
  shift 2
  for _ in $(seq "$tries"); do
    if "$@"; then return; fi
    sleep 0.1
  done
  echo "no $what within $((tries / 10)) s" >&2
  return 1
}

# --- what is needed ---

declare -A programs
programs[1.18]=$(scripts/pgbouncer.sh debian)
needed=$(printf '%s\n' "${runs[@]}")
if grep -q '^1\.24/' <<<"$needed" || [ "$what" = full ]; then
  if ! programs[1.24]=$(scripts/pgbouncer.sh newer); then
    unset 'programs[1.24]'
    echo "== no PgBouncer 1.24 here: nothing is known about prepared statements through a pooler" >&2
    if [ -n "${CI-}" ] || [ "${PGBOUNCER_NEWER-}" = required ]; then exit 1; fi
    read -ra runs <<<"$(grep -v '^1\.24/' <<<"$needed" | tr '\n' ' ')"
  fi
fi
version_of() { "$1" --version | sed -n 's/^PgBouncer \([0-9.]*\).*/\1/p'; }

env -u PGQUEUE_TEST_DATABASE_URL -u DATABASE_URL scripts/setup-postgres.sh
go build -o "$work/pgserver" ./internal/pgserver/cmd/pgserver
"$work/pgserver" run >"$work/url" 2>"$work/pgserver.log" &
pids+=($!)
await "Postgres" 60 test -s "$work/url" || { cat "$work/pgserver.log" >&2; exit 1; }
direct=$(cat "$work/url")
port=$(sed -n 's/.*:\([0-9]*\)\/.*/\1/p' <<<"$direct")

# start_pooler VERSION [NAME]: leaves its port in $pooler_port. Sessions are handed out in turn, so that hardly a client meets the same one
# twice in a row; there are as many as by default, because each transactional handler that runs holds one; any user of the server may come in;
# nothing is reset between transactions, so that whatever leaks is met by somebody. "latest" as NAME hands out the session that was freed last
# instead, which is PgBouncer's default: a wrong mode of pgx then mostly works, until it does not.
start_pooler() {
  local version=$1 name=${2-$1} folder pid robin=1
  folder=$work/pgbouncer-$name
  [ "$name" != latest ] || robin=0
  mkdir -p "$folder"
  for _ in 1 2 3 4 5; do
    pooler_port=$((20000 + RANDOM % 10000))
    if answers "$pooler_port"; then continue; fi # somebody else's
    cat >"$folder/pgbouncer.ini" <<END
[databases]
* = host=127.0.0.1 port=$port auth_user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $pooler_port
unix_socket_dir =
auth_type = trust
auth_query = SELECT usename, passwd FROM pg_catalog.pg_shadow WHERE usename = \$1
pool_mode = transaction
default_pool_size = 20
max_db_connections = 40
server_round_robin = $robin
max_client_conn = 1000
logfile = $folder/log
END
    if [ "$version" = 1.24 ]; then
      echo "max_prepared_statements = 200" >>"$folder/pgbouncer.ini"
    elif printf '1.21\n%s\n' "$(version_of "${programs[$version]}")" | sort -VC; then
      echo "max_prepared_statements = 0" >>"$folder/pgbouncer.ini" # Debian's is a later one here, and stands for those before 1.21
    fi
    : >"$folder/deaths"
    [ -z "$account" ] || chown -R "$account" "$folder"
    supervise "$folder" "${programs[$version]}" -q ${account:+-u "$account"} "$folder/pgbouncer.ini" >"$folder/stderr" 2>&1 &
    pid=$!
    if await "PgBouncer on port $pooler_port" 10 listening "$pid" "$pooler_port" 2>/dev/null; then
      pids+=("$pid")
      : >"$folder/deaths"
      return
    fi
    kill "$pid" 2>/dev/null || true
  done
  cat "$folder/stderr" >&2
  echo "PgBouncer does not start" >&2
  exit 1
}
# supervise FOLDER COMMAND...: starts it again whenever it ends, as a service manager does. PgBouncer 1.18 ends now and then when a query
# is cancelled ("server in bad state", pgbouncer issue 822).
supervise() {
  local folder=$1 child
  shift
  trap 'kill -KILL "$child" 2>/dev/null; exit' TERM
  while :; do
    "$@" &
    child=$!
    wait "$child" || true
    echo died >>"$folder/deaths"
    sleep 0.05
  done
}
deaths() { wc -l <"$work/pgbouncer-$1/deaths"; }
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
listening() { kill -0 "$1" && answers "$2"; }

declare -A ports
for version in "${!programs[@]}"; do
  start_pooler "$version"
  ports[$version]=$pooler_port
done
start_pooler 1.18 latest
ports[latest]=$pooler_port
# url VERSION/MODE: the pooler's, for pgx in this mode.
url() { echo "postgres://postgres@127.0.0.1:${ports[${1%/*}]}/postgres?sslmode=disable&default_query_exec_mode=${1#*/}"; }

# --- the suites ---

# Each has a name, a folder and the package's path in the folder's module.
suites=("pgqueue . ./pgqueue" "jobstore . ./pgqueue/internal/jobstore" "schedule . ./schedule" "integration integration .")
if [ -n "${SUITES-}" ]; then
  wanted=$(tr ' ' '|' <<<"$SUITES")
  mapfile -t suites < <(printf '%s\n' "${suites[@]}" | grep -E "^($wanted) ")
fi
[ "$what" = full ] || suites=("pgqueue . ./pgqueue")
for suite in "${suites[@]}"; do
  read -r name folder package <<<"$suite"
  (cd "$folder" && go test -c -race -o "$work/$name.test" "$package")
done

# listed SUITE RUN: the tests that the list names for a suite and this run ("*" is every run, "1.18" every mode of it).
listed() {
  awk -v suite="$1" -v run="$2" '!/^#/ && NF { split(run, part, "/"); if ($1 == suite && ($3 == "*" || $3 == run || $3 == part[1])) print $2 }' "$list"
}
# pattern: of the names on the standard input, as -test.run and -test.skip take it; a subtest's name has a slash.
pattern() { sed -e 's/[.+()]/\\&/g' -e 's|/|$/^|g' -e 's/.*/^&$/' | paste -sd '|'; }

# names takes the names of tests out of test2json's lines, with what JSON escapes in them.
names() { sed -nE 's/.*"Test":"(([^"\\]|\\.)*)".*/\1/p' | sort -u; }

# run_suite LOG SUITE FLAGS...: the test binary in the folder of its package; the names that passed go to LOG.names.
run_suite() {
  local log=$1 name=$2 folder package status=0
  shift 2
  for suite in "${suites[@]}"; do
    read -r one folder package <<<"$suite"
    [ "$one" != "$name" ] || break
  done
  (cd "$folder/$package" && timeout 1500 "$work/$name.test" -test.v=test2json -test.timeout 24m "$@") >"$log.out" 2>&1 || status=$?
  go tool test2json <"$log.out" >"$log.json"
  grep '"Action":"pass"' "$log.json" | names >"$log.names" || true
  return "$status"
}
failures() { grep '"Action":"fail"' "$1.json" | names; }
tell() { # tell LOG: what failed, and how
  failures "$1" | while read -r test; do
    echo "failed: $test"
    grep -F "\"Test\":\"$test\"" "$1.json" | sed -n 's/.*"Output":"\(.*\)"}$/\1/p' | grep -v '=== ' | head -n 15 || true
  done
  [ -n "$(failures "$1")" ] || tail -n 30 "$1.out"
}

failed=0
narrow=()
[ "$what" = full ] || narrow=(-test.run "$quick")
[ -z "${TESTS-}" ] || narrow=(-test.run "$TESTS")
directly() { env -u PGQUEUE_TEST_DIRECT_URL PGQUEUE_TEST_DATABASE_URL="$direct" "$@"; }
for suite in "${suites[@]}"; do
  name=${suite%% *}
  started=$SECONDS
  export PGQUEUE_TEST_DATABASE_URL=$direct
  unset PGQUEUE_TEST_DIRECT_URL
  if ! run_suite "$work/direct-$name" "$name" "${narrow[@]}"; then
    echo "== $name, directly"
    tell "$work/direct-$name"
    failed=1
  fi
  echo "== $name directly: $(wc -l <"$work/direct-$name.names") passed in $((SECONDS - started)) s"
done

export PGQUEUE_TEST_DIRECT_URL=$direct
declare -A nevertheless # "suite test" of the list: in how many runs it was looked at and in how many it passed
rows=()
for run in "${runs[@]}"; do
  export PGQUEUE_TEST_DATABASE_URL
  PGQUEUE_TEST_DATABASE_URL=$(url "$run")
  passed=0 expected=0 left=0 deaths_before=$(deaths "${run%/*}")
  for suite in "${suites[@]}"; do
    name=${suite%% *}
    log=$work/${run/\//-}-$name
    started=$SECONDS
    listed "$name" "$run" >"$log.listed"
    flags=("${narrow[@]}")
    if [ -s "$log.listed" ]; then flags+=(-test.skip "$(pattern <"$log.listed")"); fi
    # What is expected is what passed directly less the list; a listed test takes its subtests with it.
    if [ -s "$log.listed" ]; then
      grep -vE "^($(sed 's/[.+()]/\\&/g' "$log.listed" | paste -sd '|'))(/|\$)" "$work/direct-$name.names" >"$log.expected" || true
    else
      cp "$work/direct-$name.names" "$log.expected"
    fi
    died=$(deaths "${run%/*}") status=0
    run_suite "$log" "$name" "${flags[@]}" || status=$?
    # What a dead pooler made fail is run again; it may die again meanwhile.
    for try in 1 2 3 4 5; do
      [ "$status" -ne 0 ] && [ "$(deaths "${run%/*}")" -gt "$died" ] || break
      died=$(deaths "${run%/*}") status=0
      comm -23 "$log.expected" "$log.names" | sed 's|/.*||' | sort -u >"$log.again"
      run_suite "$log-again" "$name" "${flags[@]}" -test.run "$(pattern <"$log.again")" || status=$?
      sort -u "$log.names" "$log-again.names" -o "$log.names"
    done
    if [ "$status" -ne 0 ]; then
      echo "== $name through $run"
      if [ "$try" -gt 1 ]; then tell "$log-again"; else tell "$log"; fi
      failed=1
    fi
    if ! difference=$(diff "$log.expected" "$log.names"); then
      printf '== %s through %s did not pass what it passed directly, less the list:\n%s\n' "$name" "$run" "$(head -n 30 <<<"$difference")"
      failed=1
    fi
    passed=$((passed + $(wc -l <"$log.names"))) expected=$((expected + $(wc -l <"$log.expected")))
    left=$((left + $(wc -l <"$work/direct-$name.names") - $(wc -l <"$log.expected")))
    echo "== $name through $run: $(wc -l <"$log.names") of $(wc -l <"$log.expected") passed in $((SECONDS - started)) s"
    if [ ${#narrow[@]} -eq 0 ] && [ -s "$log.listed" ]; then
      run_suite "$log-listed" "$name" -test.run "$(pattern <"$log.listed")" || true
      while read -r test; do
        read -r looked passes <<<"${nevertheless[$name $test]-0 0}"
        grep -qxF "$test" "$log-listed.names" && passes=$((passes + 1))
        nevertheless[$name $test]="$((looked + 1)) $passes"
      done <"$log.listed"
    fi
  done
  rows+=("$(printf '%-10s %-18s %8d %8d %8d %8d' "$(version_of "${programs[${run%/*}]}")" "${run#*/}" "$passed" "$expected" "$left" "$(($(deaths "${run%/*}") - deaths_before))")")
done
for test in "${!nevertheless[@]}"; do
  read -r looked passes <<<"${nevertheless[$test]}"
  if [ "$passes" -eq "$looked" ]; then
    echo "listed in $list, but it passes in every run: $test"
    failed=1
  fi
done

# --- the poolers themselves ---

unset PGQUEUE_TEST_DATABASE_URL PGQUEUE_TEST_DIRECT_URL
export PGQUEUE_TEST_DATABASE_URL=$direct
(cd integration && go vet -tags poolers . && go test -c -race -tags poolers -o "$work/poolers.test" .)
for pooler in $(printf '%s\n' "${!ports[@]}" | sort); do
  version=$pooler
  [ "$pooler" != latest ] || version=1.18
  log=$work/poolers-$pooler
  status=0
  (cd integration && PGQUEUE_TEST_POOLER_PORT=${ports[$pooler]} PGQUEUE_TEST_POOLER_VERSION=$version timeout 600 "$work/poolers.test" \
    -test.v=test2json -test.run '^TestPooler' -test.timeout 9m) >"$log.out" 2>&1 || status=$?
  go tool test2json <"$log.out" >"$log.json"
  count=$(grep '"Action":"pass"' "$log.json" | grep -c '"Test":' || true)
  echo "== tests of poolers at $(version_of "${programs[$version]}"), the session that was freed $([ "$pooler" = latest ] && echo last || echo first): $count passed"
  if [ "$status" -ne 0 ] || [ "$count" -eq 0 ]; then
    tell "$log"
    failed=1
  fi
done

printf '\n%-10s %-18s %8s %8s %8s %8s\n' PgBouncer mode passed expected listed crashes
printf '%-10s %-18s %8d %8s %8s %8s\n' none directly "$(cat "$work"/direct-*.names 2>/dev/null | wc -l)" - - -
if [ ${#suites[@]} -gt 0 ]; then printf '%s\n' "${rows[@]}"; fi
exit "$failed"
