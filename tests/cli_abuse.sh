#!/bin/bash
# What nobody means to type: each invocation ends within five seconds with the expected status and,
# unless it is answered, one clear diagnostic; no answer holds a number that is none.
set -u
export LC_ALL=C.UTF-8
unset NO_COLOR
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failures=0 runs=0
seconds=30
grep -q __asan_init "$FF_BINARY" && seconds=120 # a sanitizer is slower
fail() {
    echo "FAIL $1"
    head -c 2000 out err | sed 's/^/    /'
    failures=$((failures + 1))
}

# abuse STATUS CODE ARGUMENT...: CODE is what standard error must say, - for nothing in particular.
abuse() {
    local status=$1 code=$2 got shown
    shift 2
    shown=$(printf '%q ' "$@" | cut -c1-160)
    timeout $seconds "$FF_BINARY" "$@" >out 2>err </dev/null
    got=$?
    runs=$((runs + 1))
    [ $got -eq "$status" ] || { fail "exit $got instead of $status: $shown"; return; }
    [ "$code" = - ] || grep -q -e "$code" err || { fail "$code is not said: $shown"; return; }
    if [ "$status" -eq 2 ]; then
        [ ! -s out ] || fail "an answer though refused: $shown"
        grep -q '^error\[FF[0-9]*\]: .' err || fail "no error is said: $shown"
    fi
    grep -Eqiw -e '-?(nan|inf|infinity)|-9223372036854775808|9223372036854775807' out &&
        fail "a number that is none: $shown"
    grep -Eq 'AddressSanitizer|runtime error|assert' err && fail "a fault of ours: $shown"
    return 0
}

M=llama-3.1-8b C=2x8xh100-80gb-sxm
job=(plan "$M" "$C") size=(--seq 4096 --gbs 1M)
check() { abuse "$1" "$2" check "$M" "$C" "$3" "${size[@]}"; }
model() { abuse "$1" "$2" plan "$3" "$C" "${size[@]}"; }
cluster() { abuse "$1" "$2" plan "$M" "$3" "${size[@]}"; }
where() { abuse "$1" "$2" "${job[@]}" "${size[@]}" --where "$3"; }
grid() { abuse "$1" "$2" "${job[@]}" "${size[@]}" --grid "$3"; }

# --- sizes of the job ---
abuse 0 - "${job[@]}" --seq 1 --gbs 1
abuse 0 - "${job[@]}" --seq 4096 --gbs 1
abuse 0 - "${job[@]}" --seq 4096 --gbs 3seq
abuse 0 - "${job[@]}" --seq 4097 --gbs 1M
abuse 0 - "${job[@]}" --seq 4096 --gbs 1000000000000000
abuse 2 FF0403 "${job[@]}" --seq 4096 --gbs 1000000000000000000
abuse 2 FF0403 "${job[@]}" --seq 4096 --gbs 1000000000000000seq
abuse 2 FF0403 "${job[@]}" --seq 4294967296 --gbs 1Tseq
abuse 2 FF0403 "${job[@]}" --seq 1000000000000 --gbs 1M
abuse 1 FF0501 "${job[@]}" --seq 4294967296 --gbs 1M
abuse 0 - "${job[@]}" --seq 4096 --gbs 7seq --gbs-exact
abuse 2 FF0403 "${job[@]}" --seq 4096 --gbs seq
abuse 2 FF0403 "${job[@]}" --seq 4096 --gbs 4Mseqseq
abuse 2 FF0403 "${job[@]}" --seq 4096 --gbs 1e999
abuse 2 FF0403 "${job[@]}" --seq ４０９６ --gbs 1M

