#!/usr/bin/env bash
# Runs the integration suite, unchanged, against a Postgres in a container, and the tests of pgqueuetest/pgcontainer. It uses the
# Docker-compatible engine that answers. In CI (CI is set), or when asked by SETUP=1, it installs and starts one if none does, builds an image
# if none can be had, and leaves no process, mount or network device behind. Where it is impossible it fails and says why.
#
#   PGQUEUE_TEST_IMAGE    the image, default postgres:18-alpine
set -euo pipefail
cd "$(dirname "$0")/.."
image=${PGQUEUE_TEST_IMAGE:-postgres:18-alpine}
may_set_up() { [ -n "${CI-}" ] || [ "${SETUP-}" = 1 ]; }

engine=     # pid of the engine that was started here
built=      # the image that was built here
state=      # its folder
had_bridge=$([ -e /sys/class/net/docker0 ] && echo yes || true)
clean_up() {
  local code=$?
  [ -z "$built" ] || [ -n "$engine" ] || docker image rm -f "$built" >/dev/null 2>&1 || true
  if [ -n "$engine" ]; then
    kill "$engine" 2>/dev/null || true
    wait "$engine" 2>/dev/null || true
    # Deepest first; what was not mounted needs nothing.
    awk -v root="$state/" 'index($2, root) == 1 { print $2 }' /proc/mounts | sort -r | while read -r mount; do umount "$mount" || true; done
    [ -n "$had_bridge" ] || ip link delete docker0 2>/dev/null || true
    rm -rf "$state"
  fi
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

start_engine() {
  if [ "$(id -u)" -ne 0 ]; then
    echo "no container engine answers, and starting one needs root" >&2
    exit 1
  fi
  command -v dockerd >/dev/null && command -v docker >/dev/null && command -v ip >/dev/null ||
    scripts/apt-install.sh docker.io iproute2 ca-certificates
  state=$(mktemp -d)
  dockerd --data-root "$state/data" --exec-root "$state/exec" -p "$state/pid" -H "unix://$state/docker.sock" \
    --iptables=false --ip6tables=false -s overlay2 >"$state/log" 2>&1 &
  engine=$!
  export DOCKER_HOST=unix://$state/docker.sock
  for _ in $(seq 300); do
    docker info >/dev/null 2>&1 && return
    kill -0 "$engine" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 20 "$state/log" >&2
  echo "a container engine was installed but does not start" >&2
  exit 1
}

if ! docker info >/dev/null 2>&1; then
  # Podman offers the same interface on a socket of its own.
  podman=${XDG_RUNTIME_DIR:-/run}/podman/podman.sock
  if [ -S "$podman" ] && command -v docker >/dev/null && DOCKER_HOST=unix://$podman docker info >/dev/null 2>&1; then
    export DOCKER_HOST=unix://$podman
  elif may_set_up; then
    start_engine
  else
    echo "no container engine answers (docker info fails); start one, or let this script do it: SETUP=1 make test-containers" >&2
    exit 1
  fi
fi

if ! docker image inspect "$image" >/dev/null 2>&1 && ! timeout 300 docker pull -q "$image" >/dev/null 2>&1; then
  if ! may_set_up; then
    echo "the image $image can be neither found nor pulled; build one here: SETUP=1 make test-containers" >&2
    exit 1
  fi
  major=$(printf '%s\n' "$image" | sed -n 's/.*:\([0-9][0-9]*\).*/\1/p')
  built=pgqueue-test-postgres:${major:-18}
  scripts/local-postgres-image.sh "$built" "${major:-18}"
  image=$built
  # Its helper image cannot be pulled either; what is started here is removed here.
  export TESTCONTAINERS_RYUK_DISABLED=true
fi
# Inside a container a test would take the gateway's address for the engine's; ports are published on this machine.
[ -z "$engine" ] || export TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1

export PGQUEUE_TEST_IMAGE=$image
root=$PWD
(cd pgqueuetest/pgcontainer && go build -o "$root/.bin/pgcontainer" ./cmd/pgcontainer)
(cd integration && "$root/.bin/pgcontainer" -image "$image" go test -race -count=1 -p 2 -timeout 20m ./...)
(cd pgqueuetest/pgcontainer && go test -race -count=1 -timeout 10m ./...)
echo "containers ok image=$image"
