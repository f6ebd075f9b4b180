#!/bin/bash
# `simulate` at the command line: text within 80 columns, JSON, and a trace that is whole or not there.
set -euo pipefail
fivefold=${FF_BINARY:?}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
fail() { echo "FAIL $*"; failures=$((failures + 1)); }
job=(llama-3.1-8b 2x8xh100-80gb-sxm --seq 4096 --gbs 1M)

for layout in tp=2,pp=4,zero=1 tp=2,pp=4,vpp=4,zero=1 tp=2,pp=4,schedule=zb-h2 tp=2,pp=4,schedule=zb-v \
    tp=2,pp=4,schedule=v-half tp=2,pp=4,schedule=dualpipe tp=2,pp=4,schedule=dualpipe-v tp=1,zero=3; do
    "$fivefold" simulate "${job[@]}" "$layout" >"$folder/text" 2>/dev/null || fail "$layout"
    wide=$(LC_ALL=C.UTF-8 wc -L <"$folder/text")
    [ "$wide" -le 80 ] || fail "$layout: $wide columns wide"
    "$fivefold" simulate "${job[@]}" "$layout" -o json >"$folder/json" 2>/dev/null || fail "$layout json"
    for key in step_s stages busy_s exposed_s idle_s peak_bytes peak_at_s tensors critical_path \
        counts calls events elapsed_s; do
        grep -q "\"$key\"" "$folder/json" || fail "$layout: no $key"
    done
done

"$fivefold" simulate "${job[@]}" tp=2,pp=4 --trace "$folder/step.json" --detail operator >/dev/null 2>&1 ||
    fail "trace"
grep -q '"ph":"s"' "$folder/step.json" || fail "no flows"
# A disk that is full: the write fails, and nothing is left.
mkdir "$folder/full"
status=0
(trap '' XFSZ; ulimit -f 8; "$fivefold" simulate "${job[@]}" tp=2,pp=4 --trace "$folder/full/step.json" \
    --detail operator) >/dev/null 2>"$folder/errors" || status=$?
[ "$status" = 3 ] || fail "full disk: exit $status"
[ -z "$(ls -A "$folder/full")" ] || fail "full disk: left $(ls -A "$folder/full")"
status=0
"$fivefold" simulate "${job[@]}" tp=2,pp=4 --trace "$folder/none/step.json" >/dev/null 2>&1 || status=$?
[ "$status" = 2 ] || fail "no folder: exit $status"
# What cannot be simulated leaves no file either.
status=0
"$fivefold" simulate "${job[@]}" tp=2,pp=4,schedule=dualpipe,m=3 --trace "$folder/full/step.json" \
    >/dev/null 2>"$folder/errors" || status=$?
[ "$status" = 1 ] || fail "illegal schedule: exit $status"
grep -q 'microbatches=8' "$folder/errors" || fail "no nearest legal number"
[ -z "$(ls -A "$folder/full")" ] || fail "illegal schedule: left a file"

echo "simulate: $failures failed"
[ "$failures" = 0 ]
