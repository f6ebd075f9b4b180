#!/bin/bash
# Tokens a second of a small GPT-2 (bench/gpt2_small.json) on one rank and on two, canonical order and
# --fast; where a Python with torch is found, PyTorch's in the same run, in turns, and the ratios. The best
# step of several counts. Exits 1 when canonical order is below 0.8 or --fast below 1.0 of PyTorch.
# Usage: bench_engine.sh FIVEFOLD
set -euo pipefail
fivefold=$1
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
openmp=/usr/lib/$(uname -m)-linux-gnu/openblas-openmp
steps=3
head -c 200000 "$here"/docs/*.md >"$work/text"

ours() { # RANKS OPTION...
    "$fivefold" train "$here/bench/gpt2_small.json" "dp=$1,mbs=8" --data "$work/text" --seq 256 \
        --gbs "$((8 * $1))seq" --steps $steps --log "$work/log" -q -o json "${@:2}" >/dev/null
    sed -n 's/.*"step_s": \([^,]*\),.*/\1/p' "$work/log" | sort -g | head -1 |
        awk -v tokens=$((2048 * $1)) '{printf "%.0f\n", tokens / $1}'
}

python=
for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import torch' 2>/dev/null; then
        python=$candidate
        break
    fi
done
theirs() { # RANKS
    [ -z "$python" ] && return
    OMP_NUM_THREADS=1 LD_LIBRARY_PATH="$openmp${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        "$python" "$here/bench/torch_gpt2.py" "$1" $steps 2>/dev/null || true
}

larger() { printf '%s\n' "$@" | sort -g | tail -1; }
missed=0
say() { # WHAT OURS THEIRS LEAST
    if [ -z "$3" ]; then
        printf '%10d tokens/s   %s\n' "$2" "$1"
        return
    fi
    awk -v what="$1" -v ours="$2" -v theirs="$3" -v least="$4" 'BEGIN {
        printf "%10d tokens/s   %s: %.2f of PyTorch (%d; wanted %.1f)\n", ours, what, ours / theirs, theirs, least
        exit ours < least * theirs}' || missed=1
}
for ranks in 1 2; do
    canonical=0 fast=0 torch=
    for _ in 1 2; do
        canonical=$(larger "$canonical" "$(ours $ranks)")
        torch=$(larger "$torch" "$(theirs $ranks)")
        fast=$(larger "$fast" "$(ours $ranks --fast)")
    done
    say "training, $ranks rank(s), canonical order" "$canonical" "$torch" 0.8
    say "training, $ranks rank(s), --fast" "$fast" "$torch" 1.0
done
exit $missed
