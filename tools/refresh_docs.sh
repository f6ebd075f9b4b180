#!/bin/bash
# Keeps the examples of the documentation true: runs every command that stands in a block
#
#     ```console
#     $ fivefold show schedule 1f1b pp=4 microbatches=8 | head -12
#     ... its output, until the next "$ " or the end of the block
#     ```
#
# and writes what it prints today in place of what stands there. A command goes on after a
# backslash or a pipe at the end of a line, and may cut its output: what a reader types is what is
# run, by bash, in the root of the sources. Standard error is dropped unless the command says 2>&1.
#
# The search's time differs from run to run, and with it where its line is broken; so an output that
# differs in nothing else is left as it stands.
#
# Usage: refresh_docs.sh [--check] FILE.md...     FF_BINARY names the tool (build/fivefold)
#   --check   write nothing; print the differences and exit 1 when there are any
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export LC_ALL=C.UTF-8 COLUMNS=80
unset NO_COLOR
check=0
if [ "${1:-}" = --check ]; then
    check=1
    shift
fi
[ $# -gt 0 ] || { sed -n 's/^# \(Usage.*\)/\1/p' "$0" >&2; exit 2; }
FF_BINARY=$(realpath "${FF_BINARY:-$root/build/fivefold}")
[ -x "$FF_BINARY" ] || { echo "refresh_docs: $FF_BINARY is not built" >&2; exit 2; }
ff_runs=$(mktemp -d)
export FF_BINARY ff_runs
trap 'rm -rf "$ff_runs"' EXIT

# What `fivefold` means in an example. Several examples cut one answer differently: it is run once.
fivefold() {
    local run
    run=$ff_runs/$(printf '%s\0' "$@" | cksum | tr ' ' -)
    if [ ! -e "$run.status" ]; then
        local status=0
        timeout 120 "$FF_BINARY" "$@" >"$run.out" 2>"$run.err" </dev/null || status=$?
        echo $status >"$run.status"
        # 1 is an honest no; anything above is no answer.
        [ $status -le 1 ] || { echo "exit $status"; head -3 "$run.err"; } >>"$ff_runs/faults"
    fi
    cat "$run.err" >&2
    cat "$run.out"
}
export -f fivefold

# The output of an example without the empty lines around it; complains when there is none.
run_example() { # PLACE COMMAND
    local output
    : >"$ff_runs/faults"
    output=$(cd "$root" && bash -c "$2" 2>/dev/null | sed -e '/./,$!d') || true
    if [ -s "$ff_runs/faults" ] || [ -z "$output" ]; then
        echo "$1: this example gives no answer: $2" >&2
        sed 's/^/    /' "$ff_runs/faults" >&2
        return 1
    fi
    printf '%s' "$output"
}

without_time() {
    awk '
        /^ *searched .* layouts in / { line = $0; open = 1; next }
        open && /^            / { sub(/^ +/, " "); line = line $0; next }
        open { print line; open = 0 }
        { print }
        END { if (open) print line }' <<<"$1" |
        sed -E -e 's/(layouts in )[0-9.,]+ [mun]?s/\1T/' -e 's/("elapsed_s": )[0-9.e+-]+/\1T/'
}

# Prints FILE with every output as it is today.
refreshed() { # FILE
    local line command='' shown='' number=0 place='' in_block=0 typing=0 examples=0 failures=0
    finish() { # what stands there unless it is out of date
        [ -n "$command" ] || return 0
        local today
        shown=$(sed -e '/./,$!d' <<<"$shown")
        if ! today=$(run_example "$place" "$command"); then
            failures=$((failures + 1))
            today=$shown
        fi
        [ "$(without_time "$today")" = "$(without_time "$shown")" ] && today=$shown
        printf '%s\n' "$today"
        command='' shown=''
    }
    while IFS= read -r line || [ -n "$line" ]; do
        number=$((number + 1))
        if [ $in_block -eq 0 ]; then
            printf '%s\n' "$line"
            [ "$line" = '```console' ] && in_block=1 examples=0
        elif [ "$line" = '```' ]; then
            finish
            [ $examples -gt 0 ] || { echo "$1:$number: a console block without \$" >&2; return 1; }
            printf '%s\n' "$line"
            in_block=0
        elif [ $typing -eq 1 ] || [ "${line:0:2}" = '$ ' ]; then
            if [ $typing -eq 0 ]; then
                finish
                [ $examples -eq 0 ] || echo
                examples=$((examples + 1)) place=$1:$number
                command=${line:2}
            else
                command+=$'\n'$line
            fi
            printf '%s\n' "$line"
            typing=0
            case $line in *\\ | *\|) typing=1 ;; esac
        else
            shown+=$line$'\n'
        fi
    done <"$1"
    [ $in_block -eq 0 ] || { echo "$1: the last console block is not closed" >&2; return 1; }
    [ $failures -eq 0 ]
}

stale=0
for file in "$@"; do
    if ! refreshed "$file" >"$ff_runs/refreshed.md"; then
        stale=1
    elif [ $check -eq 0 ]; then
        cmp -s "$file" "$ff_runs/refreshed.md" || cat "$ff_runs/refreshed.md" >"$file"
    elif ! diff -u --label "$file" --label "$file, as it is today" "$file" "$ff_runs/refreshed.md"; then
        stale=1
    fi
done
if [ $stale -ne 0 ] && [ $check -eq 1 ]; then
    echo "docs: examples are out of date; tools/refresh_docs.sh $* writes them anew" >&2
fi
exit $stale
