#!/usr/bin/env bash
# Fetches the real servers that the tests start, without root, once:
#
#   scripts/deps.sh             ZooKeeper, etcd, etcdctl and an old etcd
#   scripts/deps.sh --interop   these, and what the interop tests and the bench compare with:
#                               Curator, kazoo, redis
#
# They go to $TURNWISE_SERVERS, by default turnwise/ in the user's cache directory:
#
#   zookeeper/*.jar    ZooKeeper and all it needs on its class path
#   etcd, etcdctl      built from verify/servers/etcdbuild
#   etcd-3.4/etcd      the oldest etcd we speak to
#   curator/*.jar      Curator and its class path           (--interop)
#   kazoo/             for PYTHONPATH                       (--interop)
#   redis/             redis-server and redis-cli           (--interop)
#
# Each piece carries a stamp of its pin: a changed pin fetches it again, an unchanged one costs nothing.
set -euo pipefail

# The pins are upstream versions, so that a distribution's security update of the same version is taken. When a piece's
# recipe in this script changes, the number behind its name in the stamp must change too.
ZOOKEEPER=3.8.0 SLF4J=1.7.32 METRICS=3.2.6 SNAPPY=1.1.8.3 NETTY=4.1.48 JCTOOLS=2.0.2 COMMONS_CLI=1.5.0
ETCD_OLD=3.4.23
CURATOR=5.4.0 GUAVA=31.1 JACKSON=2.14
KAZOO=2.8.0 SIX=1.16.0 PURE_SASL=0.5.1
REDIS=7.0.15 JEMALLOC=5.3.0 LIBLZF=3.6 LIBATOMIC=12.2.0

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
etcdbuild=$here/verify/servers/etcdbuild
ETCD=$(sed -n 's|.*go\.etcd\.io/etcd/server/v3 v\([^ ]*\).*|\1|p' "$etcdbuild/go.mod")
root=${TURNWISE_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/turnwise}

pieces=(zookeeper etcd etcd-3.4)
case "${1:-}" in
"") ;;
--interop) pieces+=(curator kazoo redis) ;;
-h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit ;;
*) echo "deps.sh: unknown argument $1; see --help" >&2; exit 2 ;;
esac

fail() { echo "deps.sh: $*" >&2; exit 1; }

version() {
	case $1 in
	zookeeper) echo $ZOOKEEPER ;;
	etcd) echo "$ETCD" ;;
	etcd-3.4) echo $ETCD_OLD ;;
	curator) echo $CURATOR ;;
	kazoo) echo $KAZOO ;;
	redis) echo $REDIS ;;
	esac
}

# What the stamp of a piece says if it is the one pinned here.
pin() {
	local recipe=1
	case $1 in
	etcd) read -r recipe _ < <(cat "$etcdbuild/go.mod" "$etcdbuild/go.sum" | cksum) ;;
	zookeeper) recipe=1:$SLF4J:$METRICS:$SNAPPY:$NETTY:$JCTOOLS:$COMMONS_CLI ;;
	curator) recipe=1:$GUAVA:$JACKSON:$ZOOKEEPER ;;
	kazoo) recipe=1:$SIX:$PURE_SASL ;;
	redis) recipe=1:$JEMALLOC:$LIBLZF:$LIBATOMIC ;;
	esac
	echo "$1 $(version "$1") recipe $recipe"
}

stamped() {
	local stamp=
	[ -f "$root/.stamps/$1" ] && read -r stamp <"$root/.stamps/$1"
	[ "$stamp" = "$(pin "$1")" ]
}

missing() {
	local piece
	for piece in "${pieces[@]}"; do stamped "$piece" || echo "$piece"; done
}

say_what_is_there() {
	local piece list=
	for piece in "${pieces[@]}"; do list+=", $piece $(version "$piece")"; done
	echo "$root has ${list#, }"
}

# --- Debian packages ---------------------------------------------------------------------------

