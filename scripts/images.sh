#!/usr/bin/env bash
# Builds small images of the servers that `make deps` has fetched, for `make test-containers IMAGES=local` on a machine
# that has a container engine and no registry:
#
#   turnwise-test/zookeeper    a Java runtime cut down by jlink, ZooKeeper's jars, glibc
#   turnwise-test/etcd         the static binary
#
# Both start as the official images do: ZooKeeper reads /conf/zoo.cfg, etcd is on PATH.
set -euo pipefail
unset CDPATH # with it, cd may go elsewhere and says where

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
servers=${TURNWISE_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/turnwise}
fail() { echo "images.sh: $*" >&2; exit 1; }

docker version >/dev/null 2>&1 || fail "no container engine answers. On Debian: apt-get install docker.io, then start dockerd"
command -v jlink >/dev/null || fail "there is no jlink on PATH; it is part of a JDK"
bash "$here/scripts/deps.sh" >&2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# libraries_of FILE...: the shared libraries that programs need, and the loader, at the paths where they look for them.
libraries_of() { { ldd "$@" 2>/dev/null || true; } | grep -oE '/[^ ]+\.so[^ ]*' | grep -v "^$work" | sort -u; }

mkdir -p "$work/etcd"
cp "$servers/etcd" "$work/etcd/"
cat >"$work/etcd/Dockerfile" <<'DOCKERFILE'
FROM scratch
COPY etcd /usr/local/bin/
CMD ["/usr/local/bin/etcd"]
DOCKERFILE

root=$work/zookeeper/root
mkdir -p "$root"/{conf,data,tmp,jars}
jlink --output "$root/java" --strip-debug --no-header-files --no-man-pages \
	--add-modules java.base,java.logging,java.management,java.naming,java.security.jgss,java.security.sasl,java.xml,jdk.management,jdk.unsupported
cp "$servers"/zookeeper/*.jar "$root/jars/"
libraries_of "$root/java/bin/java" "$root"/java/lib/*.so "$root"/java/lib/server/*.so | while read -r library; do
	mkdir -p "$root$(dirname "$library")" && cp -L "$library" "$root$library"
done
cat >"$work/zookeeper/Dockerfile" <<'DOCKERFILE'
FROM scratch
COPY root /
CMD ["/java/bin/java", "-Xmx128m", "-XX:+UseSerialGC", "-Dzookeeper.extendedTypesEnabled=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", "/jars/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", "/conf/zoo.cfg"]
DOCKERFILE

for name in etcd zookeeper; do
	DOCKER_BUILDKIT=0 docker build -q -t "turnwise-test/$name" "$work/$name" >/dev/null 2>"$work/log" || fail "$(cat "$work/log")"
	docker image inspect -f "turnwise-test/$name {{.Size}} bytes" "turnwise-test/$name"
done
