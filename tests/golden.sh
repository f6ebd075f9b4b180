#!/bin/bash
# Golden outputs: each tests/golden/NAME.cmd holds one command line (`fivefold plan ...`), NAME.out
# what it prints: standard error, standard output, exit status. UPDATE=1 writes them anew. The
# search's time, which is never the same, is shown as T.
set -uo pipefail
export LC_ALL=C.UTF-8
unset NO_COLOR
cd "$FF_SOURCE_DIR/tests/golden" 2>/dev/null || exit 77
shopt -s nullglob
commands=(*.cmd)
[ ${#commands[@]} -gt 0 ] || exit 77

got=$(mktemp)
trap 'rm -f "$got"' EXIT
fivefold() { "$FF_BINARY" "$@"; }
# The time's length moves where its paragraph wraps, so that the paragraph is joined.
normalise() {
    sed -E -e ':a' -e '/^  searched /{N;s/\n {12}/ /;ta;P;D}' |
        sed -E -e 's/(layouts in )[0-9.,]+ [mun]?s/\1T/' -e 's/("elapsed_s": )[0-9.e+-]+/\1T/'
}
failures=0
for command in "${commands[@]}"; do
    expected=${command%.cmd}.out
    {
        # shellcheck disable=SC1090
        (. "./$command") 2>&1 </dev/null
        echo "exit $?"
    } | normalise >"$got"
    if [ -n "${UPDATE:-}" ]; then
        cp "$got" "$expected"
    elif ! diff -u "$expected" "$got"; then
        echo "FAIL $command ($(cat "$command")); UPDATE=1 tests/golden.sh accepts it"
        failures=$((failures + 1))
    fi
done
echo "golden: ${#commands[@]} commands, $failures differ"
[ "$failures" -eq 0 ]
