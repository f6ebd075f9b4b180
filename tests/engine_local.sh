#!/bin/bash
# Ranks as processes: the losses of every layout and transport are the same to the last digit, a rank
# that is killed is named within seconds, and refusals say why.
set -uo pipefail
fivefold=$FF_BINARY
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() {
    echo "FAIL $*"
    failures=$((failures + 1))
}
seq 1 4000 | tr '\n' ' ' >"$work/text"
model=layers=4,hidden=32,heads=4,kv_heads=2,ffn=64,vocab=256
train() { # LAYOUT TRANSPORT
    "$fivefold" train "$model" "$1" --data "$work/text" --seq 16 --gbs 8seq --steps 6 \
        --transport "$2" -o json -q | grep -E '"(loss|gradient_norm)":'
}

train "" loopback >"$work/one" || fail "one rank"
[ "$(grep -c '"loss"' "$work/one")" -eq 6 ] || fail "six losses of one rank"
for layout in "" mbs=4 dp=2 dp=2,zero=3,zero3_weights=stream tp=2,sp=0 pp=2,zero=0 dp=2,pp=2,zero=2; do
    for transport in local loopback; do
        train "$layout" "$transport" >"$work/other" || fail "$layout $transport"
        cmp -s "$work/one" "$work/other" || fail "$layout $transport: other losses"
    done
done

# Learned positions, and any division into microbatches.
printf '{"model_type":"gpt2","n_embd":32,"n_layer":2,"n_head":4,"n_positions":16,"vocab_size":256,
"activation_function":"gelu_new","tie_word_embeddings":false}' >"$work/gpt2.json"
llama=$model
model=$work/gpt2.json
train mbs=8 loopback >"$work/gpt2" || fail "one rank of GPT-2"
for layout in mbs=1 mbs=2 dp=2,mbs=4 dp=4,zero=2 pp=2,mbs=2 tp=2,sp=0,mbs=4; do
    train "$layout" loopback >"$work/other" || fail "GPT-2 $layout"
    cmp -s "$work/gpt2" "$work/other" || fail "GPT-2 $layout: other losses"
done
model=$llama

# The same tokens as a text, as nanoGPT's and as llm.c's file give the same losses.
perl -e 'local $/; open F, "<", $ARGV[0]; $t = <F>; $n = length $t;
    open A, ">", "$ARGV[1].bin"; print A pack("v*", unpack("C*", $t));
    open B, ">", "$ARGV[1].llmc"; print B pack("V256", 20240520, 1, $n), pack("v*", unpack("C*", $t));
    open C, ">", "$ARGV[1].bad"; print C pack("V256", 20240520, 1, $n + 1), pack("v*", unpack("C*", $t))' \
    "$work/text" "$work/tokens"
for file in tokens.bin tokens.llmc; do
    "$fivefold" train "$model" --data "$work/$file" --seq 16 --gbs 8seq --steps 6 -o json -q \
        --transport loopback --log "$work/log" | grep -E '"(loss|gradient_norm)":' >"$work/other"
    cmp -s "$work/one" "$work/other" || fail "$file: other losses than the text's"
    [ "$(wc -l <"$work/log")" -eq 6 ] || fail "a log of six lines"
done

# Validation: the same loss under every layout and transport, and no trace of it in what is learned.
valid() { # LAYOUT TRANSPORT OPTION...
    "$fivefold" train "$model" "$1" --data "$work/text" --seq 16 --gbs 8seq --steps 6 \
        --transport "$2" -o json -q "${@:3}" >"$work/json" || fail "$1 $2 with validation"
    grep -E '"validation_loss":' "$work/json"
}
valid "" loopback --val "$work/text" --val-every 3 >"$work/valid"
[ "$(wc -l <"$work/valid")" -eq 3 ] || fail "two validation losses, and the last again"
grep -E '"(loss|gradient_norm)":' "$work/json" | cmp -s "$work/one" - || fail "validation changes what is learned"
for layout in dp=2,zero=3,zero3_weights=stream pp=2,vpp=2,zero=2 tp=2,sp=0,pp=2; do
    for transport in local loopback; do
        valid "$layout" "$transport" --val "$work/text" --val-every 3 | cmp -s "$work/valid" - ||
            fail "$layout $transport: another validation loss"
    done
