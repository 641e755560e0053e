#!/usr/bin/env bash
# Rules of CONTRIBUTING.md that no linter knows: tests neither skip nor sleep, nothing is left marked as unfinished,
# files stay readable, and no file names a package registry or a path of somebody's machine.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"

failed=0
rule() { # rule MESSAGE OUTPUT
  if [ -n "$2" ]; then printf '%s\n%s\n' "$1" "$2"; failed=1; fi
}

rule 'tests must not skip:' "$(git grep -nE '\b[tb]\.Skip(f|Now)?\(' -- '*.go' || true)"
# runner and reaper are tested in virtual time (testing/synctest), where a sleep takes none and is exact.
rule 'tests wait for events, not for time:' "$(git grep -nE 'time\.Sleep\(' -- '*_test.go' ':!runner/' ':!reaper/' || true)"
rule 'unfinished marks:' "$(git grep -nE '\b(TODO|FIXME|XXX)\b' -- '*.go' '*.sql' '*.md' || true)"
rule 'no init functions, no panics across the API:' "$(git grep -nE '^func init\(' -- '*.go' || true)"
rule 'files over 500 lines:' "$(git ls-files '*.go' | xargs -r wc -l | awk '$2 != "total" && $1 > 500 { print $1, $2 }')"
rule 'paths of a machine:' "$(git grep -nIE '(^|[^a-z.])/(work|root|home/[a-z]+)/' -- . ':!go.sum' ':!scripts/house-rules.sh' || true)"
exit "$failed"
