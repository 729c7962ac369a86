#!/usr/bin/env bash
# Runs tests in shells that are not like ours, through `make test-quick`, and none may notice: scripts/shells.sh PACKAGE...
#
#   strange   variables that servers, their clients, git, go or the tool heed, no home, an odd TMPDIR, files for us alone
#   bare      hardly any variables, and what is made is open to everybody
#   other     the same as another user, in its place if this one is root
#
# In all of them there are other servers on PATH. Besides the PACKAGEs these are some that open files, start children or speak
# to servers, which only the strange shell knows.
set -euo pipefail
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
quick="$* ./backend ./coord/file ./sharedfile ./cmd/turnwise/internal/..."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

mkdir "$work/path"
for program in etcd etcdctl etcdutl redis-server postgres initdb psql pgbouncer mariadbd mysqld memcached zkServer.sh kube-apiserver nats-server; do
	printf '#!/bin/sh\necho "$0" >>"%s"\nexit 1\n' "$work/taken" >"$work/path/$program"
	chmod 755 "$work/path/$program"
done
# The go command is found where it is, and finds its caches where they are.
ln -s "$(command -v go)" "$work/path/go"
usual=(PATH="$work/path:/usr/local/bin:/usr/bin:/bin")
for name in GOROOT GOCACHE GOPATH GOMODCACHE GOPROXY GOSUMDB GOTOOLCHAIN; do usual+=("$name=$(go env $name)"); done
buildvcs=-buildvcs=false

# These take long or are sensitive to a busy machine, and come to nothing that a shell could change.
slow='TestStore|TestStoreThatSyncs|TestConformance|TestProcessesThatAreKilledLoseAndRepeatNothing|TestAListenerWhoIsAsleepLearnsThatItHasLostNotes'

# run NAME VARIABLE=VALUE... runs the tests with nothing but these variables, as somebody else if $exec is a program that does
# that.
run() {
	local name=$1
	shift
	echo "== shell: $name"
	env -i "${usual[@]}" "$@" make --no-print-directory -C "$here" test-quick QUICK="$quick" \
		QUICK_FLAGS="-count=1 -skip='^($slow)\$\$' ${exec:+-exec=$exec}" || {
		echo "shells.sh: a test fails in a shell that is $name: scripts/shells.sh says what is different there" >&2
		exit 1
	}
	if [ -e "$work/taken" ]; then
		echo "shells.sh: a test took what was on PATH: $(sort -u "$work/taken" | tr '\n' ' ')" >&2
		exit 1
	fi
}

strange() {
	local wrong=nowhere.invalid odd
	odd="$work/it's \"odd\", of $(printf 'long%.0s' {1..20})"
	mkdir "$odd"
	umask 077
	run strange TMPDIR="$odd" TURNWISE_SERVERS="${TURNWISE_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/turnwise}" \
		HOME=/nonexistent XDG_CACHE_HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent XDG_STATE_HOME=/nonexistent \
		XDG_RUNTIME_DIR=/nonexistent GOENV=off GOFLAGS="-mod=mod -count=2 -race $buildvcs" GOWORK=off \
		LANG=tr_TR.UTF-8 LC_ALL=tr_TR.UTF-8 TZ=Pacific/Chatham CDPATH=/:/tmp BASH_ENV=/nonexistent ENV=/nonexistent TERM=dumb SHELL=/bin/false \
		GIT_DIR=/nonexistent GIT_WORK_TREE=/nonexistent \
		http_proxy=http://$wrong:1 https_proxy=http://$wrong:1 HTTP_PROXY=http://$wrong:1 HTTPS_PROXY=http://$wrong:1 NO_PROXY=example.com \
		TURNWISE_BACKEND=etcd://$wrong:1/ TURNWISE_NAME=other TURNWISE_TOKEN=1 TURNWISE_HOLDS="line=a&service=b&token=1" TURNWISE_MODE=read TURNWISE_SLOT=2026-11-27T03:00:00Z TURNWISE_HOLDER=1 TURNWISE_PROFILE=other TURNWISE_REQUIRE=failover \
		KUBECONFIG=/nonexistent KUBERNETES_SERVICE_HOST=$wrong KUBERNETES_SERVICE_PORT=1 NATS_URL=nats://$wrong:1 \
		PGHOST=$wrong PGPORT=1 PGUSER=nobody PGPASSWORD=wrong PGDATABASE=other PGSERVICE=none PGTARGETSESSIONATTRS=standby \
		MYSQL_HOST=$wrong MYSQL_PWD=wrong MYSQL_TCP_PORT=1 REDIS_HOST=$wrong REDIS_PASSWORD=wrong REDISCLI_AUTH=wrong \
		ETCD_NAME=other ETCD_DATA_DIR=/nonexistent ETCDCTL_ENDPOINTS=$wrong:1 ETCDCTL_API=2 \
		JAVA_TOOL_OPTIONS=-XX:NoSuchOption CLASSPATH=/nonexistent PYTHONHOME=/nonexistent
}

bare() {
	umask 000
	run bare GOFLAGS=$buildvcs
}

# The programs of tests are built by us, whose caches nobody else may read, and run as somebody else. Two of the tests ask the
# go command about the sources, and cannot do that without a cache.
other() {
	local as=(setpriv --reuid 65534 --regid 65534 --clear-groups --)
	if [ "$(id -u)" != 0 ] || ! "${as[@]}" test -r "$here/go.mod" 2>/dev/null; then
		echo "== shell: other, not tried: that takes root, setpriv, and a checkout that everybody may read"
		bare
		return
	fi
	umask 000
	mkdir -m 777 "$work/other"
	cat >"$work/as-other" <<-WRAPPER
		#!/bin/sh
		program=\$(mktemp -p "$work" program-XXXXXX) && cp "\$1" "\$program" && chmod 755 "\$program" && shift
		exec ${as[*]} env HOME=/nonexistent TMPDIR="$work/other" "\$program" "\$@"
	WRAPPER
	chmod 755 "$work/as-other"
	slow+="|$(sed -n 's/^func \(Test[A-Za-z]*\)(.*/\1/p' "$here/coord/imports_test.go" | grep -v LibraryModules | paste -sd'|')"
	exec=$work/as-other run other GOFLAGS=$buildvcs
}

for shell in strange other; do ("$shell"); done
