#!/bin/sh
# regenerate.sh BUILD_DIR [CASE...] - writes what the program prints now as what it must print. Read the diff: each
# changed number needs its reason in the commit message.
set -eu
if [ $# -lt 1 ]; then
    echo "usage: regenerate.sh BUILD_DIR [CASE...]" >&2
    exit 2
fi
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build_dir=$(CDPATH='' cd -- "$1" && pwd)
shift
. "$here/cases.sh"
if [ $# -eq 0 ]; then
    list_cases
    set -- $cases
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for case in "$@"; do
    run_case "$case"
    cp "$scratch/stdout" "$scratch/exit" "$here/$case/"
    if [ -s "$scratch/stderr" ]; then
        cp "$scratch/stderr" "$here/$case/"
    else
        rm -f "$here/$case/stderr"
    fi
    echo "$case: exit $(cat "$scratch/exit")"
done
