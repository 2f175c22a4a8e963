#!/usr/bin/env bash
# Runs the tests that need no server: memory and SQLite, in some three minutes.
#
# What needs a server says so by name: its package's path has postgres, pgserver,
# redis or testenv in it, or its test's name has Postgres, Redis or Stripe (for a subtest,
# also in lower case). Those are left out here, by name. No test leaves itself out: with
# FIFTY_TESTENV=none, one that asks for a server under another name fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

left_out='postgres|pgserver|redis|testenv'
all=$(go list ./...)
packages=$(grep -Ev "$left_out" <<<"$all")
echo "check: without servers; make test also has: $(grep -E "$left_out" <<<"$all" | sed 's|.*/fifty/||' | tr '\n' ' ')and each test called Postgres, Redis or Stripe"
# shellcheck disable=SC2086 # a list of words
FIFTY_TESTENV=none exec go test -timeout 5m \
	-skip 'Postgres|Redis|Stripe|.*/[Pp]ostgres|.*/[Rr]edis|.*/[Ss]tripe' "$@" $packages
