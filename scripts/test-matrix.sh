#!/usr/bin/env bash
# Runs the core and the integration suites on every supported major version of Postgres and prints how many tests passed on each.
# Fails when a version cannot be had, when a test failed, or when the versions did not pass the same number of tests.
#
#   scripts/test-matrix.sh [VERSION...]     default: all that are supported
#
#   MATRIX_RESULTS=FOLDER    keep there what the tests said; a version that passed there, with the same files, is not run again, so that a run
#                            that was interrupted goes on
set -euo pipefail
cd "$(dirname "$0")/.."
versions=("$@")
[ ${#versions[@]} -gt 0 ] || versions=(14 15 16 17 18)
if [ -n "${MATRIX_RESULTS-}" ]; then
  mkdir -p "$MATRIX_RESULTS"
  logs=$(cd "$MATRIX_RESULTS" && pwd)
else
  logs=$(mktemp -d)
  trap 'rm -rf "$logs"' EXIT
fi
# files names the state of the tree, or is empty where there is no git to tell.
files=$({ git rev-parse HEAD && git diff --binary HEAD && git ls-files -o --exclude-standard -z | xargs -0 -r sha256sum; } 2>/dev/null | sha256sum) || files=

# run_suite VERSION SUITE FOLDER: what go test says goes to a file of its own; what failed is shown.
run_suite() {
  local log=$logs/$1-$2.json status=0
  (cd "$3" && PGQUEUE_POSTGRES_VERSION=$1 go test -race -count=1 -p 2 -timeout 20m -json ./...) > "$log" 2> "$log.err" || status=$?
  # Every event of a test is a line of JSON; a package's own events name no test. Sorted names are kept to tell what differs.
  grep '"Action":"pass"' "$log" | grep -o '"Package":"[^"]*","Test":"[^"]*"' | sort > "$logs/$1-$2.names" || true
  if [ "$status" -ne 0 ]; then
    cat "$log.err"
    grep -E '"Action":"build-fail"|"Action":"build-output"' "$log" | head -n 20 || true
    grep '"Action":"fail"' "$log" | grep -o '"Test":"[^"]*"' | sort -u | while read -r name; do
      echo "failed: $name"
      grep -F "$name" "$log" | grep -o '"Output":".*' | head -n 30 || true
    done
    grep '"Action":"fail"' "$log" | grep -v '"Test":' | grep -o '"Package":"[^"]*"' || true
    failed=1
  fi
}

failed=0
servers=()
for version in "${versions[@]}"; do
  scripts/setup-postgres.sh --version "$version"
  binaries=$(go run ./internal/pgserver/cmd/pgserver find --version "$version")
  servers+=("$(printf '%s\n' "$binaries" | tail -n 1)")
  if [ -n "$files" ] && [ "$(cat "$logs/$version.passed" 2>/dev/null)" = "$files" ]; then
    echo "== Postgres $version: ${servers[-1]##*$'\t'}, passed before"
    continue
  fi
  echo "== Postgres $version: ${servers[-1]##*$'\t'}"
  rm -f "$logs/$version.passed"
  before=$failed failed=0
  run_suite "$version" core .
  run_suite "$version" integration integration
  if [ "$failed" -eq 0 ]; then printf '%s\n' "$files" > "$logs/$version.passed"; fi
  [ "$before" -eq 0 ] || failed=1
done

count() { wc -l < "$logs/$1-$2.names"; }
printf '\n%-9s %12s %12s\n' version core integration
for version in "${versions[@]}"; do
  printf '%-9s %12d %12d\n' "$version" "$(count "$version" core)" "$(count "$version" integration)"
done
first=${versions[0]}
for version in "${versions[@]:1}"; do
  for suite in core integration; do
    if ! difference=$(diff "$logs/$first-$suite.names" "$logs/$version-$suite.names"); then
      printf '%s: %s and %s did not pass the same tests:\n%s\n' "$suite" "$first" "$version" "$(printf '%s\n' "$difference" | head -n 20)"
      failed=1
    fi
  done
done
exit "$failed"
