#!/bin/sh
# Installs Debian packages quietly, as root or with a sudo that asks nothing; what apt says is shown only when it fails.
#
#   scripts/apt-install.sh PACKAGE...
set -eu
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}
if ! command -v apt-get >/dev/null 2>&1; then
	echo "cannot install $*: this machine has no apt-get" >&2
	exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { as_root apt-get update && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
	cat "$log" >&2
	echo "cannot install $*" >&2
	exit 1
fi
