#!/usr/bin/env bash
# Checks the model of one key with spin, and that the model bites: each mutation takes one condition away and
# must be found.
#
#   docs/model/check.sh            under a minute
#   docs/model/check.sh --full     also three arrivals with a sweep that removes: some minutes, 3 GB of memory
#
# Exit: 0 all as it should be; 1 something does not hold, or a mutation was not found; 2 a tool is missing or
# the command is wrong.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

full=no
case "${1-}" in
"") ;;
--full) full=yes ;;
*)
	echo "model: unknown argument $1; use: docs/model/check.sh [--full]" >&2
	exit 2
	;;
esac

if ! command -v spin >/dev/null; then
	echo "model: spin is missing; install it: apt-get install spin (Debian, Ubuntu), brew install spin (macOS)" >&2
	exit 2
fi
cc=""
for tool in ${CC:+"$CC"} cc gcc clang tcc; do
	if command -v "$tool" >/dev/null; then
		cc=$tool
		break
	fi
done
if [ -z "$cc" ]; then
	echo "model: a C compiler is missing, for the program that spin writes; install one: apt-get install gcc (Debian, Ubuntu; tcc is enough), xcode-select --install (macOS)" >&2
	exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cp "$here/record.pml" "$work/"
cd "$work" || exit 2

small=500 # megabytes; enough for a search of less than a million states
failed=0

# search NAME MEMORY FLAGS… writes the checker for these flags and runs it. Its findings are in out. In MODE
# safety it looks for assertions, in MODE usable for runs that never come to rest with a usable key.
search() {
	local mode=$1 megabytes=$2
	shift 2
	local build=("-DMEMLIM=$megabytes") run=(-m200000)
	if [ "$megabytes" -gt "$small" ]; then
		build+=(-O2 -DCOLLAPSE) # worth the compiler's time
	fi
	if [ "$mode" = safety ]; then
		build+=(-DSAFETY -DNOCLAIM)
	else
		run+=(-a)
	fi
	rm -f pan pan.* record.pml.trail
	if ! spin -a "-P$cc -E -x c" "$@" record.pml >spin.out 2>&1 || [ ! -f pan.c ]; then
		echo "model: spin refuses the model:" >&2
		cat spin.out >&2
		exit 1
	fi
	if ! "$cc" "${build[@]}" -o pan pan.c >cc.out 2>&1; then
		echo "model: $cc can't build the checker:" >&2
		cat cc.out >&2
		exit 1
	fi
	out=$(./pan "${run[@]}" 2>&1)
	states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' <<<"$out")
	found=$(sed -nE 's/^pan:[0-9]+: (.*) \(at depth.*/\1/p' <<<"$out" | tr -s ' ')
}

# holds MODE MEMORY WHAT FLAGS…: the whole state space was searched and nothing found.
holds() {
	local mode=$1 megabytes=$2 what=$3
	shift 3
	search "$mode" "$megabytes" "$@"
	if grep -q 'errors: 0' <<<"$out" && ! grep -q 'Search not completed' <<<"$out"; then
		printf 'model: %-64s holds, %10s states\n' "$what" "$states"
		return
	fi
	failed=1
	printf 'model: %-64s FAILS\n' "$what"
	if [ -n "$found" ]; then
		echo "model: $found; the way there, its last 40 steps:"
		spin -t -p -g "-P$cc -E -x c" "$@" record.pml 2>&1 | head -n 2000 | tail -n 40
	else
		echo "$out" | tail -n 25
	fi
}

# bites MODE MUTATION WHAT FLAGS…: with the mutation something is found.
bites() {
	local mode=$1 mutation=$2 what=$3
	shift 3
	search "$mode" "$small" "-D$mutation" "$@"
	if [ -n "$found" ]; then
		printf 'model: %-16s %-47s found, after %7s states: %s\n' "$mutation" "$what" "$states" "$found"
		return
	fi
	failed=1
	printf 'model: %-16s %-47s NOT FOUND, %s states\n' "$mutation" "$what" "$states"
}

holds safety 3000 "three arrivals, no removal: one completion, no stale write" -DARRIVALS=3 -DFORGETS=0
holds safety "$small" "two arrivals, the record removed up to three times" -DARRIVALS=2 -DFORGETS=3
holds usable "$small" "two arrivals whose hosts may end: no key is poisoned" -DARRIVALS=2 -DFORGETS=2 -DHOSTS_END
if [ "$full" = yes ]; then
	holds safety 6000 "three arrivals, the record removed once" -DARRIVALS=3 -DFORGETS=1
fi

bites safety NO_TOKEN "a write compares neither token nor attempt" -DFORGETS=0
bites safety TAKES_ANY_TOKEN "a takeover does not compare the token" -DFORGETS=0
bites safety TAKES_ANY_STATE "a takeover does not compare the state" -DFORGETS=0
bites safety NO_EXPIRY "a takeover does not ask for the expiry" -DFORGETS=0
bites safety RENEW_REVIVES "a heartbeat revives an expired claim" -DFORGETS=0
bites safety ANSWERS_AGAIN "a completion does not compare the state" -DFORGETS=0
bites safety OWN_TAKEN "a held up claim takes its own free key again" -DFORGETS=0
bites safety NO_FLOOR "a removal raises no floor of tokens" -DARRIVALS=2 -DFORGETS=2
bites safety SWEEPS_CLAIMS "a sweep removes an expired claim" -DARRIVALS=2 -DFORGETS=2
bites usable NO_CLOCK "a lease of a host that ended never runs out" -DARRIVALS=2 -DHOSTS_END
bites usable UNKNOWN_ONLY "an operator can't decide an expired claim" -DARRIVALS=2 -DHOSTS_END

if [ "$failed" -ne 0 ]; then
	echo "model: not as it should be" >&2
	exit 1
fi
echo "model: all hold, and every mutation was found"
