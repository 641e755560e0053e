#!/bin/sh
# Makes sure that the tests in a browser have what they need: a Chromium, a font to draw with, and axe-core. Quiet, and does
# nothing when all is there. What is missing is installed by root or with a sudo that asks nothing.
set -eu
cd "$(dirname "$0")/.."

missing=
if [ -z "${PGQUEUE_TEST_CHROMIUM-}" ] && ! command -v chromium >/dev/null 2>&1 && ! command -v google-chrome >/dev/null 2>&1; then
	missing=chromium
fi
if ! command -v fc-list >/dev/null 2>&1 || [ -z "$(fc-list 2>/dev/null | head -n 1)" ]; then
	missing="$missing fontconfig fonts-dejavu-core"
fi
command -v npm >/dev/null 2>&1 || missing="$missing npm"
# shellcheck disable=SC2086 # a list of packages
[ -z "$missing" ] || scripts/apt-install.sh $missing

# npm notes what it has installed in a lock file of its own.
cd console/browsertest
if ! cmp -s package-lock.json node_modules/.installed-lock.json; then
	npm ci --silent --no-fund --no-audit
	cp package-lock.json node_modules/.installed-lock.json
fi
