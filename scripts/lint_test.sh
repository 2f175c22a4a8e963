#!/usr/bin/env bash
# Proves that the linters bite: it plants one fault for each rule of the house in
# a module made for that, and fails unless each is found and nothing else is.
#
#   scripts/lint_test.sh GOLANGCI_LINT
set -euo pipefail

lint=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
house=$(mktemp -d)
trap 'rm -rf "$house"' EXIT
cp "$root/.golangci.yml" "$house"
cd "$house"

# The module's own name, so that the floors apply; the drivers are empty.
cat >go.mod <<'MOD'
module github.com/fiftyhosts/fifty

go 1.26.0

require (
	github.com/jackc/pgx/v5 v5.0.0
	golang.org/x/sync v0.1.0
	modernc.org/sqlite v1.0.0
)

replace (
	github.com/jackc/pgx/v5 => ./vendored/pgx
	golang.org/x/sync => ./vendored/sync
	modernc.org/sqlite => ./vendored/sqlite
)
MOD
for driver in pgx:github.com/jackc/pgx/v5 sync:golang.org/x/sync sqlite:modernc.org/sqlite; do
	folder=vendored/${driver%%:*}
	mkdir -p "$folder"
	printf 'module %s\n' "${driver#*:}" >"$folder/go.mod"
	printf 'package empty\n' >"$folder/empty.go"
done

# file NAME < CODE: a file, whose package is called as its folder.
file() {
	mkdir -p "$(dirname "$1")"
	local package
	package=$(basename "$(dirname "$1")")
	[ "$package" != . ] || package=fifty
	{ printf '// Package %s is planted.\npackage %s\n\n' "$package" "$package" && cat; } >"$1"
}
# import NAME PATH…: such a file with imports.
import() {
	local name=$1
	shift
	printf 'import _ "%s" // planted\n\n' "$@" | sed '$d' | file "$name"
}
# repeat N LINE: that line, N times.
repeat() {
	local i
	for ((i = 0; i < $1; i++)); do echo "$2"; done
}
fifty=github.com/fiftyhosts/fifty

# Clean code, of which nothing may be said.
import retry/clean.go errors
import lease/clean.go $fifty/retry net/http golang.org/x/sync
import lease/clean_test.go $fifty/store/memory github.com/jackc/pgx/v5
import store/memory/clean.go $fifty/retry
import store/sqlite/clean.go $fifty/retry modernc.org/sqlite
import store/postgres/clean.go github.com/jackc/pgx/v5
import server/clean.go $fifty/store/memory $fifty/lease
import cmd/fifty/clean.go $fifty/server
import cmd/other/clean.go errors
import internal/testenv/clean.go github.com/jackc/pgx/v5
import faults/clean.go errors
import faults/pgwire/clean.go $fifty/faults github.com/jackc/pgx/v5

# Faults: the file's name is the linter that must find it.
import depguard.go $fifty/store/memory
import causal/depguard.go $fifty/lease/leasetest
import internal/thing/depguard.go github.com/jackc/pgx/v5
import faults/depguard.go github.com/jackc/pgx/v5
import faults/pgwire/depguard.go $fifty/store/postgres
import lease/depguard.go github.com/jackc/pgx/v5
import lease/leasetest/depguard.go $fifty/store/memory
import occ/depguard.go $fifty/server
import store/memory/depguard.go modernc.org/sqlite
import store/sqlite/depguard.go $fifty/store/memory
import store/postgres/depguard.go modernc.org/sqlite
import store/redis/depguard.go $fifty/store/postgres
import store/etcd/depguard.go golang.org/x/sync
import server/depguard.go $fifty/cmd/other
import lab/depguard.go $fifty/internal/testenv
file txn/forbidigo_test.go <<'GO'
import "testing"

func TestMissingServer(t *testing.T) { t.Skip("no server here") }
GO
file txn/forbidigo.go <<'GO'
import "time"

func init() { time.Sleep(time.Second) }
GO
file occ/forbidigo.go <<'GO'
import "time"

func init() { _ = time.Now() }
GO
file txn/errorlint.go <<'GO'
import (
	"io"
	"os"
)

// Ended compares as one must not.
func Ended(err error) bool { return err == io.EOF || err == os.ErrClosed }
GO
file txn/godox.go <<'GO'
// TODO: some day.
GO
file txn/gofumpt.go <<'GO'
func init() {

	_ = 1
}
GO
file txn/errcheck.go <<'GO'
import "os"

func init() { os.Chdir("/") }
GO
file txn/staticcheck.go <<'GO'
import "regexp"

var _ = regexp.MustCompile("(")
GO
file txn/revive.go <<'GO'
func Undocumented() {}
GO
{
	printf 'func init() {\n'
	repeat 71 '	_ = 1'
	printf '}\n'
} | file txn/funlen.go
repeat 400 '// A comment.' | file inbox/revive.go

"$lint" run --output.text.path=found --output.text.print-issued-lines=false --output.text.colors=false ./... >said 2>&1 || true
if ! [ -s found ]; then
	cat said >&2
	exit 1
fi
sed -nE 's/^([^:]+):.*\(([a-z]+)\)$/\1 \2/p' found | sort -u >got
while read -r planted; do
	linter=$(basename "$planted" .go)
	echo "${planted#./} ${linter%_test}"
done < <(find . -name '*.go' -not -name 'clean*' -not -path './vendored/*') | sort >want
if ! diff want got >difference; then
	echo "lint: the rules do not find what was planted (<), or find more (>):" >&2
	cat difference found >&2
	exit 1
fi
echo "lint: all $(wc -l <want) planted faults are found"
