#!/bin/bash
# Times searches of growing size, and the reading of a model: wall seconds, the best of three.
# Usage: bench.sh FIVEFOLD
set -euo pipefail
fivefold=$1
measure() {
    local best=999999999 begun took
    for _ in 1 2 3; do
        begun=$(date +%s%N)
        "$fivefold" "$@" >/dev/null 2>&1 || true
        took=$((($(date +%s%N) - begun) / 1000))
        [ "$took" -lt "$best" ] && best=$took
    done
    printf '%10d us  fivefold %s\n' "$best" "$*"
}
measure show model llama-3.1-70b
measure plan llama-3.1-8b 1x8xh100-80gb-sxm --seq 8192 --gbs 1M
measure plan llama-3.1-70b 16x8xh100-80gb-sxm --seq 4096 --gbs 4M
measure plan llama-3.1-405b 2048x8xh100-80gb-sxm --seq 8192 --gbs 16M
measure plan deepseek-v3 256x8xh800-80gb-sxm --seq 4096 --gbs 62914560
# Layouts estimated a second (memory of every stage, time of the step), nothing skipped.
"$fivefold" plan gpt3-175b 512x8xa100-80gb-sxm --seq 2048 --gbs 3072seq --no-prune --no-simulate --top 1 -q -o json |
    awk -F'[:,]' '/"estimated"/ {n = $2} /"elapsed_s"/ {s = $2}
        END {printf "%10.0f layouts estimated a second  gpt3-175b on 512x8 A100, %d in %.2f s\n", n / s, n, s}'
# Programs of bench/; one that misses its target says so by its exit status.
missed=0
for program in "$(dirname "$fivefold")"/bench/*; do
    [ -x "$program" ] || continue
    "$program" || { echo "$(basename "$program"): below its target"; missed=1; }
done
"$(dirname "$0")"/bench_engine.sh "$fivefold" || { echo "training: below its target"; missed=1; }
exit "$missed"
