#!/usr/bin/env bash
# Tags a release, and keeps it only if a program that uses it builds and runs:
#
#   scripts/release.sh vX.Y.Z              from a clean main: a commit and the tags, here; pushing them is left to you
#   scripts/release.sh --dry-run vX.Y.Z    all of it in a clone that is thrown away, with what is not committed yet
#
# All modules of the release have one version. The commit makes every go.mod require it, and puts that version above the
# news in CHANGELOG.md. The replace lines stay: users of the modules do not see them. Only the tool's tag is on a commit
# without them.
#
# It tries what the go command would fetch: a folder serves the modules at their tags, and for each of them a program in
# a module of its own, scripts/testdata/consumer/MODULE, gets it from there.
set -euo pipefail
unset CDPATH # with it, cd may go elsewhere and says where

fail() { echo "release.sh: $*" >&2; exit 1; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

dry=
if [ "${1:-}" = --dry-run ]; then dry=1; shift; fi
[ $# = 1 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2; }
version=$1
[[ $version =~ ^v[01]\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] ||
	fail "$version is no version such as v0.3.1; from v2 on the paths of the modules would have to change"
# The library modules within the root's, which are released with it: all but those for development.
nested=($(git -C "$here" ls-files -co --exclude-standard '*/go.mod' | grep -vE '^(examples|tools|verify)/' | xargs -n1 dirname))
tool=cmd/turnwise
tags=("$version")
for m in "${nested[@]}"; do tags+=("$m/$version"); done

if [ -z "$dry" ]; then
	[ "$(git -C "$here" branch --show-current)" = main ] || fail "this is not main"
	[ -z "$(git -C "$here" status --porcelain)" ] || fail "there is something uncommitted"
	for tag in "${tags[@]}"; do
		! git -C "$here" rev-parse -q --verify "refs/tags/$tag" >/dev/null || fail "the tag $tag exists"
	done
fi

work=$(mktemp -d)
trap 'status=$?; rm -rf "$work"; [ $status = 0 ] || echo "release.sh: $version is not released, nothing has changed" >&2' EXIT
clone=$work/clone
git clone -q --shared --no-checkout --no-tags "$here" "$clone"
git() { command git -C "$clone" "$@"; }
if [ -n "$dry" ]; then
	git config user.name "dry run" && git config user.email "dry-run@localhost"
	git config commit.gpgsign false && git config tag.gpgsign false
	git --work-tree="$here" add -A
	git commit -q --allow-empty -m "what is not committed yet"
fi
git reset -q --hard

# The commit.
export GOWORK=off
module_in() { sed -n 's/^module //p' "$clone/$1/go.mod"; }
users=()
for file in $(git ls-files '*go.mod'); do
	for m in . "${nested[@]}"; do
		module=$(module_in "$m")
		if grep -qE "^(require)?[[:space:]]+$module v" "$clone/$file"; then
			go mod edit -require="$module@$version" "$clone/$file"
			users+=("$(dirname "$file")")
		fi
	done
done
for m in "${users[@]}"; do
	(cd "$clone/$m" && go list -deps ./... >/dev/null) || fail "with $version required, module $m does not load"
done
awk -v heading="## ${version#v} - $(date +%Y-%m-%d)" '{ print } /^## Unreleased$/ { print ""; print heading }' \
	"$clone/CHANGELOG.md" >"$work/CHANGELOG.md"
cp "$work/CHANGELOG.md" "$clone/CHANGELOG.md"
git commit -q -a -m "release: $version"
for tag in "${tags[@]}"; do
	if [ "$tag" = "$tool/$version" ]; then
		# go install takes no program whose go.mod has replace lines. So this tag is on a commit beside main, without them.
		sed -i '/^replace (/,/^)/d; /^replace /d' "$clone/$tool/go.mod"
		git commit -q -a -m "release: $tag"
		git tag -a -m "$tag" "$tag"
		git reset -q --hard HEAD~1
	else
		git tag -a -m "$tag" "$tag"
	fi
done

# The programs that use it. Other people's modules come from this machine's cache as far as it has them.
go -C "$here/tools" run ./modproxy "$clone" "$work/proxy" "$version" "${nested[@]}"
GOPROXY=file://$work/proxy,file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)
export GOPROXY GOMODCACHE=$work/cache GOFLAGS="-mod=mod -modcacherw -trimpath -buildvcs=false"
export GOENV=off GONOSUMDB='github.com/turnwise/*'
unset GOPRIVATE GONOPROXY # they would have the tag looked for where it is not yet
use() { # use FOLDER CONSUMER, in a folder of its own
	local module
	module=$(module_in "$1")
	mkdir -p "$work/use/$2"
	cd "$work/use/$2"
	cp "$here/scripts/testdata/consumer/$2/"*.go .
	cp "$clone/$1/go.sum" . # or each module of others would be asked for at the checksum database
	go mod init example.com/consumer 2>/dev/null
	go get "$module@$version" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
	go build -o consumer .
	./consumer
	[ "$(go list -m "$module")" = "$module $version" ]
}
install() { # install FOLDER, a program, as somebody would who has nothing of ours
	local module
	module=$(module_in "$1")
	cd "$work"
	# There is no go.sum, so the checksum database is asked about everybody else's modules. GONOSUMDB leaves out ours alone: a
	# version that is not published yet cannot be there.
	if ! GOBIN=$work/bin go install "$module@$version" 2>"$work/log"; then
		if grep -qE 'checksum mismatch|SECURITY ERROR' "$work/log" || ! grep -q 'verifying module' "$work/log"; then
			cat "$work/log" >&2
			exit 1
		fi
		echo "the checksum database does not answer: what $1 is built from is not compared with it"
		GOBIN=$work/bin GOSUMDB=off go install "$module@$version" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
	fi
	[ "$("$work/bin/$(basename "$1")" --version)" = "$(basename "$1") version $version" ]
}
for m in . "${nested[@]}"; do
	if [ "$m" = "$tool" ]; then
		(install "$m")
	else
		(use "$m" "${m/#./root}")
	fi
done

if [ -n "$dry" ]; then
	git --no-pager show --stat --format=%s "$version^{commit}"
	echo "nothing of it is kept"
	exit
fi
command git -C "$here" pull -q --ff-only "$clone" main
command git -C "$here" fetch -q --atomic "$clone" "${tags[@]/*/refs/tags/&:refs/tags/&}"
echo "tagged. To publish it: git push --atomic origin main ${tags[*]}"
echo "To build what people install of the tool: git checkout $version && make release-files"