# apt with folders of our own, so that neither root nor the machine's package lists are needed or touched.
# $lists are the machine's own at first, and a fresh private copy once those prove too old or empty.
lists=/var/lib/apt/lists
apt_get() {
	apt-get -q -o Dir::State::lists="$lists" -o Dir::Cache="$work/apt" -o APT::Sandbox::User= \
		-o APT::Get::List-Cleanup=false -o Acquire::Retries=2 "$@"
}

# debs DIR PACKAGE=UPSTREAM...: downloads the packages and unpacks them into DIR.
debs() {
	local into=$1 want=() package
	shift
	command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
		fail "$piece comes from Debian's packages, and there is no apt-get or dpkg here. Put it into $root by hand (see the list at the top of scripts/deps.sh)"
	for package in "$@"; do
		# The star stands for the distribution's own revision, as in 3.8.0-11+deb12u2.
		if [ -n "${TURNWISE_DEPS_ANY_VERSION:-}" ]; then want+=("${package%%=*}"); else want+=("$package*"); fi
	done
	mkdir -p "$work/apt/archives/partial" "$into"
	local got=$work/debs
	rm -rf "$got" && mkdir -p "$got"
	if ! (cd "$got" && apt_get download "${want[@]}") >"$work/apt.log" 2>&1; then
		lists=$work/lists
		mkdir -p "$lists/partial"
		# A source that is out of reach matters only if a package is missing after all: the download tells.
		apt_get update >"$work/apt-update.log" 2>&1 || true
		if ! (cd "$got" && apt_get download "${want[@]}") >"$work/apt.log" 2>&1; then
			grep -h '^[WE]:' "$work/apt-update.log" "$work/apt.log" >&2 || tail -n 5 "$work/apt.log" >&2
			fail "apt-get download of ${want[*]} failed. These versions are Debian 12's; on another release TURNWISE_DEPS_ANY_VERSION=1 takes whatever it has, untested"
		fi
	fi
	for package in "$got"/*.deb; do
		check_sum "$package"
		dpkg -x "$package" "$into"
	done
}

# What deps.sums knows must be just that. A later revision of the same version is not in it: apt has checked its
# distribution's signature.
check_sum() {
	local name=${1##*/} is want
	is=$(sha256sum "$1") && is=${is%% *}
	want=$(sed -n "s/^\([0-9a-f]*\)  $name\$/\1/p" "$here/scripts/deps.sums")
	if [ -z "$want" ]; then
		echo "deps.sh: note: $name is not in scripts/deps.sums ($is); only apt has checked it" >&2
	elif [ "$is" != "$want" ]; then
		fail "$name has the SHA-256 $is, and scripts/deps.sums says $want"
	fi
}

# jars FROM TO NAME...: copies the jars under their plain names; the versioned names are links to those.
jars() {
	local from=$1 to=$2 name
	shift 2
	mkdir -p "$to"
	for name in "$@"; do cp -L "$from/usr/share/java/$name.jar" "$to/"; done
}

# --- one function for each piece: it makes it in $out, a folder whose entries then go to $root --------------

zookeeper_debs=(libzookeeper-java=$ZOOKEEPER libslf4j-java=$SLF4J libdropwizard-metrics-java=$METRICS libsnappy-java=$SNAPPY)
zookeeper_jars=(zookeeper zookeeper-jute slf4j-api slf4j-simple metrics-core snappy-java)

fetch_zookeeper() {
	# Netty is there for TLS, commons-cli for zkCli (org.apache.zookeeper.ZooKeeperMain).
	debs "$work/zk" "${zookeeper_debs[@]}" libnetty-java=1:$NETTY libjctools-java=$JCTOOLS libcommons-cli-java=$COMMONS_CLI
	jars "$work/zk" "$out/zookeeper" "${zookeeper_jars[@]}" commons-cli jctools-core \
		netty-{buffer,codec,common,handler,resolver,transport,transport-native-epoll,transport-native-unix-common}
	command -v java >/dev/null ||
		echo "deps.sh: note: there is no java on PATH; ZooKeeper's tests need a Java runtime, 11 or newer" >&2
}

