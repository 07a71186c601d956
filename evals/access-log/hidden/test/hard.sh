#!/bin/sh
# Lines as real servers write them; prints TAP.
cd "$(dirname "$0")/.." || exit 1
failed=0

check() { # number, name, what came, what should
	if [ "$3" = "$4" ]; then
		echo "ok $1 - $2"
	else
		echo "not ok $1 - $2"
		printf '%s\n' "$3" | sed 's/^/# got: /'
		failed=1
	fi
}

# only prints the traffic of the lines of hard.log that hold a text.
only() {
	grep -F -e "$1" test/hard.log | sh bin/traffic -
}

echo 1..7
check 1 "a user with a space" "$(only 'Ann Lee')" "200 1 100"
check 2 "a path with a space" "$(only 'tax return')" "200 1 200"
check 3 "a request that never came" "$(only ' 408 ')" "408 1 0"
check 4 "a request in one word" "$(only 'x16')" "400 1 157"
check 5 "spaces everywhere" "$(only 'van der')" "503 1 42"
check 6 "the whole log" "$(sh bin/traffic test/hard.log)" "200 2 300
400 2 160
408 1 0
500 1 9007199254
503 1 42"
check 7 "errors of the whole log" "$(sh bin/errors test/hard.log)" '503 GET /x y z?q=\x22a b\x22 HTTP/1.1
500 GET / HTTP/2.0'
exit "$failed"
