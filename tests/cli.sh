#!/bin/bash
# The command line as a user meets it: exit statuses, where output goes, forms of options, colour,
# width, and input that cannot be used. What the answers say is the business of other tests.
set -u
export LC_ALL=C
unset NO_COLOR LANG LC_CTYPE
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
fail() {
    echo "FAIL $1"
    sed 's/^/    /' "$dir/out" "$dir/err"
    failures=$((failures + 1))
}
# expect STATUS STDOUT STDERR ARGUMENT...: a regular expression each, '' for nothing at all.
expect() {
    local status=$1 out=$2 err=$3 got
    shift 3
    timeout 60 "$FF_BINARY" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    got=$?
    [ "$got" -eq "$status" ] || { fail "exit $got instead of $status: $*"; return; }
    matches out "$out" "$*" && matches err "$err" "$*"
}
matches() {
    if [ -z "$2" ]; then
        [ ! -s "$dir/$1" ] || { fail "std$1 is not empty: $3"; return 1; }
    else
        grep -Eq -e "$2" "$dir/$1" || { fail "std$1 does not say '$2': $3"; return 1; }
    fi
}
model=llama-3.1-8b cluster=2x8xh100-80gb-sxm
job=("$model" "$cluster")
size=(--seq 4096 --gbs 1M)

# --- help, version, usage ---
expect 2 '' 'commands'
expect 0 'commands' '' --help
expect 0 'commands' '' help
for command in plan check explain show help version; do
    expect 0 "^fivefold $command" '' help "$command"
    expect 0 "^fivefold $command" '' "$command" --help
    "$FF_BINARY" help | grep -q "^  $command " || fail "help does not list $command"
done
expect 0 '^  tp ' '' help layout
expect 0 '^fivefold [0-9]+\.[0-9]+\.[0-9]+$' '' --version
expect 0 '^fivefold [0-9]' '' version
expect 2 '' 'FF0401.*"plna"' plna
expect 2 '' 'did you mean plan' plna
expect 2 '' 'FF0401' help nonsense
expect 2 '' 'FF0402.*--sqe' plan "${job[@]}" --sqe 4096
expect 2 '' 'did you mean --seq' plan "${job[@]}" --seqq 4096
expect 2 '' 'FF0402.*check takes no option --near' check "${job[@]}" tp=8 --near 2
expect 2 '' 'FF0402.*unknown option -x' plan "${job[@]}" -x
expect 2 '' 'FF0404' plan
expect 2 '' 'FF0404' plan "$model"
expect 2 '' 'FF0404.*--gbs' plan "${job[@]}" --seq 4096
expect 2 '' 'FF0404.*LAYOUT' check "${job[@]}"
expect 2 '' 'FF0405.*"more"' plan "${job[@]}" more "${size[@]}"
expect 2 '' 'FF0405' version 1
expect 2 '' 'FF0408' show modls
expect 2 '' 'did you mean models' show modls
expect 2 '' 'FF0404' show model
expect 2 '' 'FF0405' show models all

# Help must list exactly the options that a command takes, and the manual all of them.
"$FF_BINARY" help --man >"$dir/man"
for command in plan check explain show; do
    for option in $("$FF_BINARY" help "$command" | grep -oE -- '--[a-z-]+' | sort -u); do
        grep -qF -- "$(sed 's/-/\\-/g' <<<"$option")" "$dir/man" || fail "the manual lacks $option"
    done
done
"$FF_BINARY" help --completion | bash -n || fail "the completion is no bash"

# --- values of options ---
for bad in 0 -1 1.5 4k5 abc 99999999999999999999 1e30 '' ' 4' 0x10 nan; do
    expect 2 '' 'FF0403.*--seq' plan "${job[@]}" --gbs 1M --seq="$bad"
    expect 2 '' 'FF0403.*--gbs' plan "${job[@]}" --seq 4096 --gbs="$bad"
    expect 2 '' 'FF0403.*--top' plan "${job[@]}" "${size[@]}" --top="$bad"
