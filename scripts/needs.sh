#!/usr/bin/env bash
# Sees to it that what the tests start is installed: Postgres's own programs,
# redis-server, libfaketime, curl and git. On Debian and its relatives it installs what is missing, as root
# or with sudo, and says so before. Elsewhere it says what to install and exits 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

find_postgres() { go run ./internal/testenv/findpostgres; }

missing=()
command -v curl >/dev/null || missing+=(curl)
command -v git >/dev/null || missing+=(git)
if folder=$(find_postgres 2>/dev/null); then
	echo "needs: Postgres is in $folder"
else
	missing+=(postgresql)
fi
command -v redis-server >/dev/null || missing+=(redis-server)
go run ./internal/testenv/findfaketime >/dev/null 2>&1 || missing+=(faketime)
if [ ${#missing[@]} -eq 0 ]; then
	exit 0
fi

explain() {
	echo "needs: please install: ${missing[*]} (these are Debian's names)" >&2
	find_postgres >/dev/null || true # what Postgres is called elsewhere
	exit 1
}
# A folder that the caller named is the caller's to mend.
if [ -n "${FIFTY_POSTGRES_BIN:-}" ] || ! [ -f /etc/debian_version ] || ! command -v apt-get >/dev/null; then
	explain
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || explain
	as_root=(sudo)
fi

echo "needs: installing with apt-get what is missing: ${missing[*]}"
if [[ " ${missing[*]} " == *" postgresql "* ]]; then
	echo "needs: (Debian's package postgresql also sets up a server on port 5432. The tests"
	echo "needs: leave that one alone and start their own; you may remove it.)"
fi
set -x
"${as_root[@]}" apt-get -q update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}"
{ set +x; } 2>/dev/null
folder=$(find_postgres)
echo "needs: Postgres is in $folder"
