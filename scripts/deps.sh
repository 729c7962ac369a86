#!/usr/bin/env bash
# Fetches the real servers that the tests start, without root, once:
#
#   scripts/deps.sh             ZooKeeper, etcd with its tools and an old etcd, Redis, PostgreSQL, PgBouncer, MariaDB,
#                               memcached, NATS; Prometheus, for the alerts; faketime, for their clocks;
#                               rpm, for our package
#   scripts/deps.sh --interop   these, and what the interop tests and the bench compare with: Curator and kazoo
#   scripts/deps.sh --kube      etcd and Kubernetes' API server, which takes minutes to build
#
# They go to $TURNWISE_SERVERS, by default turnwise/ in the user's cache directory:
#
#   zookeeper/*.jar    ZooKeeper and all it needs on its class path
#   etcd               and etcdctl and etcdutl, built from verify/servers/etcdbuild
#   etcd-3.4/etcd      the oldest etcd we speak to
#   redis/             redis-server and redis-cli
#   postgres/          postgres, initdb, pg_ctl and psql
#   pgbouncer/         pgbouncer
#   mariadb/           mariadbd, mariadb-install-db and mariadb
#   memcached/         memcached
#   nats-server        built from verify/servers/natsbuild
#   prometheus/        prometheus and promtool
#   faketime/          the library that gives a server a clock of its own
#   rpm/               rpm, which installs our package into a folder
#   curator/*.jar      Curator and its class path           (--interop)
#   kazoo/             for PYTHONPATH                       (--interop)
#   kube-apiserver     built from verify/servers/kubebuild  (--kube)
#
# Each piece carries a stamp of its pin, in .stamps: a changed pin fetches it again, an unchanged one costs nothing. The tests
# take no piece without one.
set -euo pipefail
unset CDPATH # with it, cd may go elsewhere and says where

# The pins are upstream versions, so that a distribution's security update of the same version is taken. Security updates of
# PostgreSQL, MariaDB and OpenSSL are new upstream versions, so for these only the series is pinned. When a piece's recipe in
# this script changes, the number behind its name in the stamp must change too.
ZOOKEEPER=3.8.0 SLF4J=1.7.32 METRICS=3.2.6 SNAPPY=1.1.8.3 NETTY=4.1.48 JCTOOLS=2.0.2 COMMONS_CLI=1.5.0
ETCD_OLD=3.4.23
CURATOR=5.4.0 GUAVA=31.1 JACKSON=2.14
KAZOO=2.8.0 SIX=1.16.0 PURE_SASL=0.5.1
REDIS=7.0.15 JEMALLOC=5.3.0 LIBLZF=3.6 LIBATOMIC=12.2.0
POSTGRES=15 ICU=72.1 KRB5=1.20.1 LDAP=2.5.13 XML2=2.9.14 READLINE=8.2
PGBOUNCER=1.18.0 CARES=1.18.1
MARIADB=10.11 AIO=0.3.113 URING=2.3 NUMA=2.0.16 NCURSES=6.4 EDIT=3.1 BSD=0.11.7
MEMCACHED=1.6.18
PROMETHEUS=2.42.0
FAKETIME=0.9.10
RPM=4.18.0 POPT=1.19 LUA=5.3.6 SQLITE=3.40.1
OPENSSL=3.0 SASL=2.1.28 LIBEVENT=2.1.12

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
etcdbuild=$here/verify/servers/etcdbuild
ETCD=$(sed -n 's|.*go\.etcd\.io/etcd/server/v3 v\([^ ]*\).*|\1|p' "$etcdbuild/go.mod")
kubebuild=$here/verify/servers/kubebuild
KUBE=$(sed -n 's|^require k8s\.io/kubernetes v||p' "$kubebuild/go.mod")
natsbuild=$here/verify/servers/natsbuild
NATS=$(sed -n 's|.*github\.com/nats-io/nats-server/v2 v\([^ ]*\).*|\1|p' "$natsbuild/go.mod")
root=${TURNWISE_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/turnwise}

pieces=(zookeeper etcd etcd-3.4 redis postgres pgbouncer mariadb memcached nats-server prometheus faketime rpm)
case "${1:-}" in
"") ;;
--interop) pieces+=(curator kazoo) ;;
--kube) pieces=(etcd kube-apiserver) ;;
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
	postgres) echo $POSTGRES ;;
	pgbouncer) echo $PGBOUNCER ;;
	mariadb) echo $MARIADB ;;
	memcached) echo $MEMCACHED ;;
	prometheus) echo $PROMETHEUS ;;
	faketime) echo $FAKETIME ;;
	rpm) echo $RPM ;;
	kube-apiserver) echo "$KUBE" ;;
	nats-server) echo "$NATS" ;;
	esac
}

