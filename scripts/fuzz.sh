#!/usr/bin/env bash
# Runs each fuzz target for a while, one after the other.
#
#   scripts/fuzz.sh [TIME]      e.g. 20s (the default), 5m, 100000x
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

each=${1:-20s}
targets=0
while read -r folder; do
	while read -r target; do
		targets=$((targets + 1))
		echo "fuzz: $target in ${folder#"$PWD"}, $each"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$each" "$folder"
	done < <(find "$folder" -maxdepth 1 -name '*_test.go' -exec sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' {} +)
done < <(go list -f '{{.Dir}}' ./...)
echo "fuzz: $targets targets"
if [ "$targets" -eq 0 ]; then
	echo "fuzz: no target found, which can't be right" >&2
	exit 1
fi
