#!/bin/sh
# The test that the agent does not see.
want="Hello, Ada Lovelace!
Hello, Alan!"
got=$(sh greet.sh "Ada Lovelace" Alan)
[ "$got" = "$want" ] || { printf "got:\n%s\nwant:\n%s\n" "$got" "$want"; exit 1; }
