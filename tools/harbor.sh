#!/bin/sh
# Gives the end-to-end tests Harbor: a Python of its own that has it, and compose, which its docker backend speaks through.
#
#	eval "$(tools/harbor.sh DIR)"   # DIR keeps everything; sets ASSAY_HARBOR and DOCKER_CONFIG
#
# uv finds a Python of at least 3.12 on this host; uv itself comes from PyPI where it is missing. compose is built from the
# module proxy where docker has none, which takes a few minutes.
set -eu

harbor=0.25.0
compose=v2.40.3

dir=$1
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

uv() {
	if command -v uv >/dev/null; then
		command uv "$@"
	else
		[ -x "$dir/uv/bin/uv" ] || { python3 -m venv "$dir/uv" && "$dir/uv/bin/pip" install -q uv; } >&2
		"$dir/uv/bin/uv" "$@"
	fi
}

has_harbor() { "$dir/venv/bin/python" -c "from importlib.metadata import version; assert version('harbor') == '$harbor'" 2>/dev/null; }

if ! has_harbor; then
	uv venv -q --clear --no-python-downloads --python '>=3.12' "$dir/venv" >&2
	echo certifi >"$dir/overrides" # Harbor wants one of the day that it was released; an index may lag behind
	uv pip install -q --python "$dir/venv/bin/python" --overrides "$dir/overrides" "harbor==$harbor" >&2
fi
echo "export ASSAY_HARBOR=$dir/venv/bin/python"

docker compose version >/dev/null 2>&1 && exit
if [ ! -x "$dir/docker/cli-plugins/docker-compose" ]; then
	source=$(cd "$dir" && go mod download -json "github.com/docker/compose/v2@$compose" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	mkdir -p "$dir/docker/cli-plugins"
	(cd "$source" && CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -o "$dir/docker/cli-plugins/docker-compose" ./cmd) >&2
fi
echo "export DOCKER_CONFIG=$dir/docker"
