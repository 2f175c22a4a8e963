#!/usr/bin/env bash
# Prints the path of a development tool, building it first if needed.
#
#   scripts/tool.sh NAME        e.g. "$(scripts/tool.sh benchstat)" old.txt new.txt
#
# Each tool is a module of its own in internal/tools/NAME, so that its needs
# never meet ours. The binary is kept in .cache/tools (or $FIFTY_TOOLS), in a
# folder named after the module's go.mod and go.sum and the Go version: a new
# version is a new folder, and an old binary is never taken for a new one.
set -euo pipefail

if [ $# -ne 1 ]; then
	echo "usage: scripts/tool.sh NAME" >&2
	exit 2
fi
name=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
module=$root/internal/tools/$name
if [ ! -f "$module/go.mod" ]; then
	echo "tool.sh: no tool is called $name; there are: $(cd "$root/internal/tools" && echo */ | tr -d /)" >&2
	exit 2
fi

cd "$module"
key=$({ go version && cat go.mod go.sum; } | cksum | tr ' ' '-')
folder=${FIFTY_TOOLS:-$root/.cache/tools}/$name-$key
binary=$folder/$name

if [ ! -x "$binary" ]; then
	mkdir -p "$folder"
	# One builder at a time where the system has flock. Elsewhere two may build
	# the same thing; the rename below keeps that harmless.
	exec 9>"$folder/lock"
	if command -v flock >/dev/null; then
		flock 9
	fi
fi
if [ ! -x "$binary" ]; then
	echo "tool.sh: building $name from source, once (golangci-lint takes some minutes, others seconds)" >&2
	started=$SECONDS
	scratch=$(mktemp -d "$folder/build.XXXXXX")
	trap 'rm -rf "$scratch"' EXIT
	go build -o "$scratch/" tool >&2
	mv "$scratch/$name" "$binary"
	echo "tool.sh: $name is built ($((SECONDS - started)) s)" >&2
fi
echo "$binary"
