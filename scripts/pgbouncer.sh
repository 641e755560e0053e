#!/usr/bin/env bash
# Makes sure that a PgBouncer is on this machine, and prints the path of its program. Quiet when there is nothing to do.
#
#   scripts/pgbouncer.sh debian    the package of this Debian (1.18 on Debian 12), installed if it is missing
#   scripts/pgbouncer.sh newer     1.24 or later, which knows prepared statements in transaction mode: that of this machine if it is
#                                  new enough, or else built from Debian 13's source package into a folder of the cache
#
# Neither leaves a service running: the package is told not to start one, and one that somebody else runs is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

# The suite whose source package is built, and how old a program may be to do instead.
suite=trixie
oldest_newer=1.24

program() { PATH=$PATH:/usr/sbin:/sbin command -v pgbouncer; }
version_of() { "$1" --version | sed -n 's/^PgBouncer \([0-9.]*\).*/\1/p'; }
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; } # at_least VERSION BOUND

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

debian() {
  if ! program >/dev/null; then
    # The package's script starts its service unless policy-rc.d says no. A policy of the machine's own is left as it is.
    local policy=
    if [ ! -e /usr/sbin/policy-rc.d ]; then
      policy=/usr/sbin/policy-rc.d
      printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
      as_root chmod 755 "$policy"
    fi
    local status=0
    scripts/apt-install.sh pgbouncer || status=$?
    [ -z "$policy" ] || as_root rm -f "$policy"
    [ "$status" -eq 0 ] || exit "$status"
    as_root update-rc.d pgbouncer disable >/dev/null 2>&1 || true # nor at the next start of the machine
  fi
  program
}

# mirror is where this machine gets its Debian packages from.
mirror() {
  { cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -n 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p'
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb[[:space:]]\(\[[^]]*\][[:space:]]*\)\{0,1\}\([^[:space:]]*\).*/\2/p'
  } | grep -E '/debian/?$' | head -n 1
}

newer() {
  local found base folder
  if found=$(program) && at_least "$(version_of "$found")" "$oldest_newer"; then
    echo "$found"
    return
  fi
  # Root's poolers run as somebody else, who could not enter root's own cache.
  if [ "$(id -u)" -eq 0 ]; then base=/var/cache; else base=${XDG_CACHE_HOME:-$HOME/.cache}; fi
  folder=$base/pgqueue/pgbouncer-$suite
  if [ ! -x "$folder/pgbouncer" ]; then
    mkdir -p "$folder"
    build "$folder" >&2
  fi
  echo "$folder/pgbouncer"
}

# build FOLDER: apt checks the source against the archive's signature; nothing of this machine's lists is changed.
build() {
  local from work log
  command -v apt-get >/dev/null || { echo "PgBouncer $oldest_newer cannot be built: this machine has no apt-get"; exit 1; }
  from=$(mirror) || true
  [ -n "$from" ] || { echo "PgBouncer $oldest_newer cannot be built: no Debian mirror in the sources of apt"; exit 1; }
  command -v gcc >/dev/null && command -v make >/dev/null && command -v dpkg-source >/dev/null &&
    pkg-config --exists libevent libcares openssl 2>/dev/null ||
    scripts/apt-install.sh gcc libc6-dev make pkg-config dpkg-dev libevent-dev libc-ares-dev libssl-dev
  work=$(mktemp -d)
  log=$work/log
  mkdir -p "$work/lists/partial" "$work/source"
  cat >"$work/source.sources" <<END
Types: deb-src
URIs: $from
Suites: $suite
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
  local apt=(apt-get -o "Dir::Etc::sourcelist=$work/source.sources" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$work/lists"
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=)
  if ! {
    "${apt[@]}" update && cd "$work/source" && "${apt[@]}" source pgbouncer && cd pgbouncer-*/ &&
      ./configure --without-systemd && make -j2 pgbouncer
  } >"$log" 2>&1; then
    tail -n 20 "$log"
    echo "PgBouncer $oldest_newer cannot be built"
    exit 1
  fi
  local made
  made=$(version_of ./pgbouncer)
  at_least "$made" "$oldest_newer" || { echo "the source package of $suite is PgBouncer $made, older than $oldest_newer"; exit 1; }
  cp pgbouncer "$1/pgbouncer.new" && chmod 755 "$1/pgbouncer.new" && mv "$1/pgbouncer.new" "$1/pgbouncer"
  rm -rf "$work"
}

case "${1-}" in
debian) debian ;;
newer) newer ;;
*)
  echo "usage: scripts/pgbouncer.sh debian|newer" >&2
  exit 2
  ;;
esac
