#!/usr/bin/env bash
# Writes NOTICE: which modules of others the program turnwise contains, on any system, and under which licences. With --check
# it only says whether NOTICE is what it would write.
set -euo pipefail
unset CDPATH # with it, cd may go elsewhere and says where

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export GOWORK=off GOFLAGS=-trimpath LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each package is a line: its module, the version, the module's folder and its own.
cd "$here/cmd/turnwise"
for os in darwin linux windows; do
	GOOS=$os CGO_ENABLED=0 go list -deps -f '{{with .Module}}{{if .Version}}{{.Path}} {{.Version}} {{.Dir}} {{$.Dir}}{{end}}{{end}}' .
done | grep -v '^github.com/turnwise/' | sort -u >"$work/packages"

# The licences that apply to a package are those of its folder and of all above it, up to the module's.
licences() { find "$1" -maxdepth 1 -type f | grep -iE '/(licen[cs]e|copying|notice|patents)([.-][a-z0-9.-]*)?$' | grep -vE '\.go$' | sort || true; }
mkdir "$work/texts" "$work/users"
note() { # note WHO FILE
	local sum
	sum=$(sed 's/[[:space:]]*$//' "$2" | sha256sum | cut -c1-64)
	sed 's/[[:space:]]*$//' "$2" >"$work/texts/$sum"
	echo "$1" >>"$work/users/$sum"
}
note "the Go standard library" "$(go env GOROOT)/LICENSE"
while read -r module version root dir; do
	found=
	while :; do
		for file in $(licences "$dir"); do note "$module $version" "$file"; found=1; done
		[ "$dir" != "$root" ] || break
		dir=$(dirname "$dir")
	done
	[ -n "$found" ] || { echo "notice.sh: $module $version says nothing about its licence" >&2; exit 1; }
done <"$work/packages"

{
	echo "The program turnwise contains what others have written, besides what is in this repository. These are the modules and"
	echo "their licences. scripts/notice.sh writes this file."
	for sum in $(for u in "$work"/users/*; do echo "$(sort -u "$u" | head -n 1 | tr ' ' '_') ${u##*/}"; done | sort | cut -d' ' -f2); do
		printf '\n%s\n' "$(printf '=%.0s' {1..100})"
		sort -u "$work/users/$sum"
		printf '%s\n\n' "$(printf -- '-%.0s' {1..100})"
		cat "$work/texts/$sum"
	done
} >"$work/NOTICE"

if [ "${1:-}" = --check ]; then
	cmp -s "$work/NOTICE" "$here/NOTICE" || { echo "NOTICE is stale: run scripts/notice.sh" >&2; exit 1; }
else
	cp "$work/NOTICE" "$here/NOTICE"
fi
