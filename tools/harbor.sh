#!/bin/sh
# Gives the end-to-end tests Harbor: a Python of its own that has it, and compose, which its docker backend speaks through.
#
#	eval "$(tools/harbor.sh DIR)"   # DIR keeps everything; sets ASSAY_HARBOR and DOCKER_CONFIG
#
# It needs a Python of at least 3.12 on this host; uv comes from PyPI where it is missing. compose is built from the module
# proxy where docker has none, which takes a few minutes.
set -eu

harbor=0.25.0
compose=v2.40.3

dir=$1
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

run_uv() {
	if command -v uv >/dev/null; then
		uv "$@"
	else
		[ -x "$dir/uv/bin/uv" ] || { python3 -m venv "$dir/uv" && "$dir/uv/bin/pip" install -q uv; } >&2
		"$dir/uv/bin/uv" "$@"
	fi
}

# A Python that is recent enough; else what uv shall look for, so that it tells what is missing. uv alone would end at the
# first one on PATH that does not start, and of those that pyenv has all but a few do not.
find_python() {
	for p in python3 python3.12 python3.13 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3; do
		"$p" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && command -v "$p" && return
	done
	echo '>=3.12'
}

has_harbor() { "$dir/venv/bin/python" -c "from importlib.metadata import version; assert version('harbor') == '$harbor'" 2>/dev/null; }

if ! has_harbor; then
	run_uv venv -q --clear --no-python-downloads --python "$(find_python)" "$dir/venv" >&2
	echo certifi >"$dir/overrides" # Harbor wants one of the day that it was released; an index may lag behind
	run_uv pip install -q --python "$dir/venv/bin/python" --overrides "$dir/overrides" "harbor==$harbor" >&2
fi
echo "export ASSAY_HARBOR=$dir/venv/bin/python"

docker compose version >/dev/null 2>&1 && exit
if [ ! -x "$dir/docker/cli-plugins/docker-compose" ]; then
	source=$(cd "$dir" && go mod download -json "github.com/docker/compose/v2@$compose" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	mkdir -p "$dir/docker/cli-plugins"
	(cd "$source" && CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -o "$dir/docker/cli-plugins/docker-compose" ./cmd) >&2
fi
echo "export DOCKER_CONFIG=$dir/docker"
