#!/bin/bash
# Says which of the given sources clang-format would change. Versions format differently, so only
# the one that the sources were formatted with is asked; without it the check is left out.
set -euo pipefail
version=14
if ! clang-format --version 2>/dev/null | grep -q "version $version\."; then
    echo "format: not checked (needs clang-format $version)"
    exit 0
fi
if ! clang-format --dry-run -Werror "$@"; then
    echo "format: run make format" >&2
    exit 1
fi
echo "format: all sources are formatted"