# --- models ---
model 2 FF0404 ''
model 2 FF0120 "$(printf 'x%.0s' {1..20000})"
model 2 FF0120 лама
model 2 FF0120 $'llama\xff\xfe\033[31m'
model 2 FF0406 /dev/null
model 2 FF0406 /dev/zero
model 2 FF0406 /tmp
model 2 FF0101 /bin/ls
model 2 FF0101 /proc/cpuinfo
model 2 FF0406 nowhere/config.json
model 2 FF0124 =
model 2 FF0124 params=1
model 2 FF0124 params=70e9,layers=0,hidden=8192,heads=64
model 2 FF0124 params=70e9,layers=1025,hidden=8192,heads=64
model 2 FF0124 params=1e999,layers=80,hidden=8192,heads=64
model 2 FF0124 params=nan,layers=80,hidden=8192,heads=64
model 2 FF0124 params=-1,layers=80,hidden=8192,heads=64
model 2 FF0124 params=70e9,layers=80,hidden=9223372036854775807,heads=64
model 2 FF0124 params=70e9,params=7e9,layers=80,hidden=8192,heads=64
model 2 FF0124 params=70e9,layers=80,hidden=8192,heads=64,foo=3
model 2 FF0122 params=70e9,layers=80,hidden=8192,heads=7
model 2 FF0122 params=5,layers=80,hidden=8192,heads=64
model 0 - layers=1,hidden=1,heads=1
model 0 - params=8e9,layers=1024,hidden=1,heads=1
model 2 FF0122 params=1e15,layers=1024,hidden=1048576,heads=65536
model 1 FF0501 params=9e14,layers=1024,hidden=65536,heads=512
config() {
    printf '%s' "$3" >config.json
    abuse "$1" "$2" show model config.json
}
llama='"model_type":"llama","hidden_size":4096,"num_attention_heads":32,"vocab_size":32000,"intermediate_size":11008'
config 2 FF0110 '{}'
config 2 FF0108 '[]'
config 2 FF0101 'null'
config 2 FF0101 '"text"'
config 2 FF0108 '{"model_type":7}'
config 2 FF0108 '{"model_type":"llama","hidden_size":"4096"}'
config 2 FF0110 "{$llama}"
config 2 FF0110 "{$llama,\"num_hidden_layers\":null}"
for bad in -1 0 1e9 1025; do config 2 FF0109 "{$llama,\"num_hidden_layers\":$bad}"; done
for bad in 1.5 true '[1]' '{}' '"32"'; do config 2 FF0108 "{$llama,\"num_hidden_layers\":$bad}"; done
config 2 FF0106 "{$llama,\"num_hidden_layers\":32,\"num_hidden_layers\":33}"
config 2 FF0122 "{$llama,\"num_hidden_layers\":32,\"num_key_value_heads\":5}"
config 0 - "{$llama,\"num_hidden_layers\":32}"

# --- clusters ---
cluster 2 FF0404 ''
cluster 2 FF0305 1x1xh100-80gb-sxm
abuse 2 FF0305 plan "$M" 1x1xh100-80gb-sxm "${size[@]}" --ledger lesson
cluster 2 FF0306 0x8xh100-80gb-sxm
cluster 2 FF0306 8x0xh100-80gb-sxm
cluster 2 FF0402 -1x8xh100-80gb-sxm
cluster 2 FF0303 1.5x8xh100-80gb-sxm
cluster 2 FF0304 1048576x8xh100-80gb-sxm
cluster 2 FF0304 99999999999999999999x8xh100-80gb-sxm
cluster 2 FF0303 2x8x
cluster 2 FF0303 2x8
cluster 2 FF0301 xxx
cluster 2 FF030 '2x8x(mem=40GiB'
cluster 2 FF0303 '2x8x(mem=1e999)'
cluster 2 FF0303 '2x8x(mem=nan)'
cluster 2 FF0109 '2x8x(mem=-1)'
cluster 2 FF0109 '2x8x(mem=0)'
cluster 2 FF0109 '2x8x(mem=40GiB,flops=1e300)'
cluster 2 FF0109 '2x8x(mem=40GiB,flops=0)'
cluster 2 FF0109 '2x8x(mem=80GiB,flops=1)'
cluster 0 - 1x2xh100-80gb-sxm
cluster 0 - 7x5xh100-80gb-sxm
cluster 2 FF0406 /dev/null
cluster 2 FF0101 /bin/ls
cluster 2 FF0303 "$(printf '2x%.0s' {1..5000})"

# --- layouts ---
check 0 - ''
check 2 FF0201 tp
check 2 FF0201 ,
check 2 FF0201 tp=4,
check 2 FF0202 =1
check 2 FF0202 TP=4
check 2 FF0203 tp=8,tp=8
for bad in 0 -1 1.5 '' 4k 0x4 1e1 +4 =4 ４ nan '8 pp=2' 99999999999999999999 4611686018427387904; do
    check 2 FF0204 "tp=$bad"
