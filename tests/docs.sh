#!/bin/bash
# What README and docs/ show is what the tool prints: every example of a ```console block is run. And
# the check itself must notice a wrong figure, an output that is missing and a command that fails.
set -uo pipefail
shopt -s nullglob
cd "$FF_SOURCE_DIR" || exit 77
refresh=tools/refresh_docs.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
fail() {
    echo "FAIL $1"
    failures=$((failures + 1))
}

"$refresh" --check README.md docs/*.md || fail "examples are out of date"

example() { # NAME COMMAND OUTPUT
    printf 'words\n```console\n$ %s\n%s\n```\nmore words\n' "$2" "$3" >"$dir/$1.md"
}
version=$("$FF_BINARY" version)
example good 'fivefold version' "$version"
"$refresh" --check "$dir/good.md" >/dev/null 2>&1 || fail "a true example is refused"
example wrong 'fivefold version' 'fivefold 99'
"$refresh" --check "$dir/wrong.md" >"$dir/diff" 2>&1 && fail "a wrong output passes"
grep -q '^-fivefold 99$' "$dir/diff" || fail "the difference is not shown"
"$refresh" "$dir/wrong.md" && cmp -s "$dir/wrong.md" "$dir/good.md" || fail "it is not written anew"
example empty 'fivefold version' ''
"$refresh" --check "$dir/empty.md" >/dev/null 2>&1 && fail "a missing output passes"
example typo 'fivefold versoin | head -3' "$version"
"$refresh" --check "$dir/typo.md" >/dev/null 2>&1 && fail "a command that fails passes"
example silent 'fivefold version | grep nothing' ''
"$refresh" --check "$dir/silent.md" >/dev/null 2>&1 && fail "an example that prints nothing passes"
example lines $'fivefold show \\\n    schedule 1f1b pp=2 microbatches=2 | head -1\n$ fivefold version' ''
"$refresh" "$dir/lines.md" && "$refresh" --check "$dir/lines.md" >/dev/null 2>&1 ||
    fail "commands over two lines, or two in a block"
grep -qx "$version" "$dir/lines.md" || fail "the second command of a block is not run"

# A search that takes longer breaks its line elsewhere; that is no difference.
plan='fivefold plan llama-3.1-8b 1x8xh100-80gb-sxm --seq 4096 --gbs 1M --grid tp=1,2 | grep -A1 searched'
example slow "$plan" ''
"$refresh" "$dir/slow.md"
sed -E '/^ +searched/{N;s/\n +/ /;s/ in [^:]+:/ in 12.3 s:\n           /}' "$dir/slow.md" >"$dir/slower.md"
cmp -s "$dir/slow.md" "$dir/slower.md" && fail "the time was not changed"
"$refresh" --check "$dir/slower.md" || fail "another search time is a difference"

[ "$failures" -eq 0 ] && echo "docs: all as shown"
[ "$failures" -eq 0 ]
