#!/usr/bin/env bash
# test.sh - installs what is missing, builds tp-plan and runs all tests: with gcc, with clang, under the sanitizers, and
# with the calibration programs where the CUDA compiler is. The program is left at build/tp-plan.
# The last line is "N passed, N failed"; the exit status is 1 when anything failed.
set -uo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." || exit 1

num_passed=0
num_failed=0

say() {
    printf '\n== %s\n' "$*"
}

# Counts as one failure what is no test: a build that does not succeed.
fail() {
    printf 'FAILED: %s\n' "$*"
    num_failed=$((num_failed + 1))
}

# set_up FOLDER COMPILER [MESON_OPTION...]: makes the build folder when it is new.
set_up() {
    local folder=$1 compiler=$2 log
    shift 2
    [ ! -f "$folder/build.ninja" ] || return 0
    rm -rf "$folder"
    if ! log=$(CC=$compiler meson setup "$folder" "$@" 2>&1); then
        printf '%s\n' "$log"
        fail "meson setup $folder"
        return 1
    fi
}

# build FOLDER COMPILER [MESON_OPTION...]
build() {
    set_up "$@" || return 1
    if ! ninja -C "$1" --quiet; then
        fail "build of $1"
        return 1
    fi
}

# run_tests FOLDER [MESON_TEST_OPTION...]: runs the tests and adds their subtests to the count.
run_tests() {
    local folder=$1 log=$1/meson-logs/testlog.json status=0 passed failed
    shift
    rm -f "$log"
    meson test -C "$folder" --no-rebuild --print-errorlogs "$@" || status=$?
    if ! read -r passed failed < <(python3 scripts/count_tests.py "$log"); then
        fail "no test log of $folder"
        return
    fi
    num_passed=$((num_passed + passed))
    num_failed=$((num_failed + failed))
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        fail "meson test of $folder"
    fi
}

# Prints the programs of calibrate/bench that a build folder makes, one a line.
list_calibration_programs() {
    meson introspect --targets "$1" | python3 -c '
import json, os, sys
for target in json.load(sys.stdin):
    if target["type"] == "executable" and "/calibrate/bench/" in target["defined_in"]:
        print(os.path.relpath(target["filename"][0], sys.argv[1]))' "$(realpath "$1")"
}

# Prints the folder of nvcc, when NCCL is there too.
find_cuda() {
    local nvcc folder
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
    [ -x "$nvcc" ] || return 1
    folder=$(dirname -- "$(realpath "$nvcc")")
    [ -e "$folder/../include/nccl.h" ] || [ -e /usr/include/nccl.h ] || return 1
    echo "$folder"
}

# Compiles and links the calibration programs, which needs no GPU.
build_calibration_programs() {
    local cuda programs
    if [ -n "$(list_calibration_programs build)" ]; then
        echo "built in build/ already"
        return
    fi
    if ! cuda=$(find_cuda); then
        echo "skipped: no CUDA compiler with NCCL"
        return
    fi
    PATH=$cuda:$PATH set_up build-cuda gcc -Dcalibrate=enabled -Dtests=false || return
    mapfile -t programs < <(list_calibration_programs build-cuda)
    if [ ${#programs[@]} -eq 0 ]; then
        echo "skipped: there are none to build"
        return
    fi
    PATH=$cuda:$PATH ninja -C build-cuda --quiet "${programs[@]}" || fail "build of build-cuda"
}

scripts/setup.sh --tests || {
    fail "setup"
    printf '%d passed, %d failed\n' "$num_passed" "$num_failed"
    exit 1
}

say "gcc: the whole suite"
[ ! -f build/build.ninja ] || meson configure build -Dtests=true # quickstart.sh makes it without
build build gcc && run_tests build

say "the main job of the README"
if scripts/quickstart.sh --top 3; then
    num_passed=$((num_passed + 1))
else
    fail "quickstart.sh"
fi

say "clang: warnings are errors, unit tests"
build build-clang clang -Dcalibrate=disabled && run_tests build-clang --suite unit

say "address and undefined-behaviour sanitizers: the whole suite but for the style of sources and scripts"
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
build build-asan gcc -Db_sanitize=address,undefined -Db_lundef=false -Darena_malloc=true -Dcalibrate=disabled &&
    run_tests build-asan --timeout-multiplier 4 --no-suite lint
unset ASAN_OPTIONS UBSAN_OPTIONS

say "calibration programs: compile and link"
build_calibration_programs

printf '\n%d passed, %d failed\n' "$num_passed" "$num_failed"
[ "$num_failed" -eq 0 ]
