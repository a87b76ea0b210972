#!/bin/sh
# run.sh [--regenerate] BUILD_DIR [CASE...] - runs the whole program on each case and compares byte for byte; prints TAP.
#
# A case is a folder tests/golden/<case>/ with
#   cmd     one shell line, run in that folder with BUILD_DIR's tp-plan first on PATH; $GOLDEN_TMP is an empty folder
#   stdout  what it must print
#   stderr  what it must print there; without this file, nothing
#   exit    its exit status
# With --regenerate the last three are written instead.
set -u

is_regenerating=false
if [ "${1-}" = --regenerate ]; then
    is_regenerating=true
    shift
fi
if [ $# -lt 1 ]; then
    echo "usage: run.sh [--regenerate] BUILD_DIR [CASE...]" >&2
    exit 2
fi
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 2
build_dir=$(CDPATH='' cd -- "$1" && pwd) || exit 2
shift
if [ $# -eq 0 ]; then
    for path in "$here"/*/cmd; do
        path=${path%/cmd}
        set -- "$@" "${path##*/}"
    done
fi
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT

# run_case CASE: leaves stdout, stderr and exit in $scratch. The environment is fixed, so that width, language, colour
# and time zone are the same everywhere.
run_case() {
    rm -rf "$scratch/tmp"
    mkdir "$scratch/tmp"
    (
        cd -- "$here/$1" || exit 125
        unset CLICOLOR CLICOLOR_FORCE TERM
        PATH=$build_dir:$PATH LC_ALL=C COLUMNS=120 NO_COLOR=1 GOLDEN_TMP=$scratch/tmp TZ=UTC \
            sh ./cmd >"$scratch/stdout" 2>"$scratch/stderr" </dev/null
    )
    echo $? >"$scratch/exit"
}

# regenerate CASE: writes what the program has just printed as what it must print.
regenerate() {
    cp "$scratch/stdout" "$scratch/exit" "$here/$1/" || return 1
    if [ -s "$scratch/stderr" ]; then
        cp "$scratch/stderr" "$here/$1/"
    else
        rm -f "$here/$1/stderr"
    fi
}

# compare CASE: shows each difference as TAP comments.
compare() {
    differs=0
    for name in exit stderr stdout; do
        expected=$here/$1/$name
        [ "$name" = stderr ] && [ ! -e "$expected" ] && expected=/dev/null
        cmp -s "$expected" "$scratch/$name" && continue
        differs=1
        echo "# $1: $name is not what is expected (-) but (+)"
        diff -u "$expected" "$scratch/$name" 2>&1 | head -n 60 | sed 's/^/# /'
    done
    return $differs
}

number=0
num_failed=0
for case in "$@"; do
    number=$((number + 1))
    run_case "$case"
    if $is_regenerating; then
        regenerate "$case"
    else
        compare "$case"
    fi && echo "ok $number - $case" && continue
    num_failed=$((num_failed + 1))
    echo "not ok $number - $case"
done
echo "1..$number"
[ "$num_failed" -eq 0 ]
