# cases.sh - how a golden case is found and run: read by run.sh and regenerate.sh, which set $here, $build_dir and
# $scratch.

# Sets $cases to the names of all cases, sorted.
list_cases() {
    cases=
    for path in "$here"/*/cmd; do
        [ -f "$path" ] || continue
        path=${path%/cmd}
        cases="$cases ${path##*/}"
    done
}

# run_case NAME: leaves stdout, stderr and exit in $scratch. The environment is fixed, so that width, language and
# colour are the same everywhere.
run_case() {
    rm -rf "$scratch/tmp"
    mkdir "$scratch/tmp"
    status=0
    (
        cd -- "$here/$1" || exit 125
        unset CLICOLOR CLICOLOR_FORCE TERM
        PATH=$build_dir:$PATH LC_ALL=C COLUMNS=120 NO_COLOR=1 GOLDEN_TMP=$scratch/tmp TZ=UTC \
            sh ./cmd >"$scratch/stdout" 2>"$scratch/stderr" </dev/null
    ) || status=$?
    echo "$status" >"$scratch/exit"
}