# What the stamp of a piece says if it is the one pinned here.
pin() {
	local recipe=1
	case $1 in
	etcd) read -r recipe _ < <(cat "$etcdbuild/go.mod" "$etcdbuild/go.sum" | cksum) ;;
	kube-apiserver) read -r recipe _ < <(cat "$kubebuild/go.mod" "$kubebuild/go.sum" | cksum) ;;
	nats-server) read -r recipe _ < <(cat "$natsbuild/go.mod" "$natsbuild/go.sum" | cksum) ;;
	zookeeper) recipe=1:$SLF4J:$METRICS:$SNAPPY:$NETTY:$JCTOOLS:$COMMONS_CLI ;;
	curator) recipe=1:$GUAVA:$JACKSON:$ZOOKEEPER ;;
	kazoo) recipe=1:$SIX:$PURE_SASL ;;
	redis) recipe=1:$JEMALLOC:$LIBLZF:$LIBATOMIC ;;
	postgres) recipe=1:$ICU:$KRB5:$LDAP:$XML2:$READLINE:$OPENSSL:$SASL ;;
	pgbouncer) recipe=1:$CARES:$OPENSSL:$LIBEVENT ;;
	mariadb) recipe=1:$AIO:$URING:$NUMA:$NCURSES:$EDIT:$BSD:$OPENSSL ;;
	memcached) recipe=1:$OPENSSL:$SASL:$LIBEVENT ;;
	rpm) recipe=1:$POPT:$LUA:$SQLITE ;;
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

# apt with folders of our own, so that it needs neither root nor the machine's package lists, and does not touch these.
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
		fail "$piece comes from Debian's packages, and there is no apt-get or dpkg here. Put it into $root by hand (see the list at the top of scripts/deps.sh), and write '$(pin "$piece")' to $root/.stamps/$piece"
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
		# A source that is out of reach matters only if a package is missing after all: the download shows that.
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

# A package that deps.sums lists must be exactly that one. A later revision of the same version is not listed: there apt has
# checked the distribution's signature.
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

