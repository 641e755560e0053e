#!/bin/sh
# Makes sure that the console's scripts and styles can be built and checked: Node, npm, and the packages that
# console/assets/package-lock.json pins. Quiet, and does nothing when all is there already. Only who changes console/assets needs
# it: what is built is committed.
set -eu
cd "$(dirname "$0")/.."

missing=
for tool in node npm; do
	command -v "$tool" >/dev/null 2>&1 || missing=yes
done
if [ -n "$missing" ]; then
	scripts/apt-install.sh nodejs npm
fi

# npm writes this file last; as old as the lock, or older, it is of another one.
stamp=console/assets/node_modules/.package-lock.json
if [ -e "$stamp" ] && [ "$stamp" -nt console/assets/package-lock.json ]; then
	exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! (cd console/assets && npm ci --no-audit --no-fund --ignore-scripts) >"$log" 2>&1; then
	cat "$log" >&2
	exit 1
fi
touch "$stamp"