done
for bad in zero=4 zero=-1 sp=2 mbs=0 m=0 recompute=full:0 recompute=selective:foo recipe=foo \
    schedule=foo grid=foo order=tp-cp-dp order=tp-tp-dp-pp cp_kind=hybrid:0 layers=-1/33; do
    check 2 FF0204 "$bad"
done
check 1 FF0205 tp=1048576,pp=1048576,cp=1048576,dp=1048576
check 1 FF0205 tp=3
check 1 FF0205 dp=32
check 1 FF0204 pp=16,vpp=1000
check 1 FF0206 pp=2,layers=16/17
check 1 FF0206 cp=4,cp_kind=hybrid:3
check 1 FF0206 zero_group=3
check 1 FF0217 ep=2
check 1 FF0221 m=1
check 1 FF0228 mbs=1000000
check 1 FF0272 pp=4,schedule=dualpipe,m=6
check 0 FF0259 m=100000000
check 2 FF0201 "$(printf 'tp=1,%.0s' {1..20000})"
check 2 FF0203 "$(printf 'tp=1,%.0s' {1..200})"
abuse 2 FF0206 check "$M" "$C" recipe=fp32 "${size[@]}" --recipe fp8-te

# --- options ---
abuse 2 FF0403 "${job[@]}" "${size[@]}" --top 0
abuse 2 FF0403 "${job[@]}" "${size[@]}" --top -1
abuse 0 - "${job[@]}" "${size[@]}" --top 999999
abuse 2 FF0403 "${job[@]}" "${size[@]}" --near -1
abuse 2 FF0403 "${job[@]}" "${size[@]}" --near nan
abuse 0 - "${job[@]}" "${size[@]}" --near 100%
abuse 2 FF0403 "${job[@]}" "${size[@]}" --margin 1e30
abuse 0 - "${job[@]}" "${size[@]}" --margin 1e9GiB
abuse 2 FF0403 "${job[@]}" "${size[@]}" --imbalance 0
abuse 2 FF0403 "${job[@]}" "${size[@]}" --imbalance inf
abuse 1 FF0501 plan mixtral-8x7b "$C" "${size[@]}" --imbalance 1e6
abuse 2 FF0402 "${job[@]}" "${size[@]}" --columns 40
abuse 2 FF0402 "${job[@]}" "${size[@]}" -qv
abuse 2 FF0403 "${job[@]}" "${size[@]}" -o
abuse 2 FF0405 "${job[@]}" "${size[@]}" -
abuse 0 - "${job[@]}" --seq 2 --seq 4096 --gbs 1 --gbs 1M
abuse 2 FF0406 "${job[@]}" "${size[@]}" --profile /dev/null
abuse 2 FF0110 "${job[@]}" "${size[@]}" --profile config.json

# --- conditions and grids ---
for bad in tp tp= tp=0 tp=-1 tp==8 'tp=>8' foo=1 =8 zero=4 'tp<8|4' 'recompute<full' sp=2 \
    'tp = 8' 'tp=8;pp=2' 'tp<=99999999999'; do
    where 2 FF0403 "$bad"
done
where 2 FF0403 "$(printf 'tp=1,%.0s' {1..40})"
for none in 'tp<1' tp=3 ep=2 tp=8,tp=4 'zero>3'; do where 1 FF0503 "$none"; done
for bad in tp tp= tp=0 foo=1 tp=1,pp=2 zero=9 "tp=$(seq -s, 100)"; do grid 2 FF0403 "$bad"; done
grid 1 FF0503 tp=3
grid 1 FF0502 vpp=100
grid 1 FF0502 ep=8
grid 1 FF0501 mbs=999999
grid 0 - dp=4,16
abuse 2 FF0403 "${job[@]}" "${size[@]}" --ledger lesson --grid vpp=2

# --- explain and show ---
abuse 2 FF0408 explain FF9999
abuse 2 FF0404 explain "$M"
abuse 2 FF0407 explain "$M" "$C" tp=8 nonsense "${size[@]}"
abuse 2 FF04 explain field no.such.field
abuse 2 FF0408 show rule FF9999
abuse 2 FF0408 show profile nowhere
abuse 2 FF0302 show device h100-9000gb
abuse 2 FF02 show schedule 1f1b pp=0
abuse 2 FF02 show schedule 1f1b pp=99999999 microbatches=99999999
abuse 2 FF0408 show schedule nonsense

echo "cli_abuse: $runs invocations, $failures failed"
[ "$failures" -eq 0 ]