done
expect 2 '' 'FF0403.*needs a value' plan "${job[@]}" --seq --gbs 1M
expect 2 '' 'FF0403.*needs a value' plan "${job[@]}" --gbs 1M --seq
expect 2 '' 'FF0403.*takes no value' plan "${job[@]}" "${size[@]}" --gbs-exact=1
expect 2 '' 'FF0403' plan "${job[@]}" "${size[@]}" --near 101
expect 2 '' 'FF0403' plan "${job[@]}" "${size[@]}" --imbalance 0.5
expect 2 '' 'FF0403' plan "${job[@]}" "${size[@]}" --margin much
expect 2 '' 'one of text, json, csv' plan "${job[@]}" "${size[@]}" -o xml
expect 2 '' 'one of auto' plan "${job[@]}" "${size[@]}" --color blue
expect 2 '' 'one of bf16-megatron' plan "${job[@]}" "${size[@]}" --recipe fp7
expect 2 '' 'FF0408' plan "${job[@]}" "${size[@]}" --profile nonsense

# --- forms of options: all of these ask the same ---
plan() { timeout 60 "$FF_BINARY" "$@" 2>/dev/null | sed 's/layouts in [0-9.,]* [a-z]*s/layouts in T/'; }
plan plan "${job[@]}" --seq 4096 --gbs 1M >"$dir/same"
[ -s "$dir/same" ] || fail "plan prints nothing"
same() { plan "$@" | cmp -s - "$dir/same" || fail "differs: $*"; }
same plan "${job[@]}" --seq=4096 --gbs=1M
same --seq 4096 plan --gbs 1000k "${job[@]}"
same plan --gbs 1M --seq 4096 -- "${job[@]}"
same plan "${job[@]}" --seq 8192 --seq 4096 --gbs 1M -q -o text --color=never
same plan "${job[@]}" --seq 4096 --gbs 1M -otext -v

# --- what a step sends is counted on a stage that has experts: DeepSeek's first layers have none ---
expect 0 'A step, a rank of stage 1' . explain deepseek-v3 256x8xh800-80gb-sxm dp=128,pp=16,ep=64 \
    --seq 4096 --gbs 15360seq ep
expect 0 'A step, a rank of stage 0' . explain "${job[@]}" pp=2 "${size[@]}" pp

# --- forms of output ---
expect 0 '^  "schema"' '' plan "${job[@]}" "${size[@]}" -o json
expect 0 '^rank,layout,' '' plan "${job[@]}" "${size[@]}" -o csv
expect 0 '^{' '' show models -o json
if command -v python3 >/dev/null; then
    is_json() { "$FF_BINARY" "$@" -o json >"$dir/json"; python3 -m json.tool "$dir/json" >/dev/null; }
    is_json plan "${job[@]}" "${size[@]}" || fail "plan -o json is no JSON"
    is_json check "${job[@]}" tp=8 "${size[@]}" || fail "check -o json is no JSON"
fi
expect 2 '' 'FF02' check "${job[@]}" tq=8 "${size[@]}" -o json
"$FF_BINARY" check "${job[@]}" tp=8 "${size[@]}" >"$dir/as_word" 2>&1
"$FF_BINARY" check "${job[@]}" --layout tp=8 "${size[@]}" >"$dir/as_option" 2>&1
cmp -s "$dir/as_word" "$dir/as_option" || fail "--layout differs from the argument"
expect 2 '' 'FF0405' check "${job[@]}" tp=8 --layout tp=8 "${size[@]}"
expect 0 . . plan params=8e9,layers=32,hidden=4096,heads=32 "$cluster" "${size[@]}"

# --- terminal: colour, width, characters ---
escape=$(printf '\033')
has_colour() { "$FF_BINARY" "$@" 2>/dev/null | grep -q "$escape"; }
has_colour show models && fail "colour into a pipe"
has_colour show models --color always || fail "--color always gives no colour"
if command -v script >/dev/null; then
    on_terminal() { script -qec "$*" /dev/null </dev/null; }
    TERM=xterm on_terminal "$FF_BINARY help" | grep -q "$escape" || fail "no colour on a terminal"
    TERM=xterm NO_COLOR=1 on_terminal "$FF_BINARY help" | grep -q "$escape" && fail "NO_COLOR is not heard"
    TERM=dumb on_terminal "$FF_BINARY help" | grep -q "$escape" && fail "colour on a dumb terminal"
