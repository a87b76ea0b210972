#!/bin/sh
# run.sh BUILD_DIR [CASE...] - runs the whole program on each case and compares byte for byte; prints TAP.
#
# A case is a folder tests/golden/<case>/ with
#   cmd     one shell line, run in that folder with BUILD_DIR's tp-plan first on PATH; $GOLDEN_TMP is an empty folder
#   stdout  what it must print
#   stderr  what it must print there; without this file, nothing
#   exit    its exit status
# regenerate.sh writes the last three.
set -u
if [ $# -lt 1 ]; then
    echo "usage: run.sh BUILD_DIR [CASE...]" >&2
    exit 2
fi
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 2
build_dir=$(CDPATH='' cd -- "$1" && pwd) || exit 2
shift
. "$here/cases.sh"
if [ $# -eq 0 ]; then
    list_cases
    set -- $cases
fi
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT

# compare CASE NAME: shows a difference as TAP comments.
compare() {
    expected=$here/$1/$2
    [ -e "$expected" ] || expected=/dev/null
    cmp -s "$expected" "$scratch/$2" && return 0
    echo "# $1: $2 differs from what is expected (-) in"
    diff -u "$expected" "$scratch/$2" | head -n 60 | sed 's/^/# /'
    return 1
}

number=0
num_failed=0
for case in "$@"; do
    number=$((number + 1))
    run_case "$case"
    verdict=ok
    for name in exit stderr stdout; do
        compare "$case" "$name" || verdict='not ok'
    done
    [ "$verdict" = ok ] || num_failed=$((num_failed + 1))
    echo "$verdict $number - $case"
done
echo "1..$number"
[ "$num_failed" -eq 0 ]
