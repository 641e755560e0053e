#!/bin/sh
# Builds a small image of Postgres from the binaries that the tests use, for machines that reach no image registry. It behaves like the
# official image as far as pgqueuetest/pgcontainer needs it: POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB, and "ready to accept
# connections" twice in the log of a first start.
#
#   scripts/local-postgres-image.sh TAG [VERSION]     with docker, at the engine that DOCKER_HOST names
set -eu
cd "$(dirname "$0")/.."
tag=$1
version=${2-18}

scripts/setup-postgres.sh --version "$version"
binaries=$(go run ./internal/pgserver/cmd/pgserver find --version "$version" | cut -f 1)
native=$(dirname "$binaries")
if [ ! -d "$native/share" ]; then
	echo "$native is no installation of its own: an image is made from the npm package's binaries (PGQUEUE_POSTGRES_BIN must be unset)" >&2
	exit 1
fi
if ! [ -x /bin/busybox ]; then
	scripts/apt-install.sh busybox-static
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/bin" "$root/etc" "$root/tmp" "$root/usr/local" "$root/var/lib/postgresql" "$root/run/postgresql"
cp -a "$native" "$root/usr/local/postgres"
cp /bin/busybox "$root/bin/busybox"
for tool in sh cat awk grep sed sleep ls id test mkdir chmod; do ln -s busybox "$root/bin/$tool"; done

# The libraries that the package does not bring.
LD_LIBRARY_PATH=$native/lib ldd "$native"/bin/* /bin/busybox 2>/dev/null | awk '$3 ~ /^\// { print $3 } $1 ~ /^\// && NF == 2 { print $1 }' |
	grep -v "^$native" | sort -u | while read -r library; do
	mkdir -p "$root$(dirname "$library")"
	cp -L "$library" "$root$library"
done

printf 'root:x:0:0:root:/:/bin/sh\npostgres:x:70:70:postgres:/var/lib/postgresql:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\npostgres:x:70:\n' >"$root/etc/group"
chmod 1777 "$root/tmp"
cat >"$root/bin/entrypoint" <<'ENTRYPOINT'
#!/bin/sh
# First start: make the cluster, the role and the database; then, as always, become the server.
set -eu
[ "${1-}" = postgres ] || exec "$@"
user=${POSTGRES_USER:-postgres}
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	: "${POSTGRES_PASSWORD:?POSTGRES_PASSWORD is not set}"
	printf '%s\n' "$POSTGRES_PASSWORD" >/tmp/password
	initdb -D "$PGDATA" -U "$user" --pwfile=/tmp/password -E UTF8 --locale=C -A trust -N >/dev/null
	printf 'host all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
	printf "listen_addresses = '*'\nunix_socket_directories = '/tmp'\n" >>"$PGDATA/postgresql.conf"
	database=${POSTGRES_DB:-$user}
	[ "$database" = postgres ] ||
		printf 'CREATE DATABASE "%s"\n' "$database" | postgres --single -D "$PGDATA" postgres >/dev/null
	pg_ctl -D "$PGDATA" -o "-c listen_addresses=''" -w start
	pg_ctl -D "$PGDATA" -m fast -w stop
fi
exec "$@"
ENTRYPOINT
chmod 755 "$root/bin/entrypoint"
chown -R 70:70 "$root/var/lib/postgresql" "$root/run/postgresql"

tar -C "$root" -c . | docker import \
	--change 'ENTRYPOINT ["/bin/entrypoint"]' --change 'CMD ["postgres"]' --change 'USER 70:70' --change 'EXPOSE 5432' \
	--change 'ENV PATH=/usr/local/postgres/bin:/bin PGDATA=/var/lib/postgresql/data LD_LIBRARY_PATH=/usr/local/postgres/lib' \
	- "$tag" >/dev/null
