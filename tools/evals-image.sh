#!/bin/sh
# Makes the image that the demo suite in evals/ needs where its cells run in containers, from Debian's packages and from the
# Go that is installed here. No registry of images is asked.
#
#	tools/evals-image.sh [NAME]    # assay-evals:latest unless another is named
#
# Needs root, docker and debootstrap. Then: assay run evals --executor docker --image assay-evals:latest
set -eu

name=${1:-assay-evals:latest}
docker=docker
[ ! -x /usr/bin/docker ] || docker=/usr/bin/docker # of the same release as the daemon, see docker.sh

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
debootstrap --variant=minbase --include=ca-certificates,git,nodejs,python3 bookworm "$dir/root" >"$dir/log" 2>&1 ||
	{ tail -n 20 "$dir/log" >&2; exit 1; }
rm -rf "$dir/root/var/cache/apt" "$dir/root/var/lib/apt/lists"
cp -R "$(go env GOROOT)" "$dir/root/usr/local/go"
tar -C "$dir/root" -c . | $docker import -c 'CMD ["bash"]' \
	-c 'ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
	-c 'ENV GOTOOLCHAIN=local GOPROXY=off' - "$name"
