#!/bin/sh
# Compares diff scope with git on the newest commits of repositories that are on this machine, and prints a table by class
# of difference: tools/histories.sh COMMITS DIR...
#
# A repository is a folder with a .git, or a bare one. Merges are left out, and so are commits of which a partial clone lacks
# files; the table says how many. It fails when a file counts more lines than git says, when a difference has no
# explanation, or when less than 99 % of the files of all repositories together are equal. Each file that differs is named.
set -eu
commits=$1
shift
dirs=
for dir; do
	dirs="$dirs${dirs:+,}$(cd "$dir" && pwd)"
done
cd "$(dirname "$0")/.."
go test ./internal/diffscope -run '^TestHistory$' -count=1 -v -timeout 2h -commits "$commits" -histories "$dirs"