fi
narrow() {
    local wide
    # A layout is one word to copy: alone on its line it may be longer.
    wide=$("$FF_BINARY" "$@" 2>&1 | awk 'length($0) > 80 && !/^ +([0-9]+ +)?[a-z_0-9]+=[^ ]*$/' | head -1)
    [ -z "$wide" ] || fail "wider than 80 columns: $*: $wide"
}
narrow help
for command in plan check explain show; do narrow help "$command"; done
narrow plan "${job[@]}" "${size[@]}"
narrow check "${job[@]}" tp=8 "${size[@]}"
narrow plan "$model" 16x8xh100-80gb-sxm "${size[@]}" --top 20
for list in models clusters devices profiles rules; do narrow show "$list"; done
LC_ALL=C "$FF_BINARY" plan "${job[@]}" "${size[@]}" 2>&1 | LC_ALL=C grep -q '[^ -~]' &&
    fail "more than ASCII in the C locale"

# --- the environment fails ---
if [ -e /dev/full ]; then
    "$FF_BINARY" show models >/dev/full 2>"$dir/err"
    [ $? -eq 3 ] || fail "a full disk is no exit 3"
fi
"$FF_BINARY" show models 2>"$dir/err" >&-
[ $? -eq 3 ] || fail "a closed standard output is no exit 3"
(trap '' PIPE; "$FF_BINARY" help --man 2>"$dir/err"; echo $? >"$dir/status") | true
[ "$(cat "$dir/status")" -eq 0 ] || fail "a reader that goes away is an error"
[ ! -s "$dir/err" ] || fail "a reader that goes away is complained about"

# --- files ---
expect 2 '' 'FF0406' show model nowhere.json
expect 2 '' 'FF0406' show model "$dir"
expect 2 '' 'FF0406' show cluster "$dir/"
expect 2 '' 'FF0404' show model ''
mkfifo "$dir/fifo.json"
expect 2 '' 'FF0406' show model "$dir/fifo.json"
expect 2 '' 'FF0406' show model /dev/null
: >"$dir/empty.json"
expect 2 '' 'FF01' show model "$dir/empty.json"
expect 2 '' 'FF01' show cluster "$dir/empty.json"
printf '{"a": ' >"$dir/cut.json"
expect 2 '' 'FF01.*' show model "$dir/cut.json"
head -c 17000000 /dev/zero | tr '\0' ' ' >"$dir/large.json"
expect 2 '' 'FF0102' show model "$dir/large.json"
head -c 100000 /dev/urandom >"$dir/noise.json"
expect 2 '' 'FF01' show model "$dir/noise.json"
printf '%0200000d' 0 | tr 0 '[' >"$dir/deep.json"
expect 2 '' 'FF01' show model "$dir/deep.json"
printf '\033[31m\033]0;title\007' >"$dir/escape.json"
expect 2 '' . show model "$dir/escape.json"
grep -q "$escape" "$dir/err" && fail "an escape sequence of a file reaches the terminal"
expect 2 '' . show model "$(printf 'a\033[31m')"
grep -q "$escape" "$dir/err" && fail "an escape sequence of an argument reaches the terminal"
mkdir "$dir/some-model"
cp "$FF_SOURCE_DIR/data/models/llama-3.1-8b.json" "$dir/some-model/config.json"
expect 0 'some-model' '' show model "$dir/some-model"
expect 0 'some-model' '' show model "$dir/some-model/config.json"
(cd / && expect 0 . '' show models)

# --- validate and calibrate: a written profile is one that validate takes ---
grep -E '^outcome,|Zero Bubble' "$FF_SOURCE_DIR/validation/papers.csv" | sed -n 1,12p >"$dir/runs.csv"
expect 0 'cross-validated' '' calibrate "$dir/runs.csv" --write "$dir/mine.yaml"
expect 0 'Zero Bubble' '' validate "$dir/runs.csv" --profile "$dir/mine.yaml"
expect 2 '' 'FF0410' calibrate "$dir/runs.csv" --write "$dir/none/mine.yaml"
head -1 "$dir/runs.csv" >"$dir/empty.csv"
expect 2 '' 'FF0604' calibrate "$dir/empty.csv" --write "$dir/empty.yaml"
[ -e "$dir/empty.yaml" ] && fail "a profile is written without runs"

# --- many arguments ---
expect 2 '' 'FF0405' show schedule 1f1b $(seq 100)

[ "$failures" -eq 0 ] && echo "cli: all as expected"
[ "$failures" -eq 0 ]
