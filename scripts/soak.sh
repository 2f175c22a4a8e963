#!/usr/bin/env bash
# Runs each soak with all of its rounds, and keeps what they print in docs/proof. A
# soak that fails leaves the proof of the last good run as it is.
#
#   scripts/soak.sh [NAME...] [FLAG...] NAME: idempotency, inventory, wire-cuts; flags for go test
#   FIFTY_SOAK_ROUNDS=5 scripts/soak.sh another number of rounds
#   FIFTY_SEED=17 scripts/soak.sh       the kills and stops of an earlier run again
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export FIFTY_SOAK_ROUNDS=${FIFTY_SOAK_ROUNDS:-50}

# One line each: the file in docs/proof, the package, and which of its tests.
soaks=(
	'soak-idempotency.txt ./internal/e2e ^(TestSoakOfKilledHosts|TestEachKeyOn.*IsLinearizable)'
	'soak-inventory.txt ./internal/e2e ^(TestSoakOfASale|TestStockOn.*IsLinearizable)'
	'soak-wire-cuts.txt ./store/postgres ^(TestPostgresWireCutSweep|TestPostgresEveryMessage|TestPostgresKeepsTheContractOfStock)'
)

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# summary is what each soak says of itself, without where in the source that was, and how each test ended; not
# each part of a test.
summary() {
	sed -nE 's/^.*: (soak: |(wire-cut sweep))/\n\2/p; s/^--- (PASS|FAIL)/\n\1/p' "$log"
}

run() {
	local file=$1 package=$2 tests=$3 code=0 began=$SECONDS
	shift 3
	echo "soak: $package, $FIFTY_SOAK_ROUNDS rounds, for $file"
	go test -count=1 -v -timeout 60m -run "$tests" "$@" "$package" >"$log" 2>&1 || code=$?
	if [ "$code" -ne 0 ]; then
		cat "$log"
		echo "soak: failed; docs/proof/$file is left as it is" >&2
		return "$code"
	fi
	if ! grep -qE ': (soak: |wire-cut sweep)' "$log"; then
		cat "$log"
		echo "soak: no soak of $package ran" >&2
		return 1
	fi
	local commit
	commit=$(git describe --always --abbrev=12 --exclude='*' --dirty=', with changes that are not committed')
	mkdir -p docs/proof
	{
		echo "date: $(date -u +%F)"
		echo "commit: $commit"
		echo "machine: $(getconf _NPROCESSORS_ONLN) cores, $(go env GOOS)/$(go env GOARCH), $(go env GOVERSION)"
		echo "command: make soak, which runs FIFTY_SOAK_ROUNDS=$FIFTY_SOAK_ROUNDS${FIFTY_SEED:+ FIFTY_SEED=$FIFTY_SEED} go test -run '$tests'$(printf ' %s' "$@" | sed 's/ *$//') $package"
		echo "duration: $((SECONDS - began)) s"
		summary
	} >"docs/proof/$file"
	cat "docs/proof/$file"
}

names=()
while [ $# -gt 0 ] && [[ $1 != -* ]]; do
	names+=("$1")
	shift
done
for name in "${names[@]}"; do
	if ! printf '%s\n' "${soaks[@]}" | grep -q "^soak-$name\.txt "; then
		echo "soak: there is no $name; there are: $(printf '%s\n' "${soaks[@]}" | sed -E 's/^soak-([a-z-]+)\.txt .*/\1/' | paste -sd ' ')" >&2
		exit 2
	fi
done

for soak in "${soaks[@]}"; do
	read -r file package tests <<<"$soak"
	if [ ${#names[@]} -gt 0 ] && [[ " ${names[*]} " != *" $(sed -E 's/^soak-(.*)\.txt$/\1/' <<<"$file") "* ]]; then
		continue
	fi
	run "$file" "$package" "$tests" "$@"
done