fetch_etcd() {
	command -v go >/dev/null || fail "etcd is built with go, and there is no go on PATH"
	# Out of the workspace: etcd's dependencies are not ours to agree with. Static, so that it runs in any container.
	(cd "$etcdbuild" && export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 &&
		go build -trimpath -o "$out/etcd" go.etcd.io/etcd/server/v3 &&
		go build -trimpath -o "$out/etcdctl" go.etcd.io/etcd/etcdctl/v3) >&2 ||
		fail "building etcd $ETCD in $etcdbuild failed; the Go toolchain's words are above"
}

fetch_etcd-3.4() {
	debs "$work/etcd34" etcd-server=$ETCD_OLD
	mkdir -p "$out/etcd-3.4" && cp "$work/etcd34/usr/bin/etcd" "$out/etcd-3.4/"
}

fetch_curator() {
	debs "$work/curator" "${zookeeper_debs[@]}" libcurator-{recipes,framework,client}-java=$CURATOR \
		libguava-java=$GUAVA libjackson2-{core,databind,annotations}-java=$JACKSON
	jars "$work/curator" "$out/curator" "${zookeeper_jars[@]}" curator-{recipes,framework,client} \
		guava jackson-{core,databind,annotations}
	# Guava's com.google.common.util.concurrent.internal is a jar of its own where the distribution splits it.
	if [ -f "$work/curator/usr/share/java/failureaccess.jar" ]; then jars "$work/curator" "$out/curator" failureaccess; fi
}

fetch_kazoo() {
	debs "$work/kazoo" python3-kazoo=$KAZOO python3-six=$SIX python3-pure-sasl=$PURE_SASL
	mkdir -p "$out/kazoo"
	cp -R "$work/kazoo/usr/lib/python3/dist-packages/"{kazoo,puresasl,six.py} "$out/kazoo/"
}

fetch_redis() {
	debs "$work/redis" redis-tools=5:$REDIS libjemalloc2=$JEMALLOC liblzf1=$LIBLZF libatomic1=$LIBATOMIC
	mkdir -p "$out/redis/bin" "$out/redis/lib"
	# redis-server is a link to redis-check-rdb: one program, which looks at the name it was called by.
	cp "$work/redis/usr/bin/redis-check-rdb" "$out/redis/bin/redis-server"
	cp "$work/redis/usr/bin/redis-cli" "$out/redis/bin/"
	cp -L "$work"/redis/usr/lib/*/lib{jemalloc,lzf,atomic}.so.? "$out/redis/lib/"
	local name
	for name in redis-server redis-cli; do
		cat >"$out/redis/$name" <<-'WRAPPER'
			#!/bin/sh
			here=$(dirname "$(readlink -f "$0")")
			LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/bin/$(basename "$0")" "$@"
		WRAPPER
		chmod +x "$out/redis/$name"
	done
}

# ---------------------------------------------------------------------------------------------

if [ -n "$(missing)" ]; then
	mkdir -p "$root/.stamps"
	exec 9>"$root/.lock"
	if command -v flock >/dev/null && ! flock -n 9; then
		echo "deps.sh: another run is fetching into $root; waiting for it" >&2
		flock 9
	fi
	work=$root/.work
	trap 'rm -rf "$work"' EXIT
	rm -rf "$work"
	for piece in $(missing); do
		echo "fetching $piece $(version "$piece")" >&2
		out=$work/out/$piece
		mkdir -p "$out"
		"fetch_$piece"
		# The stamp goes first and comes last: a piece that was replaced by half has none.
		rm -f "$root/.stamps/$piece"
		for entry in "$out"/*; do
			rm -rf "${root:?}/${entry##*/}"
			mv "$entry" "$root/"
		done
		pin "$piece" >"$root/.stamps/$piece"
	done
fi
say_what_is_there
