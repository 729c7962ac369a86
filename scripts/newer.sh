#!/usr/bin/env bash
# Runs the drivers' tests against newer servers than those that deps.sh pins, and against stand-ins for them: ZooKeeper and
# Valkey from Debian testing, MySQL from Debian unstable. These change from week to week, so nothing is pinned:
#
#   scripts/newer.sh            fetches them, without root, and runs the tests
#   scripts/newer.sh --fetch    fetches them
#
# They go to newer/ in the folder of deps.sh, in the same layout. The servers of deps.sh must be there (make deps). Their
# libraries come with them, down to libc, so they need nothing of this system.
set -euo pipefail
unset CDPATH # with it, cd may go elsewhere and says where

fail() { echo "newer.sh: $*" >&2; exit 1; }

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
servers=${TURNWISE_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/turnwise}
newer=$servers/newer
[ -d "$servers/zookeeper" ] || fail "there are no servers in $servers: make deps fetches them"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The mirror is the machine's own.
read -r mirror < <(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security || true) || true
[ -n "${mirror:-}" ] || fail "apt-get names no mirror; this takes a Debian"

# use SUITE: from now on apt takes packages from there, and knows of none that is installed.
use() {
	mkdir -p "$work/$1"/{lists/partial,cache/archives/partial,sources}
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$work/$1/sources/debian.list"
	: >"$work/$1/status"
	apt=(-q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/$1/sources" -o Dir::State::lists="$work/$1/lists"
		-o Dir::State::status="$work/$1/status" -o Dir::Cache="$work/$1/cache" -o APT::Sandbox::User=)
	apt-get "${apt[@]}" update >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$1 is out of reach"; }
}

# unpack DIR PACKAGE...: unpacks the packages into DIR, with all that they need.
unpack() {
	local into=$1 all
	shift
	all=$(apt-get "${apt[@]}" -q=2 --no-install-recommends --print-uris install "$@" | awk '{print $2}' | sed 's/_.*//')
	rm -rf "$work/debs" && mkdir -p "$work/debs" "$into"
	(cd "$work/debs" && apt-get "${apt[@]}" -q=2 download $all)
	for package in "$work/debs"/*.deb; do dpkg -x "$package" "$into"; done
}

# wrap NAME PROGRAM: a script NAME beside usr/, which runs usr/PROGRAM with the libraries there.
wrap() {
	cat >"$1" <<-WRAPPER
		#!/bin/sh
		here=\$(dirname "\$(readlink -f "\$0")")
		lib=\$(echo "\$here"/usr/lib/*-linux-gnu*)
		exec "\$lib"/ld-linux*.so.* --argv0 "${2##*/}" --library-path "\$lib" "\$here/usr/$2" "\$@"
	WRAPPER
	chmod +x "$1"
}

fetch() {
	rm -rf "$newer" && mkdir -p "$newer"/{zookeeper,redis,mariadb}
	cp -R "$servers/.stamps" "$newer/"
	for piece in zookeeper redis mariadb; do echo "$piece any" >"$newer/.stamps/$piece"; done
	for piece in "$servers"/*; do # the others are as they were
		[ -e "$newer/${piece##*/}" ] || [ "$piece" = "$newer" ] || ln -s "$piece" "$newer/"
	done
	use testing
	# ZooKeeper runs on Java, so its jars are enough. The jars that it needs stay those of deps.sh.
	unpack "$work/zookeeper" libzookeeper-java
	cp -L "$servers/zookeeper"/*.jar "$newer/zookeeper/"
	for jar in zookeeper zookeeper-jute commons-io; do cp -L "$work/zookeeper/usr/share/java/$jar.jar" "$newer/zookeeper/"; done
	unpack "$newer/redis" valkey-tools
	wrap "$newer/redis/redis-server" bin/valkey-check-rdb
	wrap "$newer/redis/redis-cli" bin/valkey-cli
	sed -i 's|--argv0 "valkey-check-rdb"|--argv0 valkey-server|' "$newer/redis/redis-server" # one program with two names
	use unstable
	unpack "$newer/mariadb" mysql-server-core
	wrap "$newer/mariadb/mysqld" sbin/mysqld
}

fetch
[ "${1:-}" = --fetch ] && exit
cd "$repository"
TURNWISE_SERVERS=$newer TURNWISE_REQUIRE_SERVERS=1 go test -race -count=1 -timeout 30m -p 1 \
	./coord/zk ./coord/redis ./coord/redis/quorum ./coord/mysql ./verify/integration/fences