# libraries FROM TO: copies the shared libraries that were unpacked into FROM to TO/lib.
libraries() {
	local from=$1 to=$2 dir
	mkdir -p "$to/lib"
	for dir in "$from"/lib/*-linux-gnu* "$from"/usr/lib/*-linux-gnu*; do
		[ -d "$dir" ] || continue
		find "$dir" -maxdepth 1 -name 'lib*.so.*' -exec cp -P {} "$to/lib/" \;
	done
}

# wrap DIR BIN PROGRAM...: gives each program in DIR/BIN a script in DIR by its name, which runs it with DIR/lib.
wrap() {
	local dir=$1 bin=$2 name
	shift 2
	for name in "$@"; do
		cat >"$dir/$name" <<-WRAPPER
			#!/bin/sh
			here=\$(dirname "\$(readlink -f "\$0")")
			LD_LIBRARY_PATH=\$here/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec "\$here/$bin/$name" "\$@"
		WRAPPER
		chmod +x "$dir/$name"
	done
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
	# Outside the workspace: etcd's dependencies need not agree with ours. Static, so that it runs in any container.
	(cd "$etcdbuild" && export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 &&
		go build -trimpath -o "$out/etcd" go.etcd.io/etcd/server/v3 &&
		go build -trimpath -o "$out/etcdctl" go.etcd.io/etcd/etcdctl/v3 &&
		go build -trimpath -o "$out/etcdutl" go.etcd.io/etcd/etcdutl/v3) >&2 ||
		fail "building etcd $ETCD in $etcdbuild failed; the Go toolchain's words are above"
}

fetch_kube-apiserver() {
	command -v go >/dev/null || fail "kube-apiserver is built with go, and there is no go on PATH"
	echo "deps.sh: this takes ten minutes of one core, once" >&2
	(cd "$kubebuild" && export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 &&
		nice -n 19 go build -trimpath -ldflags='-s -w' -o "$out/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver) >&2 ||
		fail "building kube-apiserver $KUBE in $kubebuild failed; the Go toolchain's words are above"
}

fetch_nats-server() {
	command -v go >/dev/null || fail "nats-server is built with go, and there is no go on PATH"
	(cd "$natsbuild" && export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 &&
		go build -trimpath -ldflags='-s -w' -o "$out/nats-server" github.com/nats-io/nats-server/v2) >&2 ||
		fail "building nats-server $NATS in $natsbuild failed; the Go toolchain's words are above"
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
	mkdir -p "$out/redis/bin"
	# redis-server is a link to redis-check-rdb: one program, which looks at the name it was called by.
	cp "$work/redis/usr/bin/redis-check-rdb" "$out/redis/bin/redis-server"
	cp "$work/redis/usr/bin/redis-cli" "$out/redis/bin/"
	libraries "$work/redis" "$out/redis"
	wrap "$out/redis" bin redis-server redis-cli
}

# The libraries of the servers below are those that a Debian with apt may lack.

fetch_postgres() {
	debs "$work/postgres" postgresql-15=$POSTGRES. postgresql-client-15=$POSTGRES. libpq5=$POSTGRES. libssl3=$OPENSSL. \
		libicu72=$ICU libxml2=$XML2 libldap-2.5-0=$LDAP libsasl2-2=$SASL libreadline8=$READLINE \
		libgssapi-krb5-2=$KRB5 libkrb5-3=$KRB5 libk5crypto3=$KRB5 libkrb5support0=$KRB5 libkeyutils1 libcom-err2
	# PostgreSQL finds its share folder relative to its programs, so the folders stay as they are in the package. Its query
	# compiler is left out: it needs LLVM, which is larger than all the rest.
	local tree
	for tree in usr/lib/postgresql usr/share/postgresql; do
		mkdir -p "$out/postgres/$tree"
		cp -R "$work/postgres/$tree/." "$out/postgres/$tree"
	done
	rm -rf "$out/postgres/usr/lib/postgresql/15/lib/"{bitcode,pgxs,llvmjit*}
	libraries "$work/postgres" "$out/postgres"
	wrap "$out/postgres" usr/lib/postgresql/15/bin postgres initdb pg_ctl psql
}

fetch_pgbouncer() {
	debs "$work/pgbouncer" pgbouncer=$PGBOUNCER libc-ares2=$CARES libevent-2.1-7=$LIBEVENT libssl3=$OPENSSL.
	mkdir -p "$out/pgbouncer/bin"
	cp "$work/pgbouncer/usr/sbin/pgbouncer" "$out/pgbouncer/bin/"
	libraries "$work/pgbouncer" "$out/pgbouncer"
	wrap "$out/pgbouncer" bin pgbouncer
}

fetch_mariadb() {
	debs "$work/mariadb" mariadb-server-core=1:$MARIADB. mariadb-client-core=1:$MARIADB. libssl3=$OPENSSL. \
		libaio1=$AIO liburing2=$URING libnuma1=$NUMA libncurses6=$NCURSES libedit2=$EDIT libbsd0=$BSD
	# mariadb-install-db looks for the others where the package has them.
	mkdir -p "$out/mariadb/usr/"{bin,sbin,share}
	cp "$work/mariadb/usr/sbin/mariadbd" "$out/mariadb/usr/sbin/"
	cp "$work/mariadb/usr/bin/"{mariadb,mariadb-install-db,my_print_defaults,resolveip} "$out/mariadb/usr/bin/"
	cp -R "$work/mariadb/usr/share/mysql" "$out/mariadb/usr/share/"
	libraries "$work/mariadb" "$out/mariadb"
	wrap "$out/mariadb" usr/sbin mariadbd
	wrap "$out/mariadb" usr/bin mariadb mariadb-install-db
}

fetch_prometheus() {
	debs "$work/prometheus" prometheus=$PROMETHEUS
	mkdir -p "$out/prometheus" && cp "$work/prometheus/usr/bin/"{prometheus,promtool} "$out/prometheus/"
}

fetch_faketime() {
	debs "$work/faketime" libfaketime=$FAKETIME
	mkdir -p "$out/faketime" && cp "$work/faketime"/usr/lib/*-linux-gnu*/faketime/libfaketimeMT.so.1 "$out/faketime/"
}

fetch_rpm() {
	debs "$work/rpm" rpm=$RPM rpm-common=$RPM librpm9=$RPM librpmio9=$RPM libpopt0=$POPT liblua5.3-0=$LUA libsqlite3-0=$SQLITE
	mkdir -p "$out/rpm/bin"
	cp "$work/rpm/usr/bin/rpm" "$out/rpm/bin/"
	cp -r "$work/rpm/usr/lib/rpm" "$out/rpm/config"
	libraries "$work/rpm" "$out/rpm"
	wrap "$out/rpm" bin rpm
}

fetch_memcached() {
	debs "$work/memcached" memcached=$MEMCACHED libevent-2.1-7=$LIBEVENT libsasl2-2=$SASL libssl3=$OPENSSL.
	mkdir -p "$out/memcached/bin"
	cp "$work/memcached/usr/bin/memcached" "$out/memcached/bin/"
	libraries "$work/memcached" "$out/memcached"
	wrap "$out/memcached" bin memcached
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
		# The stamp is removed first and written last: a piece that was only half replaced has none.
		rm -f "$root/.stamps/$piece"
		for entry in "$out"/*; do
			rm -rf "${root:?}/${entry##*/}"
			mv "$entry" "$root/"
		done
		pin "$piece" >"$root/.stamps/$piece"
	done
fi
say_what_is_there
