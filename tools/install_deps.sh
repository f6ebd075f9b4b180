#!/bin/bash
# Installs what a build needs and is not there yet. Usage: install_deps.sh [tests]
#   without an argument: a compiler, cmake, pkg-config, libfyaml   (plan only)
#   tests:               cmocka too
# As root, or with sudo that asks for no password, it installs; else it prints the line to run and
# exits 3. When nothing is missing it says nothing.
set -euo pipefail
with_tests=${1:-}

missing=()
need_program() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
need_library() { pkg-config --exists "$1" 2>/dev/null || missing+=("$2"); }

if ! command -v cc >/dev/null 2>&1 && ! command -v gcc >/dev/null 2>&1; then
    missing+=(gcc)
fi
# A compiler without the C library's headers cannot build anything either.
[ -e /usr/include/stdio.h ] || missing+=(libc6-dev)
need_program make make
need_program cmake cmake
need_program pkg-config pkg-config
need_library libfyaml libfyaml-dev
if [ "$with_tests" = tests ]; then
    need_library cmocka libcmocka-dev
fi
[ ${#missing[@]} -eq 0 ] && exit 0

line="apt-get install -y --no-install-recommends ${missing[*]}"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "missing: ${missing[*]} (Debian's names); install them with your package manager" >&2
    exit 3
fi
if [ "$(id -u)" -eq 0 ]; then
    as_root=()
elif sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
else
    echo "missing: ${missing[*]}; run this once, then make again:" >&2
    echo "sudo $line"
    exit 3
fi
echo "installing: ${missing[*]}" >&2
run() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >&2; }
run apt-get update -q
# shellcheck disable=SC2086
if ! run $line; then
    echo "could not install; run this, then make again:" >&2
    echo "sudo $line"
    exit 3
fi
