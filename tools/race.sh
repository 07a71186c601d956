#!/bin/sh
# Prints -race where the race detector can be built: it needs a C compiler on Linux.
[ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null && echo -race
exit 0
