#!/bin/sh
# Makes sure that the bench has its peers: npm's packages of bench/node with a Node that is new enough for them, and, where Debian's
# Postgres 15 is, PgQ for it. Quiet, and does nothing when all is there already. Where PgQ cannot be had, a sentence says so, and the bench
# leaves it out.
set -eu
cd "$(dirname "$0")/.."

missing=
for tool in node npm; do
	command -v "$tool" >/dev/null 2>&1 || missing=yes
done
if [ -n "$missing" ]; then
	scripts/apt-install.sh nodejs npm
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
	if ! "$@" >"$log" 2>&1; then
		cat "$log" >&2
		exit 1
	fi
}

cd bench/node
if ! cmp -s package-lock.json node_modules/.installed-lock.json; then
	quietly npm ci --no-fund --no-audit
	cp package-lock.json node_modules/.installed-lock.json
fi
# The npm package node fetches the binary of this machine by a script of its own, which npm is told not to run. It is not needed where the
# machine's Node is new enough.
newest() { "$1" -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 22 || (a == 22 && b >= 18) ? 0 : 1)' 2>/dev/null; }
if ! newest node_modules/node/bin/node && ! newest node; then
	cd node_modules/node
	quietly node installArchSpecificPackage
	cd ../..
fi
cd ../..

# Debian's package of PgQ brings a daemon, which the bench needs no more than it needs root: it takes a copy of Debian's server, adds the
# extension alone, and bench starts that copy (bench/server.go).
copy=.cache/bench-postgres
if [ -d /usr/lib/postgresql/15/bin ] && [ ! -e "$copy/done" ]; then
	rm -rf "$copy"
	mkdir -p "$copy/usr/lib/postgresql" "$copy/usr/share/postgresql"
	if (cd "$copy" && apt-get download postgresql-15-pgq3) >"$log" 2>&1; then
		cp -a /usr/lib/postgresql/15 "$copy/usr/lib/postgresql/"
		cp -a /usr/share/postgresql/15 "$copy/usr/share/postgresql/"
		quietly dpkg-deb -x "$copy"/postgresql-15-pgq3_*.deb "$copy"
		rm -f "$copy"/postgresql-15-pgq3_*.deb
		touch "$copy/done"
	else
		rm -rf "$copy"
		echo "PgQ is left out: postgresql-15-pgq3 cannot be had here" >&2
	fi
fi
