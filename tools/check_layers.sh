#!/bin/bash
# Checks the house rules that a compiler does not (ARCHITECTURE.md, "The house"):
#   - a folder of src/ includes only those above it in the order below; folders on one line do not
#     see each other. A public header belongs to the module of its name.
#   - src/ does not print, exit, or touch files, clocks, threads or the environment.
# Usage: check_layers.sh [ROOT]. Prints file:line for each violation; exits 1 when there is any.
set -euo pipefail
root=${1:-$(dirname "${BASH_SOURCE[0]}")/..}
cd "$root"

# From top to bottom.
order='base
input
model cluster mesh
presets
layout
layer
schedule
program
memory cost
simulate
rules
framework
plan
engine
verify
validate
output
cli'
# Folders that see fewer than those above them: "folder: folders".
narrow='engine: base mesh layout layer schedule program'
# Public headers whose module is not called like them: "header=module".
headers='diagnostics=base facts=base status=base version=base inputs=output fivefold=cli'
# What src/ must not call or include, and where it may: the reader wraps a parser of files, the
# engine runs processes.
forbidden='printf fprintf vprintf vfprintf puts fputs fputc putc putchar perror exit _exit abort
    time clock_gettime gettimeofday fopen getenv setenv system popen fork srand rand'
forbidden_headers='unistd.h fcntl.h time.h pthread.h threads.h signal.h sys/'
exempt='^src/(input/reader[.]c|engine/)'
parser_user='src/input/reader.c'
# A program out of memory cannot go on; base says so once for all.
may_abort='src/base/'

find src cli include -name '*.[ch]' -o -name '*.def' | LC_ALL=C sort | xargs awk \
    -v order="$order" -v narrow="$narrow" -v headers="$headers" -v forbidden="$forbidden" \
    -v forbidden_headers="$forbidden_headers" -v exempt="$exempt" -v parser_user="$parser_user" \
    -v may_abort="$may_abort" '
BEGIN {
    lines = split(order, row, "\n")
    for (i = 1; i <= lines; i++) {
        n = split(row[i], name, " ")
        for (j = 1; j <= n; j++) rank[name[j]] = i
    }
    n = split(narrow, row, "\n")
    for (i = 1; i <= n; i++) {
        split(row[i], side, ":")
        limited[side[1]] = 1
        m = split(side[2], name, " ")
        for (j = 1; j <= m; j++) sees[side[1], name[j]] = 1
    }
    n = split(headers, pair, " ")
    for (i = 1; i <= n; i++) { split(pair[i], side, "="); home[side[1]] = side[2] }
    n = split(forbidden, name, " ")
    for (i = 1; i <= n; i++) banned[name[i]] = 1
    banned_headers = split(forbidden_headers, banned_header, " ")
    bad = 0
}
function complain(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; bad = 1 }

# The module that a path such as "base/arena.h" or "fivefold/model.h" belongs to.
function module_of(path,   part, stem) {
    split(path, part, "/")
    if (part[1] != "fivefold") return part[1]
    stem = part[2]; sub(/\.h$/, "", stem)
    return (stem in home) ? home[stem] : stem
}
function module_of_file(path,   part) {
    split(path, part, "/")
    if (part[1] == "cli") return "cli"
    return module_of(part[1] == "include" ? part[2] "/" part[3] : part[2])
}
# The line without comments and texts; block comments may span lines.
function code_of(line,   out, i, c, two) {
    out = ""
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1); two = substr(line, i, 2)
        if (in_comment) { if (two == "*/") { in_comment = 0; i++ } continue }
        if (two == "/*") { in_comment = 1; i++; continue }
        if (two == "//") break
        if (c == "\"" || c == "\047") {
            for (i++; i <= length(line) && substr(line, i, 1) != c; i++)
                if (substr(line, i, 1) == "\\") i++
            out = out c c
            continue
        }
        out = out c
    }
    return out
}
function check_include(line,   path, from, to) {
    path = line
    sub(/^[ \t]*#[ \t]*include[ \t]*"/, "", path)
    sub(/".*/, "", path)
    from = module_of_file(FILENAME); to = module_of(path)
    if (path !~ /\//) { complain("include \"" path "\" names no folder"); return }
    if (from == to) return
    if (!(to in rank)) { complain("\"" path "\": no such folder in the design"); return }
    if (!(from in rank)) { complain("this file belongs to no folder of the design"); return }
    if (from in limited && !((from, to) in sees))
        complain(from " must not include " to " (\"" path "\")")
    else if (rank[to] == rank[from])
        complain(from " and " to " stand side by side and do not see each other (\"" path "\")")
    else if (rank[to] > rank[from])
        complain(from " must not include " to ", which stands below it (\"" path "\")")
}
function check_system_include(code,   i) {
    if (code ~ /<libfyaml/ && FILENAME != parser_user)
        complain("only " parser_user " may use libfyaml")
    if (FILENAME !~ /^src\// || FILENAME ~ exempt) return
    for (i = 1; i <= banned_headers; i++)
        if (index(code, "<" banned_header[i]))
            complain("<" banned_header[i] "> has no place in src/")
}
function check_calls(code,   word) {
    while (match(code, /[A-Za-z_][A-Za-z_0-9]*[ \t]*\(/)) {
        word = substr(code, RSTART, RLENGTH)
        sub(/[ \t]*\($/, "", word)
        if (word in banned && !(word == "abort" && index(FILENAME, may_abort) == 1))
            complain(word "() has no place in src/")
        code = substr(code, RSTART + RLENGTH)
    }
}
FNR == 1 { in_comment = 0 }
{ raw = $0; code = code_of(raw) }
code ~ /^[ \t]*#[ \t]*include[ \t]*"/ { check_include(raw); next }
code ~ /^[ \t]*#[ \t]*include[ \t]*</ { check_system_include(code) }
FILENAME ~ /^src\// && FILENAME !~ exempt { check_calls(code) }
END { if (!bad) print "layers: every include and call is where it belongs"; exit bad }'
