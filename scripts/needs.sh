#!/usr/bin/env bash
# Sees to it that the servers which the tests start are installed: Postgres.
# On Debian and its relatives it installs what is missing, as root or with sudo,
# and says so before. Elsewhere it says what to install and exits 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

find_postgres() { go run ./internal/testenv/findpostgres; }

if folder=$(find_postgres 2>/dev/null); then
	echo "needs: Postgres is in $folder"
	exit 0
fi

if [ -n "${FIFTY_POSTGRES_BIN:-}" ] || ! [ -f /etc/debian_version ] || ! command -v apt-get >/dev/null; then
	find_postgres # says why, and what to install
	exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		find_postgres
		exit 1
	fi
	as_root=(sudo)
fi

cat <<'SAY'
needs: Postgres is missing. Installing Debian's package postgresql with apt-get.
needs: (The package also sets up a server on port 5432. The tests leave that one
needs: alone and start their own; you may remove it.)
SAY
set -x
"${as_root[@]}" apt-get -q update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends postgresql
{ set +x; } 2>/dev/null
folder=$(find_postgres)
echo "needs: Postgres is in $folder"
