#!/bin/sh
# Names that people really use; prints TAP.
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
number=0
failed=0

check() { # name, command...
	name=$1
	shift
	number=$((number + 1))
	if "$@"; then
		echo "ok $number - $name"
	else
		echo "not ok $number - $name"
		failed=1
	fi
}

# round copies a folder to a backup and back; all three must be equal, and the count must be right.
round() { # folder count
	rm -rf "$work/to" "$work/back"
	mkdir -p "$work/back"
	said=$(sh bin/backup "$1" "$work/to" 2>&1) || return 1
	[ "$said" = "$2 documents" ] || return 1
	said=$(sh bin/restore "$work/to" "$work/back" 2>&1) || return 1
	[ "$said" = "$2 documents, 0 missing" ] || return 1
	diff -r "$1" "$work/back" >/dev/null
}

document() { # folder name
	mkdir -p "$(dirname "$1/$2")"
	printf 'text of %s\n' "$2" >"$1/$2"
}

document "$work/plain" a.txt
document "$work/plain" b/c.txt
check "plain names" round "$work/plain" 2

document "$work/spaces" "tax return 2023.txt"
document "$work/spaces" "old letters/to  ann.txt"
document "$work/spaces" "tax"
check "spaces" round "$work/spaces" 3

document "$work/edges" " leading.txt"
document "$work/edges" "trailing "
document "$work/edges" "$(printf 'tab\there.txt')"
check "blanks at the edges and tabs" round "$work/edges" 3

document "$work/globs" '*.txt'
document "$work/globs" 'what?.txt'
document "$work/globs" '[ab].txt'
document "$work/globs" 'a.txt'
check "characters of patterns" round "$work/globs" 4

document "$work/quotes" "it's.txt"
document "$work/quotes" 'back\nslash.txt'
document "$work/quotes" '"quoted" $HOME.txt'
document "$work/quotes" '-n.txt'
check "quotes, backslashes and dollars" round "$work/quotes" 4

mkdir -p "$work/empty"
check "an empty folder" round "$work/empty" 0

document "$work/my documents" "a letter.txt"
check "a folder with a space" round "$work/my documents" 1

check "a missing folder is refused" sh -c '! sh bin/backup "$1/nowhere" "$1/to2" 2>/dev/null' sh "$work"
echo "1..$number"
exit "$failed"
