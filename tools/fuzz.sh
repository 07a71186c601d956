#!/bin/sh
# Runs every fuzz target of the module for the given time each: tools/fuzz.sh 10s
set -eu
time=${1:-10s}
go test -list '^Fuzz' ./... | awk '/^Fuzz/ {names[n++] = $1} /^ok/ {for (i = 0; i < n; i++) print $2, names[i]; n = 0}' |
while read -r package name; do
	echo "fuzz $name in $package for $time"
	go test "$package" -run '^$' -fuzz "^$name\$" -fuzztime "$time"
done
