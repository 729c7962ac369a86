#!/usr/bin/env bash
# Looks for known vulnerabilities that our code reaches: scripts/vulns.sh MODULE...
# If the database does not answer, one line says so, and that is no failure. GOVULNDB names another database.
set -euo pipefail
unset CDPATH # with it, cd may go elsewhere and says where

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export GOWORK=off
govulncheck() { go tool -modfile="$here/tools/go.mod" govulncheck ${GOVULNDB:+-db "$GOVULNDB"} "$@"; }

govulncheck -version >/dev/null # it builds, so what fails next is the database
if ! answer=$(govulncheck -mode=query -format json "stdlib@$(go env GOVERSION)" 2>&1 >/dev/null); then
	echo "govulncheck looked at nothing, its database does not answer: ${answer%%$'\n'*}"
	exit
fi
for m in "$@"; do
	(cd "$here/$m" && govulncheck ./...) || { echo "vulns.sh: module $m: see above" >&2; exit 1; }
done
