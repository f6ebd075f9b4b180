#!/bin/bash
# tools/check_layers.sh must find what it is there to find: each line below is put into an otherwise
# good tree and has to be refused with its file and line.
set -euo pipefail
checker=$FF_SOURCE_DIR/tools/check_layers.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

good_tree() {
    rm -rf "${tree:?}"/*
    mkdir -p "$tree"/src/{base,input,model,cluster,layout,plan,engine,output} "$tree"/cli \
        "$tree"/include/fivefold
    printf '#include "base/arena.h"\n/* printf("in a comment") */ snprintf("exit(1)");\n' \
        >"$tree/src/model/config.c"
    printf '#include "fivefold/status.h"\n' >"$tree/include/fivefold/model.h"
    printf '#include "fivefold/facts.h"\n#include "base/text.h"\nprintf();\n' >"$tree/cli/main.c"
    printf '#include <libfyaml.h>\n' >"$tree/src/input/reader.c"
}
refuse() { # FILE LINE WORDS
    good_tree
    printf '\n%s\n' "$2" >>"$tree/$1"
    if output=$("$checker" "$tree"); then
        echo "accepted in $1: $2"
        failures=$((failures + 1))
    elif ! grep -q "^$1:[0-9]*: .*$3" <<<"$output"; then
        echo "wrong complaint for '$2' in $1: $output"
        failures=$((failures + 1))
    fi
}

good_tree
"$checker" "$tree" || failures=$((failures + 1))

refuse src/base/arena.c '#include "model/config.h"' 'stands below'
refuse src/base/arena.c '#include "fivefold/model.h"' 'stands below'
refuse src/model/config.c '#include "fivefold/cluster.h"' 'side by side'
refuse include/fivefold/model.h '#include "fivefold/plan.h"' 'stands below'
refuse src/layout/keys.c '#include "output/render.h"' 'stands below'
refuse src/plan/search.c '#include "cli/options.h"' 'stands below'
refuse src/engine/run.c '#include "plan/search.h"' 'must not include'
refuse src/model/config.c '#include "config.h"' 'names no folder'
refuse src/model/config.c '#include "elsewhere/x.h"' 'no such folder'
refuse src/model/config.c '#include <libfyaml.h>' 'libfyaml'
refuse src/model/config.c '#include <unistd.h>' 'no place'
refuse src/model/config.c '    printf("hello");' 'printf'
refuse src/model/config.c '    if (x) exit (1);' 'exit'
refuse src/model/config.c '    abort();' 'abort'
refuse src/output/json.c '    double t = time(NULL);' 'time'
refuse src/output/json.c '    getenv("NO_COLOR");' 'getenv'

[ "$failures" -eq 0 ] && echo "check_layers refuses what it should"
exit "$failures"