done
# A tenth is held out: neither learned, nor the loss of what is.
valid "" local --val-every 6 --log "$work/log" >"$work/other"
grep -q '"validation_tokens": 1889' "$work/json" || fail "a tenth of 18893 tokens is held out"
grep -q '"data_tokens": 17004' "$work/json" || fail "nine tenths of 18893 tokens are learned"
[ "$(grep -c '"validation_loss"' "$work/log")" -eq 1 ] || fail "one validation loss in the log"
for key in learning_rate step_s tokens_per_s peak_ratio; do
    [ "$(grep -c "\"$key\"" "$work/log")" -eq 6 ] || fail "$key in each line of the log"
done

# A rank is killed: the others end, the exit status is 3.
"$fivefold" train "$model" dp=2 --data "$work/text" --seq 16 --gbs 8seq --steps 1000000 \
    >"$work/out" 2>"$work/err" &
parent=$!
for _ in $(seq 100); do
    victim=$(cut -d' ' -f1 "/proc/$parent/task/$parent/children")
    [ -n "$victim" ] && break
    sleep 0.05
done
begun=$(date +%s)
kill -9 "$victim" || fail "no rank to kill"
wait "$parent"
[ $? -eq 3 ] || fail "exit status of a dead rank"
[ $(($(date +%s) - begun)) -le 5 ] || fail "a dead rank was seen late"
grep -q "rank [01] died of signal 9" "$work/err" || fail "dead rank not named: $(cat "$work/err")"

# verify as processes: the same end as when one process plays all ranks.
for layout in dp=3,zero=2 tp=2,pp=2,dp=2,zero=3,zero3_weights=stream; do
    "$fivefold" verify "$model" "$layout" --transport local -o json -q >"$work/json" || fail "verify $layout as processes"
    grep -q '"processes_equal": true' "$work/json" || fail "verify $layout: other processes"
done
"$fivefold" verify "$model" dp=2 -o json -q | grep -q processes_equal && fail "processes without --transport local"
"$fivefold" verify "$model" dp=2 -o json -q 2>&1 | grep -q FF0708 && fail "a note under -q"
[ "$("$fivefold" verify "$model" dp=2 2>&1 | grep -c "recipe is taken as fp32")" -eq 1 ] || fail "fp32 is said once"
"$fivefold" verify "$model" dp=2,recipe=fp32 2>&1 | grep -q "recipe is taken" && fail "said though given"

# The text says the losses at both ends and no list of all; -v does.
told() {
    "$fivefold" train "$model" --data "$work/text" --seq 16 --gbs 8seq --steps 6 --val-every 3 -q "$@"
}
told -o json >"$work/json"
told >"$work/told"
for field in first_loss last_loss validation_loss; do
    value=$(sed -n "s/^  \"$field\": \([0-9.]*\),*$/\1/p" "$work/json")
    grep -q "^  loss .*$(printf %.6f "$value")" "$work/told" || fail "$field $value is not told"
done
grep -q gradient_norm "$work/told" && fail "every loss is told twice"
told -v | grep -q gradient_norm || fail "-v does not list the losses"

refuse() { # STATUS WORDS ARGUMENT...
    local status=$1 words=$2
    shift 2
    output=$("$fivefold" "$@" 2>&1)
    [ $? -eq "$status" ] || fail "$*: another exit status than $status"
    grep -q -- "$words" <<<"$output" || fail "$*: $output"
}
refuse 2 "needs --data" train "$model" dp=2
refuse 1 "the vocabulary has 40" train layers=2,hidden=32,heads=4,vocab=40 --data "$work/text"
refuse 2 "counts other tokens" train "$model" --data "$work/tokens.bad"
refuse 1 "cp and ep" verify "$model" cp=2
refuse 1 "this machine can give" verify llama-3.1-70b
refuse 1 "this machine can give" train llama-3.1-70b dp=2 --data "$work/text"
needed_gib() {
    "$fivefold" "$@" 2>&1 | sed -n 's/.*need about \([0-9]*\) GiB.*/\1/p'
}
alone=$(needed_gib train llama-3.1-70b dp=2 --data "$work/text")
compared=$(needed_gib verify llama-3.1-70b dp=2)
[ "$((alone * 2))" -lt "$compared" ] || fail "train needs no single rank beside it: $alone, verify $compared"
refuse 1 "computes in fp32" verify "$model" recipe=bf16-classic
refuse 1 "computes in fp32" verify "$model" recipe=bf16-megatron
refuse 1 "experts" verify mixtral-8x7b
refuse 0 "executed as planned" verify "$model" tp=2,pp=2,dp=2,zero=3,zero3_weights=stream

[ "$failures" -eq 0 ] && echo "processes of all layouts train alike"
exit "$failures"
