#!/bin/sh
# Runs every fuzz target of the module for the given number of executions each: tools/fuzz.sh 10000x
#
# A count and not a time: with a time, Go before 1.27 lets a target fail with "context deadline exceeded" and no input when
# the clock runs out at the wrong moment (go.dev/issue/75804), and a gate must not cry wolf.
set -eu
count=${1:-10000x}
go test -list '^Fuzz' ./... | awk '/^Fuzz/ {names[n++] = $1} /^ok/ {for (i = 0; i < n; i++) print $2, names[i]; n = 0}' |
while read -r package name; do
	echo "fuzz $name in $package, $count"
	go test "$package" -run '^$' -fuzz "^$name\$" -fuzztime "$count" -fuzzminimizetime 20x
done
