#!/usr/bin/env bash
# Runs the tests of all modules with the race detector, several packages side by side since most of their time is waiting:
#
#   scripts/test.sh PACKAGES...      as `go test` wants them; from the folder of go.work
#
# Packages with real servers and processes may fail because the machine was held up. So tests of theirs that fail are run once more, by
# themselves. The first failure is printed in full, and is a bug to find, even if the second run passes.
set -uo pipefail
unset CDPATH
cd "$(dirname "$0")/.."

side_by_side=3
with_servers='^github.com/turnwise/turnwise/(coord/(zk|etcd|redis(/quorum)?|postgres|mysql|nats|memcached|kube|file)|backend|cmd/turnwise(/.*)?|examples|observe/prom|verify/(servers|browser|integration/.*|simulation/(zookeeper|etcdcluster)))$'
export TURNWISE_REQUIRE_SERVERS=1

out=$(mktemp)
trap 'rm -f "$out"' EXIT

# -trimpath: what was built in one clone is not built again in the next.
test=(go test -race -trimpath -count=1 -timeout 45m)
# Logs are long, and whoever shows them may cut them: what failed, and why, stands at the end once more.
in_short() {
	echo "test.sh: in short:" >&2
	grep -E '^ *--- FAIL|^[[:space:]]+[A-Za-z0-9_-]+\.go:[0-9]+: |^[[:space:]]+Error:[[:space:]]|^(panic|fatal error): |^FAIL|^SIGSEGV|^WARNING: DATA RACE|^[^ ]+\.go:[0-9]+:[0-9]+: ' "$out" | grep -vE ' level=[A-Z]+ | it is run again' | cut -c1-400 | tail -60 >&2
}

"${test[@]}" -p $side_by_side "$@" 2>&1 | tee "$out"
[ "${PIPESTATUS[0]}" = 0 ] && exit 0
in_short

mapfile -t failed < <(sed -nE 's/^FAIL\t([^ \t]+)\t[0-9].*/\1/p' "$out" | sort -u)
if [ ${#failed[@]} = 0 ] || grep -qE '^FAIL\s.*\[(build|setup) failed\]' "$out"; then
	exit 1
fi
# The race detector's own code crashes now and then when a goroutine in a synctest bubble selects on a timer that is due (go1.26.8,
# runtime.(*timer).maybeRunChan). A mistake of ours would be a panic.
crashed=$(grep -c '^SIGSEGV: segmentation violation' "$out")
for package in "${failed[@]}"; do
	[[ $package =~ $with_servers ]] || [ "$crashed" -gt 0 ] || { echo "test.sh: $package failed, and needs no server and no process: not run again" >&2; exit 1; }
done
echo "test.sh: FAILED THE FIRST TIME, each a bug to find: ${failed[*]}" >&2
declare -A tests # that have failed, as -run wants them; none if the package came to no end, or says of no test that it failed: then it is run whole
while IFS=$'\t' read -r package names; do
	tests[$package]=$names
done < <(awk -F'\t' '/^--- FAIL: Test/ { split($0, w, " "); names = names "|" w[3] } /^(panic|fatal error|SIGSEGV): / { broken = 1 }
	/^(ok  |FAIL)\t/ { if ($1 == "FAIL") print $2 "\t" (broken || names == "" ? "" : "^(" substr(names, 2) ")$"); names = ""; broken = 0 }' "$out")
rc=0
for package in "${failed[@]}"; do
	"${test[@]}" -run "${tests[$package]:-}" "$package" 2>&1 | tee "$out"
	[ "${PIPESTATUS[0]}" = 0 ] || { rc=1; in_short; }
done
exit $rc
