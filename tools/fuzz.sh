#!/bin/sh
# Runs every fuzz target of the module for the given number of executions each: tools/fuzz.sh 10000x
#
# A count and not a time: with a time, Go before 1.27 lets a target fail with "context deadline exceeded" and no input when
# the clock runs out at the wrong moment (go.dev/issue/75804), and a gate must not cry wolf. Each room is built once and not
# once a target, as go test would. What is found stands in testdata/fuzz of the room, as always.
set -eu
count=${1:-10000x}
binaries=$(mktemp -d)
trap 'rm -rf "$binaries"' EXIT
cache=$(go env GOCACHE)/fuzz
go list -f '{{.ImportPath}} {{.Dir}}' ./... >"$binaries/rooms"
while read -r package dir; do
	names=$(grep -hos '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | cut -c6-)
	[ -n "$names" ] || continue
	go test -c -fuzz . -o "$binaries/room.test" "$package"
	for name in $names; do
		echo "fuzz $name in $package, $count"
		(cd "$dir" && "$binaries/room.test" -test.run '^$' -test.fuzz "^$name\$" -test.fuzztime "$count" \
			-test.fuzzminimizetime 20x -test.fuzzcachedir "$cache/$package")
	done
done <"$binaries/rooms"
