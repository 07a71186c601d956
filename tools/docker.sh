#!/bin/sh
# Gives the end-to-end tests a docker daemon and the two images that the Dockerfile starts from, without any registry of
# images: they are made from Debian's packages and from the Go that is installed here.
#
#	eval "$(tools/docker.sh start DIR)"   # DIR keeps everything; sets DOCKER_HOST
#	tools/docker.sh stop DIR
#
# A daemon that answers already is used as it is, and never stopped. Needs root, docker.io, iptables and debootstrap.
set -eu

# Another client may stand earlier in the PATH; the daemon's own is the one that fits it.
docker=docker
[ ! -x /usr/bin/docker ] || docker=/usr/bin/docker

start() {
	dir=$1
	mkdir -p "$dir"
	if ! $docker info >/dev/null 2>&1; then
		export DOCKER_HOST="unix://$dir/docker.sock"
		setsid /usr/sbin/dockerd -H "$DOCKER_HOST" --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid" \
			>"$dir/dockerd.log" 2>&1 </dev/null &
		for _ in $(seq 60); do
			! $docker info >/dev/null 2>&1 || break
			sleep 0.5
		done
		$docker info >/dev/null || { tail -n 20 "$dir/dockerd.log" >&2; exit 1; }
		echo "export DOCKER_HOST=$DOCKER_HOST"
	fi
	has debian:bookworm-slim || debian "$dir"
	has golang:1.26-bookworm || golang "$dir"
}

has() { $docker image inspect "$1" >/dev/null 2>&1; }

# debian makes a small Debian from its packages.
debian() {
	debootstrap --variant=minbase --include=ca-certificates bookworm "$1/debian" >"$1/debootstrap.log" 2>&1 ||
		{ tail -n 20 "$1/debootstrap.log" >&2; exit 1; }
	tar -C "$1/debian" -c . | $docker import -c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
		-c 'CMD ["bash"]' - debian:bookworm-slim >/dev/null
	rm -rf "$1/debian"
}

# golang adds the Go that is installed here and the modules of this project, so that building needs no network.
golang() {
	mkdir -p "$1/golang"
	proxy=$(go env GOPROXY)
	cache=$(go env GOMODCACHE)
	GOMODCACHE="$1/golang/mod" GOFLAGS=-modcacherw GOPROXY="file://$cache/cache/download,$proxy" go mod download
	cp -R "$(go env GOROOT)" "$1/golang/go"
	cat >"$1/golang/Dockerfile" <<-'END'
		FROM debian:bookworm-slim
		COPY go /usr/local/go
		COPY mod /go/pkg/mod
		ENV PATH=/usr/local/go/bin:$PATH GOPATH=/go GOPROXY=off GOFLAGS=-mod=mod GOTOOLCHAIN=local
	END
	DOCKER_BUILDKIT=0 $docker build -q -t golang:1.26-bookworm "$1/golang" >/dev/null
	rm -rf "$1/golang"
}

# stop ends the daemon that start started, if it did, and removes all that it kept.
stop() {
	[ -f "$1/pid" ] || return 0
	pid=$(cat "$1/pid")
	kill "$pid"
	for _ in $(seq 50); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.2
	done
	umount "$1"/exec/netns/* "$1/data" 2>/dev/null || true # a daemon may leave its folder mounted on itself
	rm -rf "$1"
}

case ${1-} in
start) start "$2" ;;
stop) stop "$2" ;;
*) sed -n '2,8p' "$0"; exit 2 ;;
esac
