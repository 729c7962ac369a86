#!/usr/bin/env bash
# Tries each module with exactly the Go that its go.mod names, without go.work: scripts/oldest-go.sh MODULE...
#
# Every package is built and vetted. Libraries also run the tests that need no server: $QUICK in the root, all in
# coord/*. If a Go cannot be fetched, one line says so, and that is no failure. Nor is a module tried whose Go differs from the one that
# is here by fixes alone: it was tried with that.
set -euo pipefail
unset CDPATH # with it, cd may go elsewhere and says where

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
have=$(GOTOOLCHAIN=local go env GOVERSION)
export GOWORK=off TURNWISE_SERVERS=/nowhere TURNWISE_REQUIRE_SERVERS=

for m in "$@"; do
	cd "$here/$m"
	export GOTOOLCHAIN=go$(sed -n 's/^go //p' go.mod)
	if [ "${GOTOOLCHAIN%.*}" = "${have%.*}" ]; then
		echo "== module $m wants $GOTOOLCHAIN, which is $have without its fixes"
		continue
	fi
	if ! why=$(go version 2>&1); then
		echo "module $m is not tried with $GOTOOLCHAIN, which cannot be had: ${why##*$'\n'}"
		continue
	fi
	echo "== module $m with $GOTOOLCHAIN"
	go vet ./... # which builds them
	case $m in
	.) go test -short $QUICK ;;
	coord/*) go test -short ./... ;;
	esac
done
